//! Whether an answer is right: every sampler's distribution against an f64 oracle that shares no code with
//! any of them.
//!
//! Peers compute in f32, so equality is not asked of them: the total variation between their distribution and
//! the oracle's may be up to [`TOLERANCE`]. A nucleus of tens of thousands of tokens may therefore end a few
//! tokens early or late; that is said, and is not wrong. Who gives tokens only is judged by draws: none may
//! lie outside the oracle's support, and their chi-square must have a p-value above [`FALSE_ALARMS`].

use std::collections::BTreeMap;

use onedraw::SamplingParams;
use onedraw_testkit::chi_square;
use onedraw_testkit::oracle::{self, Expected};
use serde::Serialize;

use crate::engine::Answer;

/// The most that a distribution may be off, in total variation.
pub const TOLERANCE: f64 = 1e-4;
/// How often a right sampler would be called wrong by its draws.
pub const FALSE_ALARMS: f64 = 1e-6;

/// What is to be said of an answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As the oracle has it.
    Right,
    /// Within the tolerance, with other tokens at the border.
    Border(String),
    /// Beyond the tolerance.
    Wrong(String),
    /// Not looked at.
    Unchecked,
}

/// Compares an answer for a row with what the parameters mean.
pub fn judge(row: &[f32], params: &SamplingParams, answer: &Answer) -> Verdict {
    let expected = |row| oracle::distribution(row, params).expect("rows that can be drawn from");
    match answer {
        Answer::Distribution { tokens, probabilities } => {
            let answer: BTreeMap<u32, f64> =
                tokens.iter().copied().zip(probabilities.iter().copied()).collect();
            distance(&expected(row), &answer)
        }
        Answer::Draws { logits, tokens } => follows(&expected(logits), tokens),
    }
}

fn distance(expected: &Expected, answer: &BTreeMap<u32, f64>) -> Verdict {
    let plain = (&expected.tokens, &expected.probabilities);
    let others = expected.alternatives.iter().map(|other| (&other.tokens, &other.probabilities));
    // Of the answers that a borderline token allows, the nearest.
    let nearest = others.chain([plain]).map(|(tokens, probabilities)| {
        let mut left = answer.clone();
        let mut missing = 0;
        let mut sum = 0.0;
        for (token, probability) in tokens.iter().zip(probabilities) {
            let got = left.remove(token);
            missing += usize::from(got.is_none());
            sum += (got.unwrap_or(0.0) - probability).abs();
        }
        let variation = (sum + left.values().sum::<f64>()) / 2.0;
        (variation, missing, left.len())
    });
    let (variation, missing, extra) =
        nearest.min_by(|a, b| a.0.total_cmp(&b.0)).expect("at least the plain one");
    let support = match (missing, extra) {
        (0, 0) => format!("the {} tokens are right", expected.tokens.len()),
        _ => format!("of {} tokens {missing} are missing and {extra} are too many", expected.tokens.len()),
    };
    // Written so that NaN is wrong.
    let is_near = variation <= TOLERANCE;
    match (is_near, missing + extra) {
        (true, 0) => Verdict::Right,
        (true, _) => Verdict::Border(format!("{support}; total variation {variation:.1e}")),
        (false, _) => Verdict::Wrong(format!("{support}; total variation {variation:.1e}")),
    }
}

fn follows(expected: &Expected, tokens: &[u32]) -> Verdict {
    let places: BTreeMap<u32, usize> = expected.tokens.iter().copied().zip(0..).collect();
    let mut counts = vec![0; places.len()];
    let mut outside = 0;
    for token in tokens {
        match places.get(token) {
            Some(&place) => counts[place] += 1,
            None => outside += 1,
        }
    }
    let p_value = chi_square::p_value(&counts, &expected.probabilities);
    let draws = tokens.len();
    match (outside, p_value < FALSE_ALARMS) {
        (0, false) => Verdict::Right,
        (0, true) => Verdict::Wrong(format!("{draws} draws have a chi-square p-value of {p_value:.0e}")),
        _ => {
            Verdict::Wrong(format!("{outside} of {draws} draws are none of the {} tokens left", places.len()))
        }
    }
}

/// Whether listed logprobs are those of the distribution.
pub fn judge_logprobs(row: &[f32], params: &SamplingParams, listed: &[(u32, f64)]) -> Verdict {
    let params = match params.logprobs_mode.is_raw() {
        true => SamplingParams::default(),
        false => params.clone(),
    };
    let expected = oracle::distribution(row, &params).expect("rows that can be drawn from");
    let places: BTreeMap<u32, usize> = expected.tokens.iter().copied().zip(0..).collect();
    for &(token, logprob) in listed {
        let want = places.get(&token).map_or(f64::NEG_INFINITY, |&place| expected.probabilities[place].ln());
        let is_near = (logprob - want).abs() <= TOLERANCE;
        if !is_near {
            return Verdict::Wrong(format!("the logprob of token {token} is {logprob}, not {want}"));
        }
    }
    Verdict::Right
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(tokens: &[u32], probabilities: &[f64]) -> Answer {
        Answer::Distribution { tokens: tokens.to_vec(), probabilities: probabilities.to_vec() }
    }

    #[test]
    fn wrong_answers_are_called_wrong() {
        let row = [1.0f32, 0.5, -2.0, -15.0];
        let params = SamplingParams::from_json(r#"{"top_k": 3}"#).expect("valid");
        let [a, b, c] = [1.0f64.exp(), 0.5f64.exp(), (-2.0f64).exp()];
        let z = a + b + c;
        let judge = |answer: Answer| judge(&row, &params, &answer);
        assert_eq!(judge(answer(&[2, 0, 1], &[c / z, a / z, b / z])), Verdict::Right);
        assert!(matches!(judge(answer(&[0, 1], &[a / (a + b), b / (a + b)])), Verdict::Wrong(_)));
        assert!(matches!(judge(answer(&[0, 1, 2, 3], &[a / z, b / z, c / z, 1e-7])), Verdict::Border(_)));
        assert!(matches!(judge(answer(&[0, 1, 2], &[a / z, b / z, f64::NAN])), Verdict::Wrong(_)));
        let draws = |tokens: Vec<u32>| Answer::Draws { logits: row.to_vec(), tokens };
        assert!(matches!(judge(draws(vec![0; 1000])), Verdict::Wrong(_)));
        assert!(matches!(judge(draws(vec![3])), Verdict::Wrong(_)));
        let counts = [a, b, c].map(|p| (p / z * 10_000.0).round() as usize);
        let fair = (0..).zip(counts).flat_map(|(token, count)| vec![token; count]).collect();
        assert_eq!(judge(draws(fair)), Verdict::Right);
        let logprobs = |list: &[(u32, f64)]| judge_logprobs(&row, &params, list);
        let total = z + (-15.0f64).exp();
        assert_eq!(logprobs(&[(1, (b / total).ln()), (0, (a / total).ln())]), Verdict::Right);
        assert!(matches!(logprobs(&[(1, (b / total).log10())]), Verdict::Wrong(_)));
    }
}
