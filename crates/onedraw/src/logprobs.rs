//! Logprobs: the drawn token's, the best tokens', and a whole prompt's.

use crate::draw::Draw;
use crate::error::RowError;
use crate::math::exp;
use crate::params::LogprobsMode;

/// A token with its logprob (or logit, as the mode says) and its rank.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct TokenLogprob {
    /// The id.
    pub token: u32,
    /// The natural logarithm of its probability; in the logits modes its logit.
    pub logprob: f64,
    /// 1 + the tokens before it in the order.
    pub rank: u32,
}

/// What is reported of one token.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Report {
    /// The id.
    pub token: u32,
    /// The natural logarithm of its probability; in the logits modes its logit. −inf if the row masks it.
    pub logprob: f64,
    /// Its probability.
    pub probability: f64,
    /// 1 + the tokens before it in the order; of a masked token, 1 + all that are alive.
    pub rank: u32,
    /// The token itself, then the best others in order. Tokens of probability 0 are not listed.
    pub logprobs: Vec<TokenLogprob>,
}

/// The whole distribution that is drawn from: the kept tokens in order.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Distribution {
    /// Ids, logit descending, then id ascending.
    pub tokens: Vec<u32>,
    /// Their probabilities.
    pub probabilities: Vec<f64>,
    /// The logarithms of these; finite even where a probability rounds to 0.
    pub logprobs: Vec<f64>,
}

/// How many of the best tokens to list: a count, or all.
fn listed(count: i64) -> Option<u32> {
    u32::try_from(count).ok().or(if count < 0 { None } else { Some(u32::MAX) })
}

/// Reports `token` and the `count` best (−1: all) as the draw sees them.
pub(crate) fn report(draw: &mut Draw<'_>, token: u32, count: i64, mode: LogprobsMode) -> Report {
    let key = draw.key_of(token);
    let value = |draw: &mut Draw<'_>, key| if mode.is_logits() { draw.logit(key) } else { draw.logprob(key) };
    let logprob = value(draw, key);
    let probability = exp(draw.logprob(key));
    let rank = draw.rank(key);
    let mut logprobs = vec![TokenLogprob { token, logprob, rank }];
    if count != 0 {
        let best = draw.best(listed(count)).to_vec();
        let others = best.iter().zip(1u32..).filter(|(key, _)| key.token() != token);
        for (&key, rank) in others {
            let logprob = value(draw, key);
            if logprob > f64::NEG_INFINITY {
                logprobs.push(TokenLogprob { token: key.token(), logprob, rank });
            }
        }
    }
    Report { token, logprob, probability, rank, logprobs }
}

/// The first `count` tokens of the order that the chain keeps.
pub(crate) fn best(draw: &mut Draw<'_>, count: u32) -> Vec<TokenLogprob> {
    let keys = draw.best(Some(count)).to_vec();
    let kept = keys.into_iter().zip(1u32..).map(|(key, rank)| TokenLogprob {
        token: key.token(),
        logprob: draw.logprob(key),
        rank,
    });
    kept.take_while(|token| token.logprob > f64::NEG_INFINITY).collect()
}

pub(crate) fn distribution(draw: &mut Draw<'_>) -> Distribution {
    let keys = draw.support().to_vec();
    let logprobs: Vec<f64> = keys.iter().map(|&key| draw.logprob(key)).collect();
    Distribution {
        tokens: keys.iter().map(|key| key.token()).collect(),
        probabilities: logprobs.iter().map(|&logprob| exp(logprob)).collect(),
        logprobs,
    }
}

/// One entry a prompt token: none for the first, which nothing predicts.
pub type PromptLogprobs = Vec<Result<Option<Report>, RowError>>;
