//! Whether an answer is one that the oracle allows, and if not, what exactly is wrong with it.

use std::collections::{BTreeMap, BTreeSet};

use super::expected::Expected;

/// Compares an answer with what is expected: the same tokens in the same order, each probability within
/// `tolerance` and what `expected` itself allows.
///
/// Where `expected` is uncertain, any of its alternatives will do. The message says what differs from the
/// plain reading.
pub fn check(
    expected: &Expected,
    tokens: &[u32],
    probabilities: &[f64],
    tolerance: f64,
) -> Result<(), String> {
    let answer = Answer {
        tokens,
        probabilities,
        tolerance: tolerance + expected.tolerance,
        order_in_doubt: expected.order_in_doubt,
    };
    let plain = answer.compare(&expected.tokens, &expected.probabilities);
    let Err(difference) = plain else { return Ok(()) };
    if !expected.uncertain {
        return Err(format!("{difference}; no decision was near a border"));
    }
    if expected.alternatives.iter().any(|other| answer.compare(&other.tokens, &other.probabilities).is_ok()) {
        return Ok(());
    }
    if expected.slack == 0.0 {
        let count = expected.alternatives.len();
        return Err(format!(
            "{difference}; nor is it one of the {count} answers that borderline tokens allow"
        ));
    }
    answer.lies_between(expected).map_err(|reason| {
        format!("{difference}; nor does it lie between the answers that borderline tokens allow: {reason}")
    })
}

/// An answer, and how far it may be off.
struct Answer<'a> {
    tokens: &'a [u32],
    probabilities: &'a [f64],
    tolerance: f64,
    order_in_doubt: bool,
}

impl Answer<'_> {
    fn compare(&self, expected: &[u32], expected_probabilities: &[f64]) -> Result<(), String> {
        let Self { tokens, probabilities, tolerance, .. } = *self;
        well_formed(tokens, probabilities)?;
        let wanted = match tokens == expected {
            true => Some(expected_probabilities.to_vec()),
            false => self.reordered(expected, expected_probabilities),
        };
        let Some(wanted) = wanted else {
            return Err(support_or_order(expected, expected_probabilities, tokens, probabilities));
        };
        for ((token, &want), &got) in tokens.iter().zip(&wanted).zip(probabilities) {
            // Written so that NaN fails.
            let is_near = (got - want).abs() <= tolerance;
            if !is_near {
                return Err(format!(
                    "the probability of token {token} is {got:e}, not {want:e}: off by {:e}, more than {tolerance:e}",
                    got - want
                ));
            }
        }
        Ok(())
    }

    /// The expected probabilities in the answer's order, if the tokens are the same and their order is one
    /// that is possible: tokens may change places only if their probabilities can.
    fn reordered(&self, expected: &[u32], expected_probabilities: &[f64]) -> Option<Vec<f64>> {
        if !self.order_in_doubt || self.tokens.len() != expected.len() {
            return None;
        }
        let by_id: BTreeMap<_, _> = expected.iter().zip(expected_probabilities.iter().copied()).collect();
        let wanted: Vec<f64> =
            self.tokens.iter().map(|token| by_id.get(token).copied()).collect::<Option<_>>()?;
        wanted.is_sorted_by(|before, after| before + 2.0 * self.tolerance >= *after).then_some(wanted)
    }

    /// For more borderline tokens than can be listed: the answer must hold what every listed answer holds,
    /// and be part of one of them, without a gap and with probabilities that differ from its by no more than
    /// the slack.
    fn lies_between(&self, expected: &Expected) -> Result<(), String> {
        let Self { tokens, probabilities, tolerance, .. } = *self;
        well_formed(tokens, probabilities)?;
        let total: f64 = probabilities.iter().sum();
        let is_distribution = (total - 1.0).abs() <= tolerance.max(1e-6);
        if !is_distribution {
            return Err(format!("the probabilities sum to {total}"));
        }
        if expected.slack >= 1.0 {
            return Ok(());
        }
        let plain = (&expected.tokens, &expected.probabilities);
        let others = expected.alternatives.iter().map(|other| (&other.tokens, &other.probabilities));
        let listed: Vec<_> = others.chain([plain]).collect();
        let supports: Vec<BTreeSet<&u32>> =
            listed.iter().map(|(support, _)| support.iter().collect()).collect();
        let held = BTreeSet::from_iter(tokens);
        let is_needed = |token: &u32| supports.iter().all(|support| support.contains(token));
        if let Some(token) = expected.tokens.iter().find(|token| is_needed(token) && !held.contains(token)) {
            return Err(format!("it lacks token {token}, which must be kept"));
        }
        let is_part = |(support, wanted): &(&Vec<u32>, &Vec<f64>)| {
            let mut rest = support.iter().zip(*wanted);
            tokens.iter().zip(probabilities).all(|(token, &got)| {
                let found = rest.find(|(other, _)| *other == token);
                found.is_some_and(|(_, &want)| (got - want).abs() <= tolerance + expected.slack)
            })
        };
        // From the last token that must be kept, what may be kept is kept up to some place on either side.
        let has_no_gap = |support: &[u32]| {
            let middle = support.iter().rposition(is_needed).unwrap_or(0);
            let (front, back) = support.split_at(middle);
            let are_held = |part: &[u32]| -> Vec<bool> {
                part.iter().filter(|token| !is_needed(token)).map(|token| held.contains(token)).collect()
            };
            are_held(front).is_sorted() && are_held(back).iter().rev().is_sorted()
        };
        match listed.iter().any(|answer| is_part(answer) && has_no_gap(answer.0)) {
            true => Ok(()),
            false => Err(format!("it is no part of any of these {} answers", listed.len())),
        }
    }
}

fn well_formed(tokens: &[u32], probabilities: &[f64]) -> Result<(), String> {
    if tokens.len() != probabilities.len() {
        return Err(format!("{} tokens have {} probabilities", tokens.len(), probabilities.len()));
    }
    let mut seen = BTreeSet::new();
    match tokens.iter().find(|token| !seen.insert(**token)) {
        None => Ok(()),
        Some(token) => Err(format!("token {token} stands twice")),
    }
}

fn support_or_order(expected: &[u32], expected_p: &[f64], tokens: &[u32], p: &[f64]) -> String {
    let only_in = |these: &[u32], p: &[f64], those: &[u32]| -> Vec<String> {
        let those = BTreeSet::from_iter(those);
        let only = these.iter().zip(p).filter(|(token, _)| !those.contains(token));
        only.map(|(token, p)| format!("{token} (probability {p:e})")).collect()
    };
    let missing = only_in(expected, expected_p, tokens);
    let extra = only_in(tokens, p, expected);
    if missing.is_empty() && extra.is_empty() {
        let place = expected.iter().zip(tokens).position(|(want, got)| want != got);
        let place = place.expect("lists of the same distinct tokens that differ, differ at some place");
        return format!(
            "the order is wrong: place {place} holds token {}, not {}",
            tokens[place], expected[place]
        );
    }
    let some = |list: &[String]| match list {
        [] => "none".to_owned(),
        [first, .., last] if list.len() > 4 => format!("{first} to {last}, {} in all", list.len()),
        list => list.join(", "),
    };
    format!(
        "the support differs, {} tokens instead of {}: missing {}; too many {}",
        tokens.len(),
        expected.len(),
        some(&missing),
        some(&extra)
    )
}
