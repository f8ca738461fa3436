//! The distribution that the parameters name, computed the slow and plain way.
//!
//! It is written from the description of the pipeline, not from the engine: a list of tokens, sorted in full
//! after every edit, masses as f64 sums of the platform's `exp`. What it shares with the engine is the
//! parameters' type.
//!
//! Masses are compared with `p` in floating point here and in integers there, so a token whose place is
//! within rounding of a border may rightly be in or out. [`Expected`] therefore lists every answer that such
//! decisions allow, and [`check`] takes any of them and nothing else. A temperature that the entropy sets is
//! itself off by a little; what that does to later borders and to the probabilities is computed to first
//! order and allowed for.

mod chain;
mod check;
mod edit;
mod expected;
mod left;
mod truncate;

use onedraw::SamplingParams;

pub use check::check;
pub use expected::{Expected, Failure, Outcome};

use expected::Allowance;

/// The distribution over the tokens of `logits` after the whole chain of `params`.
///
/// Parameters must be valid and hold no id outside the row; such ids are ignored here, where the engine
/// reports them. Without a seed, XTC's coin is that of seed 0. If the plain reading fails, the failure is
/// returned, even where a borderline decision could have gone the other way; if only an alternative fails,
/// `uncertain` is set. [`verify`] takes both into account.
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
        let allowance = Allowance { slack: 0.0, ..answers.allowance };
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
