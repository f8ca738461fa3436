//! Contract C2: the distribution drawn from is the one the parameters name, as an f64 oracle that shares no
//! code with the engine computes it.

use onedraw::{RowError, Sampler, SamplingParams};
use onedraw_testkit::oracle::{self, Failure};
use onedraw_testkit::parameters::any_case;
use proptest::prelude::*;

/// The tolerance of contract C2 for probabilities.
const TOLERANCE: f64 = 1e-6;

fn check(row: &[f32], params: SamplingParams) -> Result<(), TestCaseError> {
    let got = Sampler::new(params.clone()).expect("valid parameters").distribution(row);
    let answer = match &got {
        Ok(got) => Ok((&got.tokens[..], &got.probabilities[..])),
        Err(error) => Err(Failure::of(error).expect("an error that the oracle knows")),
    };
    let result = oracle::verify(row, &params, answer, TOLERANCE);
    prop_assert!(result.is_ok(), "{}\n{params:?}", result.unwrap_err());
    if let Ok(got) = got {
        let sum: f64 = got.probabilities.iter().sum();
        prop_assert!((sum - 1.0).abs() < TOLERANCE, "the probabilities sum to {sum}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn distributions_are_the_oracles((row, params) in any_case(700)) {
        check(&row, params)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn on_large_vocabularies_too((row, params) in any_case(300_000)) {
        check(&row, params)?;
    }
}

/// A bad logit is found wherever it is, masked or not, and the lowest id decides.
#[test]
fn the_lowest_bad_logit_decides() {
    let params = SamplingParams { allowed_token_ids: Some(vec![0]), ..SamplingParams::default() };
    for (first, second) in [(70, 200), (63, 64), (0, 299), (128, 129)] {
        for shards in [1, 3, 16] {
            let mut row = vec![0.5f32; 300];
            row[second] = f32::NAN;
            row[first] = f32::INFINITY;
            let mut sampler =
                Sampler::new(params.clone()).expect("valid parameters").shards(onedraw::Shards::even(shards));
            assert_eq!(sampler.sample(&row), Err(RowError::InfiniteLogit { token: first as u32 }));
            row[first] = f32::NAN;
            assert_eq!(sampler.sample(&row), Err(RowError::NanLogit { token: first as u32 }));
        }
    }
}

/// The oracle accepts more than one answer only where a decision lies on a border. That is so rare that no
/// mistake can hide behind it.
#[test]
fn borderline_cases_are_rare() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut cases, mut uncertain, mut loose, mut plain_loose) = (0, 0, 0, 0);
    while cases < 4000 {
        let case = any_case(700).new_tree(&mut runner).expect("a case");
        let (row, params) = proptest::strategy::ValueTree::current(&case);
        if let Ok(expected) = oracle::distribution(&row, &params) {
            cases += 1;
            uncertain += u32::from(expected.uncertain);
            loose += u32::from(expected.slack > 0.0);
            // What depends on the entropy has a border as wide as the error of the entropy, and a nearly flat
            // row lies within it.
            let hangs_on_entropy =
                params.typical_p < 1.0 || params.dynatemp_range > 0.0 || params.eta_cutoff > 0.0;
            plain_loose += u32::from(expected.slack > 0.0 && !hangs_on_entropy);
        }
    }
    println!(
        "{uncertain} with alternatives, {loose} with too many to list, {plain_loose} of them without an entropy"
    );
    assert!(uncertain * 40 < cases, "{uncertain} of {cases}");
    assert!(loose * 80 < cases, "{loose} of {cases}");
    assert!(plain_loose * 200 < cases, "{plain_loose} of {cases}");
}
