//! What a draw returns.

use serde::{Deserialize, Serialize};

use crate::kept::Kept;

/// A drawn token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// The token.
    pub token: u32,
    /// The seed that drew it.
    pub seed: u64,
    /// The number of output tokens before it.
    pub position: u32,
    /// Which of the `n` sequences it belongs to.
    pub sequence: u32,
    /// The probability with which it was drawn, whatever `logprobs_mode` is. It needs the whole mass, so it is
    /// there only where it is asked for: where `probability` is set, or `logprobs`. In a raw mode, where it is
    /// a second sum over the row, batches and devices go by `probability` alone.
    pub probability: Option<f64>,
    /// Its logprob (in the logits modes its logit) as `logprobs_mode` says, where `logprobs` is set. In raw modes
    /// it is that of the model's own distribution.
    pub logprob: Option<f64>,
    /// 1 + the tokens before it in the order, as `logprobs_mode` says, where `logprobs` is set.
    pub rank: Option<u32>,
    /// The drawn token, then the best others, where `logprobs` is set.
    pub logprobs: Vec<TokenLogprob>,
    /// Where mirostat stands once the token is accepted, where it is on.
    pub mirostat_mu: Option<f64>,
    /// The tokens that could have been drawn, where `kept` asks for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

/// A token that finishes early in the race of a draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Runner {
    /// The token.
    pub token: u32,
    /// How far behind the winner, in units of the logarithm of time; 0 for the winner. In a greedy row: how
    /// far its logit is below the largest.
    pub behind: f64,
}

/// A token with its logprob (or logit, as the mode says) and its rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenLogprob {
    /// The id.
    pub token: u32,
    /// The natural logarithm of its probability; in the logits modes its logit.
    pub logprob: f64,
    /// 1 + the tokens before it in the order.
    pub rank: u32,
}
