//! What the audits of a text say in sum: whether the same model and sampler wrote it.
//!
//! A token that is not the drawn one has a [distance](Audit::distance): about how much the logits must change to
//! make it the drawn one. The same model in other arithmetic (other kernels, another type of number, another batch)
//! changes the last bits of the logits. Then some tokens differ, and their distances are small. Another
//! temperature, another seed or another model makes more and larger ones.
//!
//! So the test is, for each of several distances: are there more tokens farther away than other arithmetic
//! makes? [`HONEST`] says how many it makes. The chance of at least as many is a tail of a binomial
//! distribution, and the smallest of these tails, times the number of distances, is at most the chance to
//! accuse an honest text.

use serde::{Deserialize, Serialize};

use crate::audit::Audit;
use crate::error::ParamError;

/// What the audits of a text say in sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The same model and sampler: every token is the drawn one.
    Same,
    /// The same model and sampler with other arithmetic: a few tokens differ, by little.
    Arithmetic,
    /// Something else: another model, sampler, parameter or seed, or tokens that were changed.
    Other,
}

impl Verdict {
    /// The name, as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Arithmetic => "arithmetic",
            Self::Other => "other",
        }
    }
}

/// A verdict and its grounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// At most the chance that honest text in other arithmetic looks like this or worse.
    pub chance: f64,
    /// The distance beyond which there are the most tokens too many.
    pub beyond: f64,
    /// The places of the tokens farther away than that, where the verdict is [`Verdict::Other`].
    pub places: Vec<usize>,
}

/// How often other arithmetic, at most, makes a token differ by a distance or more: (difference of logits, share
/// of the tokens).
///
/// The first six are 1.4 to 2.7 times what was measured on 2.8 million draws of two models with logits in bf16, at
/// several temperatures and shares of top-p, in the worst of these settings. The last two continue the curve; one token
/// reached 1.01, which at its setting is more often than the curve says.
/// `bench/results/2026-11-18-audit.md` has the measured shares.
pub const HONEST: [(f64, f64); 8] = [
    (0.0, 0.05),
    (0.05, 0.02),
    (0.1, 0.007),
    (0.2, 0.0008),
    (0.3, 0.0002),
    (0.5, 0.00004),
    (1.0, 2e-6),
    (2.0, 2e-7),
];

/// The rate at which honest texts are called [`Verdict::Other`], at most, unless another one is asked for.
pub const FALSE_ALARMS: f64 = 0.01;

/// Checks a rate of false alarms: it is above 0 and below 1.
pub fn check_false_alarms(rate: f64) -> Result<f64, ParamError> {
    match rate > 0.0 && rate < 1.0 {
        true => Ok(rate),
        false => Err(ParamError::new("false_alarms", format!("must be above 0 and below 1, not {rate}"))),
    }
}

/// Judges the tokens of a text by their audits. `false_alarms` is the rate at which honest text in other
/// arithmetic may be called [`Verdict::Other`]; an error if it is [no such rate](check_false_alarms).
///
/// ```
/// use onedraw::audit::Audit;
/// use onedraw::verdict::{FALSE_ALARMS, Verdict, judge};
/// let drawn = Audit { token: 1, drawn: 1, gap: 0.0, is_kept: true, outside: 0.0, distance: 0.0, mirostat_mu: None };
/// let near = Audit { token: 2, distance: 0.01, ..drawn };
/// let far = Audit { token: 3, distance: 9.0, ..drawn };
/// let text = |other: Audit| [vec![drawn; 150], vec![other]].concat();
/// assert_eq!(judge(&text(drawn), FALSE_ALARMS)?.verdict, Verdict::Same);
/// assert_eq!(judge(&text(near), FALSE_ALARMS)?.verdict, Verdict::Arithmetic);
/// assert_eq!(judge(&text(far), FALSE_ALARMS)?.verdict, Verdict::Other);
/// assert_eq!(judge(&text(far), FALSE_ALARMS)?.places, [150]);
/// # Ok::<(), onedraw::ParamError>(())
/// ```
pub fn judge(audits: &[Audit], false_alarms: f64) -> Result<Judgement, ParamError> {
    judge_against(&HONEST, audits, false_alarms)
}

/// As [`judge`], with what other arithmetic makes of other texts than those that were measured.
pub fn judge_against(
    honest: &[(f64, f64)],
    audits: &[Audit],
    false_alarms: f64,
) -> Result<Judgement, ParamError> {
    check_false_alarms(false_alarms)?;
    let is_beyond = |audit: &Audit, limit: f64| !audit.is_drawn() && audit.distance >= limit;
    let (mut chance, mut beyond) = (1.0, 0.0);
    for &(limit, share) in honest {
        let count = audits.iter().filter(|audit| is_beyond(audit, limit)).count();
        let tail = at_least(count as u64, audits.len() as u64, share);
        if tail < chance {
            (chance, beyond) = (tail, limit);
        }
    }
    chance = f64::min(1.0, chance * honest.len() as f64);
    // No arithmetic draws a token that a mask forbids.
    let is_impossible = |audit: &Audit| audit.distance.is_infinite();
    if audits.iter().any(is_impossible) {
        (chance, beyond) = (0.0, f64::INFINITY);
    }
    let verdict = match audits.iter().all(Audit::is_drawn) {
        true => Verdict::Same,
        false if chance >= false_alarms => Verdict::Arithmetic,
        false => Verdict::Other,
    };
    let says_so = |(place, audit): (usize, &Audit)| is_beyond(audit, beyond).then_some(place);
    let places = match verdict {
        Verdict::Other => audits.iter().enumerate().filter_map(says_so).collect(),
        _ => Vec::new(),
    };
    Ok(Judgement { verdict, chance, beyond, places })
}

/// The chance of at least `count` among `tokens`, where each is one with probability `share`: a tail of the binomial
/// distribution. 1 if `count` is 0, and 0 if it is more than `tokens`.
pub fn at_least(count: u64, tokens: u64, share: f64) -> f64 {
    if count == 0 {
        return 1.0;
    }
    if count > tokens {
        return 0.0;
    }
    // Summed away from the mean, so that the first term is the largest and the sum ends soon.
    let mean = tokens as f64 * share;
    if (count as f64) > mean {
        f64::min(1.0, summed(count, tokens, share, true))
    } else {
        f64::max(0.0, 1.0 - summed(count - 1, tokens, share, false))
    }
}

/// The sum of the binomial distribution's terms from `count` on, upwards or downwards.
fn summed(count: u64, tokens: u64, share: f64, upwards: bool) -> f64 {
    use crate::numeric::math::{exp, ln};
    let (n, odds) = (tokens as f64, share / (1.0 - share));
    // The first term in logarithms, because its factors leave the range of f64.
    let mut term = n * ln(1.0 - share);
    for k in 1..=count {
        term += ln((n - k as f64 + 1.0) / k as f64 * odds);
    }
    let (mut term, mut sum, mut k) = (exp(term), 0.0, count);
    loop {
        sum += term;
        if term <= sum * 1e-17 {
            return sum;
        }
        if upwards {
            if k == tokens {
                return sum;
            }
            term *= (n - k as f64) / (k as f64 + 1.0) * odds;
            k += 1;
        } else {
            if k == 0 {
                return sum;
            }
            term *= k as f64 / (n - k as f64 + 1.0) / odds;
            k -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_of_the_binomial_distribution() {
        let expect = |count, tokens, share, expected: f64| {
            let tail = at_least(count, tokens, share);
            assert!((tail / expected - 1.0).abs() < 1e-12, "{count} of {tokens}: {tail:e}");
        };
        expect(0, 5, 0.5, 1.0);
        expect(5, 5, 0.5, 1.0 / 32.0);
        expect(3, 5, 0.5, 0.5);
        expect(1, 100, 0.01, 0.6339676587267709);
        // Summed with Python's integers and floats.
        expect(40, 1000, 0.02, 4.3398758947463455e-5);
        // Below the mean of long texts, where the first term of the sum from below is too small for f64.
        assert!(at_least(1, 14_700, 0.05) > 1.0 - 1e-9 && at_least(300, 32_000, 0.05) > 1.0 - 1e-9);
        assert!(at_least(5_000, 100_000, 0.05) > 0.49 && at_least(5_000, 100_000, 0.05) < 0.51);
        assert!(at_least(6_000, 100_000, 0.05) < 1e-40);
        expect(3, 1000, 0.0001, 0.00015422348474725638);
    }

    #[test]
    fn a_rate_is_above_0_and_below_1() {
        for rate in [0.0, 1.0, -0.5, f64::NAN, f64::INFINITY] {
            let error = judge(&[], rate).expect_err("no rate");
            assert_eq!(error.field(), "false_alarms", "{rate}");
        }
        assert!(judge(&[], 0.5).is_ok());
    }
}
