//! Audits: a drawn token has no gap, and any other one the difference of the scores.

use onedraw::math::{exp, ln};
use onedraw::noise::Noise;
use onedraw::verdict::{FALSE_ALARMS, Verdict, judge};
use onedraw::{Audit, RowError, Sampler, SamplingParams};
use onedraw_testkit::parameters::any_case;
use onedraw_testkit::rows;
use proptest::prelude::*;

#[test]
fn gaps_are_differences_of_scores() {
    let row = rows::gaussian(3, 500, 2.0);
    let params = SamplingParams {
        temperature: 0.8,
        top_p: 0.9,
        seed: Some(11),
        output_token_ids: vec![4, 5],
        ..Default::default()
    };
    let mut sampler = Sampler::new(params).expect("valid parameters");
    let drawn = sampler.peek(&row[..], 0).expect("a token").token;
    let noise = Noise { seed: 11, position: 2, sequence: 0, round: 0 };
    let x_max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let y = |token: u32| (f64::from(row[token as usize]) - f64::from(x_max)) / 0.8;
    let score = |token: u32| y(token) - ln(noise.token(token));
    let kept = sampler.distribution(&row[..]).expect("a distribution").tokens;
    let last = *kept.last().expect("a token");
    for token in 0..500 {
        let audit = sampler.audit(&row[..], token).expect("an audit");
        let Audit { gap, is_kept, outside, .. } = audit;
        assert_eq!((audit.token, audit.drawn, audit.is_drawn()), (token, drawn, token == drawn));
        assert_eq!(is_kept, kept.contains(&token), "token {token}");
        assert!((gap - (score(drawn) - score(token)).max(0.0)).abs() < 1e-9, "token {token}");
        assert_eq!(gap == 0.0, token == drawn || !is_kept && score(token) >= score(drawn));
        let below = if is_kept { 0.0 } else { y(last) - y(token) };
        assert!((outside - below).abs() < 1e-9 && outside >= 0.0, "token {token}");
    }
    // The distance, token by token, as it is defined.
    let logit = |token: u32| f64::from(row[token as usize]);
    let mut order: Vec<u32> = (0..500).collect();
    order.sort_by(|&a, &b| logit(b).total_cmp(&logit(a)));
    let weights: Vec<f64> = order.iter().map(|&token| exp(y(token))).collect();
    let total: f64 = weights.iter().sum();
    let before = |j: usize| weights[..j].iter().sum::<f64>() / total;
    let odds = |share: f64| ln(share / (1.0 - share));
    let inside = |t: usize| {
        let by = |j: usize| {
            let mass = if j == t { before(t) } else { before(j + 1) - weights[t] / total };
            f64::max(logit(order[t]) - logit(order[j]), 0.8 * (odds(0.9) - odds(mass)))
        };
        (t..500).map(by).fold(f64::INFINITY, f64::min)
    };
    let outside = |c: usize| {
        let by = |j: usize| f64::max(logit(order[j]) - logit(order[c]), 0.8 * (odds(before(j)) - odds(0.9)));
        (0..=c).map(by).fold(f64::INFINITY, f64::min)
    };
    for (place, &token) in order.iter().enumerate().filter(|&(_, &token)| token != drawn) {
        let start = if place < kept.len() { 0.0 } else { outside(place) };
        let ahead = |t: usize| inside(t).min(0.8 * (score(order[t]) - score(token)));
        let expected = (0..kept.len()).map(ahead).fold(start, f64::max);
        let distance = sampler.audit(&row[..], token).expect("an audit").distance;
        // Masses are within 2^-23 of the exact ones, and the odds magnify that.
        assert!((distance - expected).abs() < 1e-5, "token {token}: {distance}, not {expected}");
    }
    assert_eq!(sampler.output(), [4, 5]);
    let outside = RowError::OutsideVocabulary { field: "token", token: 500, vocabulary: 500 };
    assert_eq!(sampler.audit(&row[..], 500), Err(outside));
}

#[test]
fn a_greedy_gap_is_a_difference_of_logits() {
    let row = [1.0_f32, 4.5, f32::NEG_INFINITY, 4.0];
    let mut sampler = Sampler::new(SamplingParams { temperature: 0.0, ..Default::default() }).expect("valid");
    let mut audit = |token| sampler.audit(&row, token).expect("an audit");
    let expected = |token, gap, is_kept| {
        let (outside, distance) = (gap, gap);
        Audit { token, drawn: 1, gap, is_kept, outside, distance, mirostat_mu: None }
    };
    assert_eq!(audit(1), expected(1, 0.0, true));
    assert_eq!(audit(3), expected(3, 0.5, false));
    assert_eq!(audit(2), expected(2, f64::INFINITY, false));
}

/// What XTC and typical cut is outside, and not masked.
#[test]
fn a_token_that_was_cut_is_not_masked() {
    let row = [3.0_f32, 2.5, 1.0, -2.0];
    let params = SamplingParams { xtc_probability: 1.0, seed: Some(1), ..Default::default() };
    let audit = |params: &SamplingParams, row: &[f32], token| {
        Sampler::new(params.clone()).expect("valid").audit(row, token).expect("an audit")
    };
    let first = audit(&params, &row, 0);
    assert!(!first.is_kept && first.gap.is_finite() && first.distance == 0.0, "{first:?}");
    assert!((first.outside - 0.5).abs() < 1e-9, "{first:?}");
    let typical = SamplingParams { typical_p: 0.2, seed: Some(1), ..Default::default() };
    for token in 0..4 {
        let audit = audit(&typical, &row, token);
        assert!(audit.gap.is_finite() && audit.outside.is_finite(), "{audit:?}");
    }
    let masked = SamplingParams { allowed_token_ids: Some(vec![1, 2]), ..params };
    assert!(audit(&masked, &row, 0).gap.is_infinite());
}

/// Logits that differ in their last bits put some claimed tokens just outside of what mirostat keeps; it learns from
/// them as whoever drew them did.
#[test]
fn mirostat_goes_on_after_a_token_outside() {
    // Version 1 rounds to a number of tokens: where it keeps one or two, one more or less moves its aim by 0.1, eta times
    // one bit.
    for (version, most) in [(1, 0.2), (2, 0.05)] {
        let params =
            SamplingParams { mirostat: version, mirostat_tau: 3.0, seed: Some(4), ..Default::default() };
        let mut writer = Sampler::new(params.clone()).expect("valid parameters");
        let mut auditor = Sampler::new(params).expect("valid parameters");
        let (mut equal, mut outside) = (0, 0);
        for step in 0..600 {
            let row = rows::gaussian(100 + step, 400, 2.0);
            let noise = rows::gaussian(9000 + step, 400, 0.02);
            let near: Vec<f32> = row.iter().zip(&noise).map(|(x, y)| x + y).collect();
            let token = writer.sample(&near[..]).expect("a token").token;
            let audit = auditor.audit(&row[..], token).expect("an audit");
            auditor.accept_audited(&audit);
            equal += usize::from(audit.is_drawn());
            outside += usize::from(!audit.is_kept);
            let (one, other) = (writer.mirostat_mu(), auditor.mirostat_mu());
            let apart = one.zip(other).map(|(one, other)| (one - other).abs());
            assert!(apart.is_some_and(|apart| apart < most), "version {version}: {one:?}, {other:?}");
        }
        assert!(equal > 540 && outside > 0, "version {version}: {equal} equal, {outside} outside");
    }
}

/// Logits that differ as those of bf16 do are other arithmetic, whatever the chain.
#[test]
fn a_little_noise_is_other_arithmetic() {
    let chains = [
        r#"{"temperature": 0}"#,
        r#"{"temperature": 0, "xtc_probability": 1, "xtc_threshold": 0.05}"#,
        r#"{"temperature": 0, "typical_p": 0.5}"#,
        r#"{"temperature": 0.8, "top_p": 0.9, "top_k": 50}"#,
        r#"{"min_p": 0.05, "temperature": 1.2}"#,
        r#"{"xtc_probability": 0.5}"#,
        r#"{"typical_p": 0.8}"#,
        r#"{"mirostat": 1, "mirostat_tau": 2.0}"#,
        r#"{"mirostat": 2, "mirostat_tau": 2.0}"#,
        r#"{"temperature": 0.8, "dynatemp_range": 0.4, "top_p": 0.8}"#,
        r#"{"top_n_sigma": 1.0, "smoothing_factor": 0.2}"#,
        r#"{"epsilon_cutoff": 0.003, "eta_cutoff": 0.002, "top_a": 0.05}"#,
    ];
    let mut unequal = 0;
    for (number, chain) in chains.iter().enumerate() {
        let params = SamplingParams { seed: Some(4), ..SamplingParams::from_json(chain).expect(chain) };
        let mut writer = Sampler::new(params.clone()).expect("valid parameters");
        let mut auditor = Sampler::new(params).expect("valid parameters");
        let mut audits = Vec::new();
        for step in 0..300 {
            let seed = 1000 * number as u64 + step;
            let row = rows::gaussian(seed, 400, 2.5);
            let noise = rows::gaussian(90_000 + seed, 400, 0.02);
            let near: Vec<f32> = row.iter().zip(&noise).map(|(x, y)| x + y).collect();
            let token = writer.sample(&near[..]).expect("a token").token;
            let audit = auditor.audit(&row[..], token).expect("an audit");
            auditor.accept_audited(&audit);
            audits.push(audit);
        }
        unequal += audits.iter().filter(|audit| !audit.is_drawn()).count();
        let judgement = judge(&audits, FALSE_ALARMS).expect("a rate");
        assert_ne!(judgement.verdict, Verdict::Other, "{chain}: {judgement:?}");
    }
    assert!(unequal > 20, "{unequal}");
}

proptest! {
    /// Whatever the chain: the drawn token is found, and every kept token has a finite gap.
    #[test]
    fn every_draw_passes_its_audit((row, params) in any_case(200), claimed in 0usize..200) {
        let params = SamplingParams { seed: Some(9), ..params };
        let Ok(mut sampler) = Sampler::new(params) else { return Ok(()) };
        let Ok(sampled) = sampler.peek(&row[..], 0) else { return Ok(()) };
        let audit = sampler.audit(&row[..], sampled.token).expect("an audit");
        let token = sampled.token;
        let mirostat_mu = sampled.mirostat_mu;
        prop_assert_eq!(audit, Audit { token, drawn: token, gap: 0.0, is_kept: true, outside: 0.0, distance: 0.0, mirostat_mu });
        let claimed = (claimed % row.len()) as u32;
        let audit = sampler.audit(&row[..], claimed).expect("an audit");
        let kept = sampler.distribution(&row[..]).expect("a distribution").tokens;
        prop_assert_eq!(audit.is_kept, kept.contains(&claimed));
        prop_assert!(audit.gap >= 0.0 && audit.outside >= 0.0);
        prop_assert!(!audit.is_kept || (audit.gap.is_finite() && audit.outside == 0.0));
        prop_assert!(audit.distance >= 0.0 && (audit.gap.is_infinite() || audit.distance.is_finite()));
        prop_assert_eq!(audit.gap.is_infinite(), audit.distance.is_infinite());
    }
}
