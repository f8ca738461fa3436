//! What draws return.

use library::{Distribution, Kept, Sampled, Standing, TokenLogprob};

use crate::error::{Failure, ONEDRAW_OK, Result, onedraw_status};
use crate::memory::{Buffer, Plain};

/// A drawn token. What was not asked for is NaN, or 0 for the rank.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_sampled {
    /// Whether this row was drawn from. If not, the rest means nothing, and in a batch `onedraw_batch_row_error` has
    /// the words.
    pub status: onedraw_status,
    /// The token.
    pub token: u32,
    /// The number of output tokens before it.
    pub position: u32,
    /// Which of the `n` sequences of its parameters it belongs to.
    pub sequence: u32,
    /// The seed that drew it.
    pub seed: u64,
    /// The probability with which it was drawn, where `probability` or `logprobs` is set.
    pub probability: f64,
    /// Its logprob as `logprobs_mode` says, where `logprobs` is set.
    pub logprob: f64,
    /// Where mirostat stands once the token is accepted, where it is on.
    pub mirostat_mu: f64,
    /// 1 + the tokens before it in the order, where `logprobs` is set.
    pub rank: u32,
    /// How many entries `onedraw_sampler_logprobs` or `onedraw_batch_logprobs` has for it, until the next call that draws.
    pub logprobs: u32,
}

/// A token with its logprob and its rank.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_token_logprob {
    /// The id.
    pub token: u32,
    /// 1 + the tokens before it in the order.
    pub rank: u32,
    /// The natural logarithm of its probability; in the logits modes its logit.
    pub logprob: f64,
}

/// A token that can be drawn.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_probability {
    /// The id.
    pub token: u32,
    /// Its probability.
    pub probability: f64,
    /// The natural logarithm of it; finite even where the probability rounds to 0.
    pub logprob: f64,
}

/// The tokens that could have been drawn, where the parameter `kept` asks for them.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_kept {
    /// How many there are.
    pub count: u32,
    /// Whether they are a prefix of the order (1), so that `last_token` and `last_logit` are there, or not (0).
    pub is_prefix: u32,
    /// The last of them in the order.
    pub last_token: u32,
    /// Its logit after all edits.
    pub last_logit: f32,
    /// The logarithm of the sum of exp((x - x_max) / T) over them; 0 in a greedy draw.
    pub ln_mass: f64,
}

impl Plain for onedraw_sampled {}

impl onedraw_sampled {
    /// The result of a row that could not be drawn from.
    pub(crate) fn failed(status: onedraw_status) -> Self {
        let nothing = f64::NAN;
        Self {
            status,
            token: 0,
            position: 0,
            sequence: 0,
            seed: 0,
            probability: nothing,
            logprob: nothing,
            mirostat_mu: nothing,
            rank: 0,
            logprobs: 0,
        }
    }
}

impl From<&Sampled> for onedraw_sampled {
    fn from(sampled: &Sampled) -> Self {
        Self {
            status: ONEDRAW_OK,
            token: sampled.token,
            position: sampled.position,
            sequence: sampled.sequence,
            seed: sampled.seed,
            probability: sampled.probability.unwrap_or(f64::NAN),
            logprob: sampled.logprob.unwrap_or(f64::NAN),
            mirostat_mu: sampled.mirostat_mu.unwrap_or(f64::NAN),
            rank: sampled.rank.unwrap_or(0),
            logprobs: sampled.logprobs.len() as u32,
        }
    }
}

impl onedraw_sampled {
    /// What accepting it there needs: the token, and what mirostat learned.
    pub(crate) fn accepted(&self, standing: &Standing<'_>) -> Result<Sampled> {
        if self.status != ONEDRAW_OK {
            let message = format!("was not drawn: its status is {}", self.status);
            return Err(Failure::argument("sampled", message));
        }
        if (self.seed, self.sequence) != (standing.seed, standing.sequence) {
            let message = format!(
                "was drawn with seed {} for sequence {}, and here they are {} and {}",
                self.seed, self.sequence, standing.seed, standing.sequence
            );
            return Err(Failure::argument("sampled", message));
        }
        let position = standing.output.len();
        if self.position as usize != position {
            let message = format!("was drawn at position {}, and the next one is {position}", self.position);
            return Err(Failure::argument("sampled", message));
        }
        let told = |value: f64| Some(value).filter(|value| !value.is_nan());
        if self.mirostat_mu.is_infinite() {
            return Err(Failure::argument("sampled", "mirostat_mu is infinite"));
        }
        Ok(Sampled {
            token: self.token,
            seed: self.seed,
            position: self.position,
            sequence: self.sequence,
            probability: told(self.probability),
            logprob: told(self.logprob),
            rank: Some(self.rank).filter(|&rank| rank > 0),
            logprobs: Vec::new(),
            mirostat_mu: told(self.mirostat_mu),
            kept: None,
        })
    }
}

/// Checks that there is a position `ahead` of the next one.
pub(crate) fn check_ahead(position: usize, ahead: u32) -> Result<()> {
    let most = u32::MAX as usize - position;
    match ahead as usize <= most {
        true => Ok(()),
        false => Err(Failure::argument("ahead", format_args!("must be at most {most} here, not {ahead}"))),
    }
}

/// Returns the logprobs of a draw.
pub(crate) fn fill_logprobs(sampled: &Sampled, mut buffer: Buffer<'_, onedraw_token_logprob>) -> Result<()> {
    let entry = |&TokenLogprob { token, logprob, rank }: &TokenLogprob| onedraw_token_logprob {
        token,
        rank,
        logprob,
    };
    buffer.fill(sampled.logprobs.iter().map(entry))
}

/// Returns a distribution.
pub(crate) fn fill_distribution(
    distribution: &Distribution,
    mut buffer: Buffer<'_, onedraw_probability>,
) -> Result<()> {
    let Distribution { tokens, probabilities, logprobs } = distribution;
    buffer.fill((0..tokens.len()).map(|i| onedraw_probability {
        token: tokens[i],
        probability: probabilities[i],
        logprob: logprobs[i],
    }))
}

/// The summary of the kept set of a draw.
pub(crate) fn kept_of(sampled: &Sampled) -> Result<(&Kept, onedraw_kept)> {
    let kept = sampled.kept.as_ref();
    let kept = kept.ok_or_else(|| Failure::nothing("the parameter kept did not ask for the kept set"))?;
    let last = kept.last;
    let summary = onedraw_kept {
        count: kept.count,
        is_prefix: u32::from(last.is_some()),
        last_token: last.map_or(0, |last| last.token),
        last_logit: last.map_or(f32::NAN, |last| last.logit),
        ln_mass: kept.ln_mass,
    };
    Ok((kept, summary))
}
