//! Logprobs: the drawn token's, the best tokens', and a whole prompt's.

use crate::engine::draw::Draw;
use crate::engine::report;
use crate::error::RowError;
use crate::logits::access::RowAccess;
use crate::numeric::key::Key;
use crate::numeric::math::exp;
use crate::params::LogprobsMode;

pub use crate::sampled::TokenLogprob;

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
pub(crate) async fn report<R: RowAccess>(
    draw: &mut Draw<'_, R>,
    token: u32,
    count: i64,
    mode: LogprobsMode,
) -> Result<Report, RowError> {
    let key = report::key_of(draw, token).await?;
    let logprob = value(draw, key, mode).await?;
    let probability = exp(report::logprob(draw, key).await?);
    let rank = report::rank(draw, key).await?;
    let mut logprobs = vec![TokenLogprob { token, logprob, rank }];
    if count != 0 {
        let best = report::best(draw, listed(count)).await?.to_vec();
        let others = best.iter().zip(1u32..).filter(|(key, _)| key.token() != token);
        for (&key, rank) in others {
            let logprob = value(draw, key, mode).await?;
            if logprob > f64::NEG_INFINITY {
                logprobs.push(TokenLogprob { token: key.token(), logprob, rank });
            }
        }
    }
    Ok(Report { token, logprob, probability, rank, logprobs })
}

/// The logprob of a token, or its logit, as the mode says.
async fn value<R: RowAccess>(draw: &mut Draw<'_, R>, key: Key, mode: LogprobsMode) -> Result<f64, RowError> {
    if mode.is_logits() { report::logit(draw, key).await } else { report::logprob(draw, key).await }
}

/// The first `count` tokens of the order that the chain keeps.
pub(crate) async fn best<R: RowAccess>(
    draw: &mut Draw<'_, R>,
    count: u32,
) -> Result<Vec<TokenLogprob>, RowError> {
    let keys = report::best(draw, Some(count)).await?.to_vec();
    let mut best = Vec::with_capacity(keys.len());
    for (key, rank) in keys.into_iter().zip(1u32..) {
        let logprob = report::logprob(draw, key).await?;
        if logprob == f64::NEG_INFINITY {
            break;
        }
        best.push(TokenLogprob { token: key.token(), logprob, rank });
    }
    Ok(best)
}

/// Every kept token with its probability.
pub(crate) async fn distribution<R: RowAccess>(draw: &mut Draw<'_, R>) -> Result<Distribution, RowError> {
    let mut kept = report::support(draw).await?;
    kept.sort_unstable_by_key(|&(key, _)| key);
    Ok(Distribution {
        tokens: kept.iter().map(|(key, _)| key.token()).collect(),
        probabilities: kept.iter().map(|&(_, logprob)| exp(logprob)).collect(),
        logprobs: kept.iter().map(|&(_, logprob)| logprob).collect(),
    })
}

/// One entry per prompt token: none for the first, which nothing predicts.
pub type PromptLogprobs = Vec<Result<Option<Report>, RowError>>;
