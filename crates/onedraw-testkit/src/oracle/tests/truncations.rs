//! The truncations beyond top-k, top-p and min-p.

use super::*;

const P4: [f64; 4] = [0.4, 0.3, 0.2, 0.1];

/// Fails unless exactly these tokens are left of the softmax that `probabilities` are, without doubt.
#[track_caller]
fn assert_keeps(probabilities: &[f64], json: &str, kept: &[u32]) {
    let mass: f64 = kept.iter().map(|&token| probabilities[token as usize]).sum();
    let renormalised: Vec<f64> = kept.iter().map(|&token| probabilities[token as usize] / mass).collect();
    assert_certain(&logits(probabilities), json, kept, &renormalised);
}

/// Fails unless there is exactly one answer besides the plain one, with these tokens in some order of the
/// two.
#[track_caller]
fn assert_either(logits: &[f32], json: &str, one: &[u32], other: &[u32]) {
    let expected = distribution(logits, &params(json)).expect("the row has a distribution");
    assert!(expected.uncertain && expected.slack == 0.0, "{json}: {expected:?}");
    let mut supports: Vec<_> = expected.alternatives.iter().map(|outcome| &outcome.tokens[..]).collect();
    supports.push(&expected.tokens);
    supports.sort();
    assert_eq!(supports, [one, other], "{json}");
}

#[test]
fn typical() {
    assert_keeps(&[0.97, 0.01, 0.01, 0.01], r#"{"typical_p": 0.5}"#, &[0]);
    // The best token is farther from the entropy than the others.
    assert_keeps(&[0.4, 0.2, 0.2, 0.2], r#"{"typical_p": 0.5}"#, &[1, 2, 3]);
    assert_keeps(&[0.4, 0.2, 0.2, 0.2], r#"{"typical_p": 0.61}"#, &[0, 1, 2, 3]);
    assert_keeps(&[0.4, 0.2, 0.2, 0.2], r#"{"typical_p": 1e-9}"#, &[1, 2, 3]);
    // Greedy takes the best of what is left.
    assert_certain(&logits(&[0.4, 0.2, 0.2, 0.2]), r#"{"typical_p": 0.5, "temperature": 0}"#, &[1], &[1.0]);
    // With half the mass on one token, all are equally far from the entropy: either side will do, or both.
    let row = logits(&[0.5, 0.1, 0.1, 0.1, 0.1, 0.1]);
    let expected = distribution(&row, &params(r#"{"typical_p": 0.3}"#)).unwrap();
    for support in [&[0u32][..], &[1, 2, 3, 4, 5], &[0, 1, 2, 3, 4, 5]] {
        let mass: f64 = support.iter().map(|&token| if token == 0 { 0.5 } else { 0.1 }).sum();
        let probabilities: Vec<f64> =
            support.iter().map(|&token| if token == 0 { 0.5 } else { 0.1 } / mass).collect();
        assert_eq!(check(&expected, support, &probabilities, 1e-6), Ok(()), "{support:?}");
    }
    // Ties are not parted.
    assert!(check(&expected, &[0, 1], &[5.0 / 6.0, 1.0 / 6.0], 1e-6).is_err());
    // Half the mass is not enough here.
    assert_certain(&row, r#"{"typical_p": 0.6}"#, &[0, 1, 2, 3, 4, 5], &[0.5, 0.1, 0.1, 0.1, 0.1, 0.1]);
}

#[test]
fn bars() {
    assert_keeps(&[0.87, 0.099, 0.001, 0.03], r#"{"epsilon_cutoff": 0.1}"#, &[0]);
    assert_keeps(&P4, r#"{"epsilon_cutoff": 0.19}"#, &[0, 1, 2]);
    assert_keeps(&P4, r#"{"epsilon_cutoff": 1.0}"#, &[0]);
    // The best stay, however likely they are.
    assert_certain(&[1.0, 3.0, 3.0], r#"{"epsilon_cutoff": 0.9}"#, &[1, 2], &[0.5, 0.5]);
    assert_either(&logits(&[0.5, 0.3, 0.2]), r#"{"epsilon_cutoff": 0.3}"#, &[0], &[0, 1]);
    assert_certain(
        &logits(&[1e-9, 0.1, 0.8, 0.1]),
        r#"{"eta_cutoff": 0.0625}"#,
        &[2, 1, 3],
        &[0.8, 0.1, 0.1],
    );
    assert_keeps(&[0.01, 0.04, 0.9, 0.05], r#"{"eta_cutoff": 0.0625}"#, &[2]);
    // Ten equal tokens: sqrt(0.9) / 10 is below their 0.1, though 0.9 is not; the entropy lowers the bar.
    let ten_and_few = [[0.099; 10].as_slice(), &[0.01]].concat();
    assert_keeps(&ten_and_few, r#"{"eta_cutoff": 0.9}"#, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert_keeps(&P4, r#"{"top_a": 1.0}"#, &[0, 1, 2]);
    assert_keeps(&P4, r#"{"top_a": 0.61}"#, &[0, 1, 2, 3]);
    // 0.8 · 0.5² is 0.2.
    assert_either(&logits(&[0.5, 0.3, 0.2]), r#"{"top_a": 0.8}"#, &[0, 1], &[0, 1, 2]);
    assert_keeps(&[0.5, 0.3, 0.2], r#"{"top_a": 0.79}"#, &[0, 1, 2]);
    assert_keeps(&[0.5, 0.3, 0.2], r#"{"top_a": 0.81}"#, &[0, 1]);
}

#[test]
fn top_n_sigma() {
    assert_certain(&logits(&[0.1, 0.2, 0.3, 0.4]), r#"{"top_n_sigma": 1}"#, &[3, 2], &[4.0 / 7.0, 3.0 / 7.0]);
    assert_certain(
        &logits(&[0.1, 0.2, 0.3, 0.4]),
        r#"{"top_n_sigma": 3}"#,
        &[3, 2, 1, 0],
        &[0.4, 0.3, 0.2, 0.1],
    );
    assert_certain(&[2.0; 3], r#"{"top_n_sigma": 1e-9}"#, &[0, 1, 2], &[1.0 / 3.0; 3]);
    // σ of 1 and −1 is 1, so the second is just two of them below the first.
    assert_either(&[1.0, -1.0], r#"{"top_n_sigma": 2}"#, &[0], &[0, 1]);
}

#[test]
fn xtc_keeps_the_last_of_the_top_choices() {
    let json = |threshold: f64| format!(r#"{{"xtc_probability": 1, "xtc_threshold": {threshold}}}"#);
    assert_keeps(&P4, &json(0.09), &[3]);
    assert_keeps(&P4, &json(0.19), &[2, 3]);
    assert_keeps(&P4, &json(0.29), &[1, 2, 3]);
    assert_keeps(&P4, &json(0.39), &[0, 1, 2, 3]);
    assert_keeps(&P4, &json(0.0), &[3]);
    assert_keeps(&P4, &json(1.0), &[0, 1, 2, 3]);
    let protected = r#"{"xtc_probability": 1, "xtc_threshold": 0.09, "xtc_protected_token_ids": [1]}"#;
    assert_keeps(&P4, protected, &[1, 3]);
    // Equal top choices: the last of them in the order stays.
    assert_certain(&[1.0; 3], &json(0.3), &[2], &[1.0]);
    // Token 1 is a top choice or none.
    assert_either(&logits(&[0.5, 0.3, 0.2]), &json(0.3), &[0, 1, 2], &[1, 2]);
    assert_certain(
        &logits(&P4),
        r#"{"xtc_probability": 1, "xtc_threshold": 0.29, "temperature": 0}"#,
        &[1],
        &[1.0],
    );
}

#[test]
fn xtc_throws_a_coin_for_each_stage_and_position() {
    // Philox4x32-10 by hand: 0.40929 and 0.40858 for the first and second stage of position 0, 0.27728 for
    // position 1.
    let json = |probability: f64, more: &str| {
        format!(
            r#"{{"seed": 81985529216486895, "xtc_threshold": 0.19, "xtc_probability": {probability}{more}}}"#
        )
    };
    assert_keeps(&P4, &json(0.4092, ""), &[0, 1, 2, 3]);
    assert_keeps(&P4, &json(0.4093, ""), &[2, 3]);
    assert_keeps(&P4, &json(0.2772, r#", "output_token_ids": [0]"#), &[0, 1, 2, 3]);
    assert_keeps(&P4, &json(0.2773, r#", "output_token_ids": [0]"#), &[2, 3]);
    // Of 0.2 and 0.1 both are above the threshold once they are all that is left.
    let twice = r#", "order": ["xtc", "top_k", "xtc"]"#;
    assert_keeps(&P4, &json(0.4085, twice), &[0, 1, 2, 3]);
    assert_keeps(&P4, &json(0.409, twice), &[2, 3]);
    assert_keeps(&P4, &json(0.41, twice), &[3]);
}

#[test]
fn mirostat_2() {
    // −log2 of 0.4, 0.3, 0.2, 0.1 is 1.32, 1.74, 2.32, 3.32.
    let json = |mu: f64| format!(r#"{{"mirostat": 2, "mirostat_mu": {mu}}}"#);
    assert_keeps(&P4, &json(-7.0), &[0]);
    assert_keeps(&P4, &json(1.7), &[0]);
    assert_keeps(&P4, &json(1.8), &[0, 1]);
    assert_keeps(&P4, &json(3.4), &[0, 1, 2, 3]);
    assert_keeps(&P4, r#"{"mirostat": 2, "mirostat_tau": 1.2}"#, &[0, 1, 2]);
    assert_certain(&[1.0, 1.0], &json(0.5), &[0, 1], &[0.5, 0.5]);
    assert_either(&logits(&[0.5, 0.25, 0.25]), &json(2.0), &[0], &[0, 1, 2]);
}

#[test]
fn mirostat_1() {
    // The slope is 0.774054 and k is 0.834, 2.041, 3.194, 7.821 for four logits; 2.545 for five.
    let json = |mu: f64| format!(r#"{{"mirostat": 1, "mirostat_mu": {mu}}}"#);
    assert_keeps(&P4, &json(0.5), &[0]);
    assert_keeps(&P4, &json(1.5), &[0, 1]);
    assert_keeps(&P4, &json(2.0), &[0, 1, 2]);
    assert_keeps(&P4, &json(3.0), &[0, 1, 2, 3]);
    assert_keeps(&P4, r#"{"mirostat": 1, "mirostat_tau": 1}"#, &[0, 1, 2]);
    let five = [&logits(&P4)[..], &[f32::NEG_INFINITY]].concat();
    assert_certain(&five, &json(2.0), &[0, 1], &[4.0 / 7.0, 3.0 / 7.0]);
    // Without a slope all or one: r is 1/4 for five logits, so two bits are the border.
    assert_certain(&[0.0; 5], &json(1.9), &[0], &[1.0]);
    assert_certain(&[0.0; 5], &json(2.1), &[0, 1, 2, 3, 4], &[0.2; 5]);
    let expected = distribution(&[0.0; 5], &params(&json(2.0))).unwrap();
    assert_eq!(check(&expected, &[0], &[1.0], 1e-9), Ok(()));
    assert_eq!(check(&expected, &[0, 1, 2, 3, 4], &[0.2; 5], 1e-9), Ok(()));
    assert_certain(&[3.0], &json(-1.0), &[0], &[1.0]);
    // k is at its border 3 where mu·ln 2 = 0.774054·ln 3 − ln 0.614263.
    let slope = 0.7740539421101141;
    let mu = (slope * 3f64.ln() - 0.614262584602261f64.ln()) / std::f64::consts::LN_2;
    assert_either(&logits(&P4), &json(mu), &[0, 1], &[0, 1, 2]);
    // In an order of one's own it may stand beside others.
    assert_keeps(&P4, r#"{"mirostat": 2, "mirostat_mu": 9, "top_k": 2, "order": "top_k,mirostat"}"#, &[0, 1]);
}
