//! Whether an answer is one that the oracle allows, and if not, what exactly is wrong with it.

use std::collections::BTreeSet;

use super::Expected;

/// Compares an answer with what is expected: the same tokens in the same order, each probability within `tolerance`.
///
/// Where `expected` is uncertain, any of its alternatives will do. The message says what differs from the plain
/// reading.
pub fn check(
    expected: &Expected,
    tokens: &[u32],
    probabilities: &[f64],
    tolerance: f64,
) -> Result<(), String> {
    let plain = compare(&expected.tokens, &expected.probabilities, tokens, probabilities, tolerance);
    let Err(difference) = plain else { return Ok(()) };
    if !expected.uncertain {
        return Err(format!("{difference}; no decision was near a border"));
    }
    let fits = |other: &super::Outcome| {
        compare(&other.tokens, &other.probabilities, tokens, probabilities, tolerance).is_ok()
    };
    if expected.alternatives.iter().any(fits) {
        return Ok(());
    }
    if expected.slack == 0.0 {
        let count = expected.alternatives.len();
        return Err(format!(
            "{difference}; nor is it one of the {count} answers that borderline tokens allow"
        ));
    }
    between(expected, tokens, probabilities, tolerance).map_err(|reason| {
        format!("{difference}; nor does it lie between the answers that borderline tokens allow: {reason}")
    })
}

fn compare(
    expected: &[u32],
    expected_probabilities: &[f64],
    tokens: &[u32],
    probabilities: &[f64],
    tolerance: f64,
) -> Result<(), String> {
    well_formed(tokens, probabilities)?;
    if expected != tokens {
        return Err(support_or_order(expected, expected_probabilities, tokens, probabilities));
    }
    for ((token, &want), &got) in tokens.iter().zip(expected_probabilities).zip(probabilities) {
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

/// For more borderline tokens than can be listed: the answer must lie between the shortest and the longest one.
fn between(expected: &Expected, tokens: &[u32], probabilities: &[f64], tolerance: f64) -> Result<(), String> {
    well_formed(tokens, probabilities)?;
    let total: f64 = probabilities.iter().sum();
    let is_distribution = (total - 1.0).abs() <= tolerance.max(1e-6);
    if !is_distribution {
        return Err(format!("the probabilities sum to {total}"));
    }
    if expected.slack >= 1.0 {
        return Ok(());
    }
    let supports = || expected.alternatives.iter().map(|other| &other.tokens).chain([&expected.tokens]);
    let shortest = supports().min_by_key(|support| support.len()).expect("the plain answer is there");
    let longest = supports().max_by_key(|support| support.len()).expect("the plain answer is there");
    if !tokens.starts_with(shortest) {
        return Err(format!("it does not begin with the {} tokens that must be kept", shortest.len()));
    }
    if !longest.starts_with(tokens) {
        return Err(format!("it is no beginning of the {} tokens that may be kept", longest.len()));
    }
    for ((token, &want), &got) in tokens.iter().zip(&expected.probabilities).zip(probabilities) {
        let is_near = (got - want).abs() <= tolerance + expected.slack;
        if !is_near {
            return Err(format!("the probability of token {token} is {got:e}, not about {want:e}"));
        }
    }
    Ok(())
}
