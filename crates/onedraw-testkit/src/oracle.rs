//! The distribution that the parameters name, computed the slow and plain way.
//!
//! It is written from the description of the pipeline, not from the engine: a list of tokens, sorted in full after
//! every edit, masses as f64 sums of the platform's `exp`. What it shares with the engine is the parameters' type.
//!
//! Masses are compared with `p` in floating point here and in integers there, so a token whose place is within
//! rounding of a border may rightly be in or out. [`Expected`] therefore lists every answer that such decisions
//! allow, and [`check`] takes any of them and nothing else. A temperature that the entropy sets is itself off by a
//! little; what that does to later borders and to the probabilities is computed to first order and allowed for.

mod chain;
mod check;
mod edit;
mod left;
mod truncate;

use onedraw::{RowError, SamplingParams, Stage};

pub use check::check;

/// One distribution: tokens in order (logit descending, id ascending) and their probabilities.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The support, best token first.
    pub tokens: Vec<u32>,
    /// The probability of each, in the same order. A token far below the best may have 0 and is still in the support.
    pub probabilities: Vec<f64>,
}

/// What the engine should answer for a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The support, best token first.
    pub tokens: Vec<u32>,
    /// The probability of each, in the same order.
    pub probabilities: Vec<f64>,
    /// Whether a decision near a border could change the answer: a mass within 1e-6 of p, a probability within 1e-6
    /// of a bar relative to it, and so on. Then `alternatives` hold the other answers.
    pub uncertain: bool,
    /// The answers that differ from the one above because a token near a border was decided the other way.
    pub alternatives: Vec<Outcome>,
    /// 0 where `alternatives` are complete. Otherwise so many tokens lay near a border that only the smallest and
    /// the largest support are listed; an answer between them differs in probability by less than this. 1 says that
    /// a later stage may turn such a difference into anything.
    pub slack: f64,
    /// How far off a probability may be besides the caller's own tolerance. It is 0 unless the entropy set a
    /// temperature (`dynatemp_range`): its error is then multiplied by the logits.
    pub tolerance: f64,
    /// Whether logits so near to each other that their order is uncertain are in the answer. It happens only where an
    /// edit follows a temperature that the entropy set and rounds what it divided.
    pub order_in_doubt: bool,
}

impl Expected {
    fn only(outcome: Outcome, allowance: chain::Allowance) -> Self {
        let Outcome { tokens, probabilities } = outcome;
        let chain::Allowance { slack, tolerance, order_in_doubt } = allowance;
        let uncertain = slack > 0.0;
        Self { tokens, probabilities, uncertain, alternatives: Vec::new(), slack, tolerance, order_in_doubt }
    }
}

/// Why a row has no distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The logit of this token, the lowest bad one, is NaN.
    Nan(u32),
    /// The logit of this token, the lowest bad one, is +inf.
    Infinite(u32),
    /// The row has no logits.
    Empty,
    /// Every token is masked; the stage masked the last one, or the row came with nothing but −inf.
    NothingLeft(Option<Stage>),
}

impl Failure {
    /// The same failure as the engine reports it; `None` for errors that the oracle does not model.
    pub fn of(error: &RowError) -> Option<Self> {
        match error {
            RowError::NanLogit { token } => Some(Self::Nan(*token)),
            RowError::InfiniteLogit { token } => Some(Self::Infinite(*token)),
            RowError::EmptyRow => Some(Self::Empty),
            RowError::NothingLeft { stage } => Some(Self::NothingLeft(stage.clone())),
            _ => None,
        }
    }
}

/// The distribution over the tokens of `logits` after the whole chain of `params`.
///
/// Parameters must be valid and hold no id outside the row; such ids are ignored here, where the engine reports them.
/// Without a seed, XTC's coin is that of seed 0. If the plain reading fails, the failure is returned, even where a
/// borderline decision could have gone the other way; if only an alternative fails, `uncertain` is set. [`verify`]
/// takes both into account.
///
/// # Panics
///
/// If the order names a stage that the oracle does not know.
pub fn distribution(logits: &[f32], params: &SamplingParams) -> Result<Expected, Failure> {
    let chain::Answers { plain, others, allowance } = answers(logits, params)?;
    let mut expected = Expected::only(plain?, allowance);
    expected.uncertain |= !others.is_empty();
    expected.alternatives = others.into_iter().filter_map(Result::ok).collect();
    Ok(expected)
}

/// Whether `answer`, tokens with their probabilities or a failure, is right for the row: [`distribution`] and
/// [`check`] in one, for rows that may also fail.
pub fn verify(
    logits: &[f32],
    params: &SamplingParams,
    answer: Result<(&[u32], &[f64]), Failure>,
    tolerance: f64,
) -> Result<(), String> {
    let expected = distribution(logits, params);
    match (&expected, &answer) {
        (Ok(expected), Ok((tokens, probabilities))) => {
            return check(expected, tokens, probabilities, tolerance);
        }
        (Err(expected), Err(failure)) if expected == failure => return Ok(()),
        _ => {}
    }
    // One side fails, or both for different reasons. Only a borderline token can excuse that.
    let excused = answers(logits, params).is_ok_and(|answers| {
        let allowance = chain::Allowance { slack: 0.0, ..answers.allowance };
        answers.allowance.slack >= 1.0
            || answers.others.into_iter().any(|other| match (other, &answer) {
                (Err(other), Err(failure)) => other == *failure,
                (Ok(other), Ok((tokens, probabilities))) => {
                    check(&Expected::only(other, allowance), tokens, probabilities, tolerance).is_ok()
                }
                _ => false,
            })
    });
    match (expected, answer) {
        _ if excused => Ok(()),
        (Err(expected), Err(failure)) => Err(format!("it failed with {failure:?}, not with {expected:?}")),
        (Err(expected), Ok(_)) => Err(format!("it gave a distribution, where {expected:?} is due")),
        (Ok(_), Ok(_)) => unreachable!("two distributions were compared above"),
        (Ok(expected), Err(failure)) => {
            Err(format!("it failed with {failure:?}, where {} tokens are left", expected.tokens.len()))
        }
    }
}

fn answers(logits: &[f32], params: &SamplingParams) -> Result<chain::Answers, Failure> {
    if logits.is_empty() {
        return Err(Failure::Empty);
    }
    for (token, &logit) in (0u32..).zip(logits) {
        if logit.is_nan() {
            return Err(Failure::Nan(token));
        }
        if logit == f32::INFINITY {
            return Err(Failure::Infinite(token));
        }
    }
    let order = params.order.clone().unwrap_or_default();
    Ok(chain::run(logits, order.stages(), params))
}

#[cfg(test)]
mod tests;
