//! The conditions under which a sequence ends, and the phrases that its text must not have.

use super::finish::Finish;
use super::phrase::Phrase;
use crate::params::SamplingParams;
use crate::params::error::ParamError;

/// The stop conditions and banned phrases of the parameters, prepared for matching. Several sequences may
/// share one through an [`Arc`](std::sync::Arc).
#[derive(Clone, Debug)]
pub struct StopConditions {
    /// The EOS ids; empty with `ignore_eos`.
    eos: Vec<u32>,
    stop_ids: Vec<u32>,
    /// The stop strings, in the order of the parameters.
    pub(super) strings: Vec<Phrase>,
    /// The banned phrases, the longest first: of phrases that end on the same byte, the longest begins first.
    /// Phrases of one length are in the order of the parameters.
    pub(super) banned: Vec<Phrase>,
    pub(super) include_stop: bool,
    /// The number of output tokens that the parameters already hold.
    pub(super) written: usize,
    pub(super) min_tokens: usize,
    pub(super) max_tokens: usize,
}

impl StopConditions {
    /// Checks the parameters and prepares what ends a sequence and what must not appear in it. Errors are
    /// those of [`SamplingParams::validate`].
    pub fn new(params: &SamplingParams) -> Result<Self, ParamError> {
        params.validate()?;
        let mut banned = Phrase::list(&params.banned_strings);
        banned.sort_by_key(|phrase| std::cmp::Reverse(phrase.len()));
        Ok(Self {
            eos: if params.ignore_eos { Vec::new() } else { params.eos_token_id.clone() },
            stop_ids: params.stop_token_ids.clone(),
            strings: Phrase::list(&params.stop),
            banned,
            include_stop: params.include_stop_str_in_output,
            written: params.output_token_ids.len(),
            min_tokens: params.min_tokens as usize,
            max_tokens: params.max_tokens as usize,
        })
    }

    /// How `token` ends a sequence by its id: as EOS, as a stop id, or not at all.
    pub fn finish_by_id(&self, token: u32) -> Option<Finish> {
        if self.eos.contains(&token) {
            return Some(Finish::Eos { token });
        }
        self.stop_ids.contains(&token).then_some(Finish::StopToken { token })
    }
}
