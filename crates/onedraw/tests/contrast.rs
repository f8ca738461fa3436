//! Two rows made into one, compared with the formulas of the papers in f64.
#![allow(clippy::disallowed_methods)]

use half::bf16;
use onedraw::contrast::{contrasting_layer, divergence};
use onedraw::{Contrast, Row, RowError, Sampler, SamplingParams};
use onedraw_testkit::rows::gaussian;

fn log_softmax(row: &[f32], temperature: f64) -> Vec<f64> {
    let scaled: Vec<f64> = row.iter().map(|&x| f64::from(x) / temperature).collect();
    let highest = scaled.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scaled.iter().map(|x| (x - highest).exp()).sum();
    scaled.iter().map(|x| x - highest - total.ln()).collect()
}

/// The probabilities of scores, where −inf is 0.
fn softmax(scores: &[f64]) -> Vec<f64> {
    let highest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().map(|x| (x - highest).exp()).sum();
    scores.iter().map(|x| (x - highest).exp() / total).collect()
}

/// The distribution after a contrast is what the formula gives, to the precision of the library. Returns
/// whether more than one token is left.
fn check(
    contrast: Contrast,
    expert: &[f32],
    amateur: &[f32],
    formula: &dyn Fn(f64, f64) -> f64,
    alpha: f64,
    tau: f64,
) -> bool {
    let (e, a) = (log_softmax(expert, 1.0), log_softmax(amateur, tau));
    let best = e.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let scores: Vec<f64> = e
        .iter()
        .zip(&a)
        .map(|(&e, &a)| if e >= best + alpha.ln() { formula(e, a) } else { f64::NEG_INFINITY })
        .collect();
    let expected = softmax(&scores);
    let mut row = Vec::new();
    contrast.apply(expert, amateur, &mut row).unwrap();
    let found = Sampler::new(SamplingParams::default()).unwrap().distribution(&row).unwrap();
    let mut probabilities = vec![0.0; row.len()];
    for (&token, &share) in found.tokens.iter().zip(&found.probabilities) {
        probabilities[token as usize] = share;
    }
    for (token, (found, expected)) in probabilities.iter().zip(&expected).enumerate() {
        assert!((found - expected).abs() < 2e-6, "token {token}: {found} {expected}");
    }
    expected.iter().filter(|share| **share > 0.0).count() > 1
}

#[test]
fn rows_are_those_of_the_papers() {
    let mut shown = Vec::new();
    for seed in 0..30 {
        let (expert, amateur) = (gaussian(seed, 300, 1.0), gaussian(seed + 1000, 300, 1.5));
        for alpha in [0.01, 0.1, 0.5] {
            for tau in [0.5, 1.0, 2.0] {
                let li = Contrast::li(alpha, tau).unwrap();
                shown.push(check(li, &expert, &amateur, &|e, a| e - a, alpha, tau));
            }
            for beta in [0.0, 0.5, 2.0] {
                let obrien = Contrast::obrien(alpha, beta).unwrap();
                shown.push(check(obrien, &expert, &amateur, &|e, a| (1.0 + beta) * e - beta * a, alpha, 1.0));
            }
            shown.push(check(Contrast::dola(alpha).unwrap(), &expert, &amateur, &|e, a| e - a, alpha, 1.0));
        }
        for scale in [0.0, 1.0, 1.5, 3.0, -1.0] {
            let guidance = Contrast::guidance(scale).unwrap();
            shown.push(check(guidance, &expert, &amateur, &|c, u| u + scale * (c - u), 0.0, 1.0));
        }
    }
    let choices = shown.iter().filter(|shown| **shown).count();
    assert!(choices > shown.len() * 9 / 10, "{choices} of {} cases have a choice", shown.len());
}

#[test]
fn the_edges_are_as_the_formulas_say() {
    let expert = [1.0f32, 3.0, 3.0, 2.5, f32::NEG_INFINITY];
    let mut row = Vec::new();
    let inf = f32::NEG_INFINITY;
    // With identical models all scores are equal.
    Contrast::li(0.1, 1.0).unwrap().apply(&expert, &expert, &mut row).unwrap();
    assert_eq!(row, [0.0, 0.0, 0.0, 0.0, inf].map(|x: f32| if x == 0.0 { x } else { inf }));
    Contrast::li(0.2, 1.0).unwrap().apply(&expert, &expert, &mut row).unwrap();
    assert_eq!(row, [inf, 0.0, 0.0, 0.0, inf]);
    // Beta 0 is the expert among its plausible tokens. Alpha 1 keeps the best token and its ties.
    let amateur = [9.0f32, -4.0, 5.0, f32::NEG_INFINITY, 1.0];
    Contrast::obrien(0.2, 0.0).unwrap().apply(&expert, &amateur, &mut row).unwrap();
    assert_eq!(row, [inf, 3.0, 3.0, 2.5, inf]);
    Contrast::obrien(1.0, 0.5).unwrap().apply(&expert, &amateur, &mut row).unwrap();
    assert_eq!(row, [inf, 6.5, 2.0, inf, inf]);
    // A token with no chance under the amateur gets the highest score, which is finite.
    Contrast::li(0.2, 0.5).unwrap().apply(&expert, &amateur, &mut row).unwrap();
    assert_eq!(row, [inf, 11.0, -7.0, f32::MAX, inf]);
    // Guidance 1 is the prompt's own row, 0 the other's.
    Contrast::guidance(1.0).unwrap().apply(&expert, &amateur, &mut row).unwrap();
    assert_eq!(row, expert);
    Contrast::guidance(0.0).unwrap().apply(&[1.0f32, 2.0], &[5.0f32, -3.0], &mut row).unwrap();
    assert_eq!(row, [5.0, -3.0]);
    // Logits of any number type.
    let halves = expert.map(bf16::from_f32);
    Contrast::obrien(0.2, 0.5).unwrap().apply(&halves, &amateur, &mut row).unwrap();
    assert_eq!(row, [inf, 6.5, 2.0, f32::MAX, inf]);
}

#[test]
fn what_cannot_be_contrasted_is_an_error() {
    let mut row = Vec::new();
    let contrast = Contrast::li(0.1, 1.0).unwrap();
    let error =
        |expert: &[f32], amateur: &[f32]| contrast.apply(expert, amateur, &mut row.clone()).unwrap_err();
    assert_eq!(error(&[1.0], &[1.0, 2.0]), RowError::RowsDiffer { first: 1, second: 2 });
    assert_eq!(error(&[], &[]), RowError::EmptyRow);
    assert_eq!(error(&[1.0, f32::NAN], &[f32::NAN, 1.0]), RowError::NanLogit { token: 1 });
    assert_eq!(error(&[1.0, 1.0], &[1.0, f32::INFINITY]), RowError::InfiniteLogit { token: 1 });
    assert_eq!(error(&[f32::NEG_INFINITY], &[1.0]), RowError::NothingLeft { stage: None });
    contrast.apply(&[1.0f32], &[2.0f32], &mut row).unwrap();
    let message = |contrast: Result<Contrast, onedraw::ParamError>| contrast.unwrap_err().to_string();
    assert_eq!(message(Contrast::li(1.5, 1.0)), "alpha: must be in [0, 1], not 1.5");
    assert_eq!(message(Contrast::li(0.1, 0.0)), "amateur_temperature: must be in [0.001, 1000000], not 0");
    assert_eq!(message(Contrast::obrien(0.1, -1.0)), "beta: must be in [0, 1000000], not -1");
    assert!(message(Contrast::guidance(f64::NAN)).starts_with("guidance: "));
}

#[test]
fn dola_takes_the_furthest_layer() {
    let last = [2.0f32, 0.0, -1.0];
    let (same, near, far) = ([5.0f32, 3.0, 2.0], [1.5f32, 0.2, -1.0], [-3.0f32, 0.0, 4.0]);
    let rows = [Row::from(&near), Row::from(&far), Row::from(&same)];
    assert_eq!(contrasting_layer(Row::from(&last), &rows), Ok(Some(1)));
    assert_eq!(contrasting_layer(Row::from(&last), &[]), Ok(None));
    // The same distribution with shifted logits; then a case computed by hand: p = (½, ½), q = (1, 0).
    assert!(divergence(Row::from(&last), Row::from(&same)).unwrap() < 1e-15);
    let found = divergence(Row::from(&[0.0f32, 0.0]), Row::from(&[0.0f32, f32::NEG_INFINITY])).unwrap();
    let expected = 0.5 * ((0.5 * (0.5f64 / 0.75).ln() + 0.5 * (0.5f64 / 0.25).ln()) + (1.0f64 / 0.75).ln());
    assert!((found - expected).abs() < 1e-15, "{found} {expected}");
    let one =
        divergence(Row::from(&[0.0f32, f32::NEG_INFINITY]), Row::from(&[f32::NEG_INFINITY, 0.0])).unwrap();
    assert!((one - 2.0f64.ln()).abs() < 1e-15);
    assert!(divergence(Row::from(&last), Row::from(&[0.0f32])).is_err());
}
