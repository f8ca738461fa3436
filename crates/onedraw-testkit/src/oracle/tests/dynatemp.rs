//! A temperature that the entropy sets, and the doubt that comes with it.

use super::*;

const ROW: [f32; 4] = [4.0, 3.0, 2.0, 1.0];

/// The softmax of [`ROW`] at a temperature.
fn at(temperature: f64) -> Vec<f64> {
    let weights: Vec<f64> = ROW.iter().map(|&logit| ((f64::from(logit) - 4.0) / temperature).exp()).collect();
    weights.iter().map(|weight| weight / weights.iter().sum::<f64>()).collect()
}

#[test]
fn the_entropy_sets_the_temperature() {
    let json = r#"{"dynatemp_range": 0.5}"#;
    let expected = distribution(&ROW, &params(json)).unwrap();
    let fact = [0.590531, 0.253680, 0.108976, 0.046814];
    assert_eq!(check(&expected, &[0, 1, 2, 3], &fact, 1e-6), Ok(()));
    // The share is 0.683503 of ln 4.
    assert_certain(&ROW, json, &[0, 1, 2, 3], &at(1.1835034394931654));
    let json = r#"{"dynatemp_range": 0.5, "dynatemp_exponent": 2}"#;
    assert_certain(&ROW, json, &[0, 1, 2, 3], &at(0.9671769517989873));
    // From 0: half of the range lies below.
    let json = r#"{"temperature": 0.5, "dynatemp_range": 2}"#;
    assert_certain(&ROW, json, &[0, 1, 2, 3], &at(2.5 * 0.6835034394931655));
    // To the power 0 the share is 1, and a share of 1 is the upper end.
    let json = r#"{"dynatemp_range": 0.5, "dynatemp_exponent": 0}"#;
    assert_certain(&ROW, json, &[0, 1, 2, 3], &at(1.5));
    assert_certain(&[7.0, 7.0], r#"{"dynatemp_range": 0.5}"#, &[0, 1], &[0.5, 0.5]);
    // Twice: the second time over the entropy that the first left.
    let twice = r#"{"dynatemp_range": 0.5, "dynatemp_exponent": 0, "order": "temperature,temperature"}"#;
    assert_certain(&ROW, twice, &[0, 1, 2, 3], &at(2.25));
}

#[test]
fn the_temperature_alone_decides_what_is_greedy() {
    // 0 is no greedy temperature where the entropy may lift it.
    let json = r#"{"temperature": 0, "dynatemp_range": 1}"#;
    assert_certain(&ROW, json, &[0, 1, 2, 3], &at(0.6835034394931655));
    // One token has no entropy: the lower end, which is 0.
    assert_certain(&[3.0], r#"{"dynatemp_range": 1}"#, &[0], &[1.0]);
    // No entropy to speak of.
    assert_certain(&[0.0, -400.0], r#"{"dynatemp_range": 1}"#, &[0], &[1.0]);
    // Just at 1e-5 it may be either.
    let json = r#"{"temperature": 5e-6, "dynatemp_range": 5e-6, "dynatemp_exponent": 0}"#;
    let expected = distribution(&[7.0, 7.0], &params(json)).unwrap();
    assert!(expected.uncertain);
    assert_eq!(check(&expected, &[0, 1], &[0.5, 0.5], 1e-9), Ok(()));
    assert_eq!(check(&expected, &[0], &[1.0], 1e-9), Ok(()));
    assert!(check(&expected, &[1], &[1.0], 1e-9).is_err());
    // An exponent so large that the entropy's rounding decides between the two ends: nothing is certain.
    let json = r#"{"temperature": 1, "dynatemp_range": 1, "dynatemp_exponent": 1e6}"#;
    let nearly_flat = [1.0, 1.0, 0.998];
    assert_eq!(distribution(&nearly_flat, &params(json)).unwrap().slack, 1.0);
}

#[test]
fn doubt_about_the_temperature_widens_what_is_allowed() {
    let of = |json: &str| distribution(&ROW, &params(json)).unwrap();
    assert_eq!(of(r#"{"temperature": 0.7}"#).tolerance, 0.0);
    assert_eq!(of(r#"{"dynatemp_range": 0.5, "dynatemp_exponent": 0}"#).tolerance, 0.0);
    // The entropy is off by 2e-6, the temperature by that over ln 4, and the probabilities by the first-order
    // effect.
    let expected = of(r#"{"dynatemp_range": 0.5}"#);
    let off = 2e-6 / 4f64.ln();
    for side in [-off, off] {
        let answer = at(1.1835034394931654 + side);
        assert_eq!(check(&expected, &[0, 1, 2, 3], &answer, 1e-9), Ok(()));
    }
    assert!(expected.tolerance > 1e-7 && expected.tolerance < 2e-6, "{}", expected.tolerance);
    assert!(check(&expected, &[0, 1, 2, 3], &at(1.1835034394931654 + 10.0 * off), 1e-9).is_err());
    // A border that is certain at one temperature is not where the temperature is in doubt.
    let second = at(1.1835034394931654)[1];
    let cut = |epsilon: f64| format!(r#"{{"dynatemp_range": 0.5, "epsilon_cutoff": {epsilon}}}"#);
    assert!(of(&cut(second * (1.0 + 1.2e-6))).uncertain);
    assert!(!of(&cut(second * (1.0 + 1e-4))).uncertain);
    let mass = at(1.1835034394931654)[0];
    let cut = |p: f64| format!(r#"{{"dynatemp_range": 0.5, "top_p": {p}}}"#);
    assert!(of(&cut(mass + 1.2e-6)).uncertain);
    assert!(!of(&cut(mass + 1e-4)).uncertain);
}

#[test]
fn doubt_about_logits_leaves_their_order_open() {
    // An edit rounds what the temperature divided: the first two may come out equal, and the bias is added to
    // that.
    let near = [1.0, 1.0 + f32::EPSILON, -1.0];
    let order = r#""order": ["temperature", "logit_bias", "top_k"]"#;
    let json = format!(r#"{{"dynatemp_range": 0.5, "logit_bias": {{"2": 0.25}}, {order}}}"#);
    let expected = distribution(&near, &params(&json)).unwrap();
    assert!(expected.order_in_doubt && !expected.uncertain, "{expected:?}");
    assert!(expected.tolerance > 0.0 && expected.tolerance < 1e-5);
    let p = &expected.probabilities;
    for first in [0, 1] {
        assert_eq!(check(&expected, &[first, 1 - first, 2], p, 1e-6), Ok(()));
    }
    assert!(check(&expected, &[0, 2, 1], p, 1e-6).unwrap_err().starts_with("the order is wrong"));
    assert!(check(&expected, &[0, 1], p, 1e-6).is_err());
    // Which of the two is cut off is then open too.
    let json = format!(r#"{{"dynatemp_range": 0.5, "top_k": 1, "logit_bias": {{"2": 0.25}}, {order}}}"#);
    assert_eq!(distribution(&near, &params(&json)).unwrap().slack, 1.0);
    // A temperature that is no matter of the entropy leaves no doubt.
    let json = format!(r#"{{"temperature": 1.5, "top_k": 1, "logit_bias": {{"2": 0.25}}, {order}}}"#);
    let expected = distribution(&near, &params(&json)).unwrap();
    assert!(!expected.uncertain && !expected.order_in_doubt && expected.tolerance == 0.0);
}
