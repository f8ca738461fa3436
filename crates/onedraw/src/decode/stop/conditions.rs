//! What the parameters say about the end of a sequence and about its text.

use super::{Finish, Phrase};
use crate::params::SamplingParams;
use crate::params::error::ParamError;

/// The stop conditions and banned phrases of the parameters, ready to be matched. Sequences may share one
/// through an [`Arc`](std::sync::Arc).
#[derive(Clone, Debug)]
pub struct StopConditions {
    /// Empty with `ignore_eos`.
    eos: Vec<u32>,
    stop_ids: Vec<u32>,
    /// In the order of the parameters.
    pub(super) strings: Vec<Phrase>,
    /// The longest first: of those that end on one byte it begins first. Equals in the order of the
    /// parameters.
    pub(super) banned: Vec<Phrase>,
    pub(super) include_stop: bool,
    /// The tokens already in the parameters.
    pub(super) written: usize,
    pub(super) min_tokens: usize,
    pub(super) max_tokens: usize,
}

impl StopConditions {
    /// Checks the parameters and takes from them what ends a sequence and what may not stand in it.
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

    pub(super) fn finish_by_id(&self, token: u32) -> Option<Finish> {
        if self.eos.contains(&token) {
            return Some(Finish::Eos { token });
        }
        self.stop_ids.contains(&token).then_some(Finish::StopToken { token })
    }
}
