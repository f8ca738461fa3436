//! What a draw kept: the set is that of the whole distribution, and a summary makes it again to the bit.

use onedraw::{
    Border, EditedRow, Kept, KeptError, KeptMode, KeptSets, ParamError, RowError, Sampled, Sampler,
    SamplingParams, Shards,
};
use onedraw_testkit::parameters::any_case;
use onedraw_testkit::rows;
use proptest::prelude::*;

fn drawn(row: &[f32], params: SamplingParams) -> (Sampled, Sampler) {
    let mut sampler = Sampler::new(params).expect("valid parameters");
    (sampler.peek(row, 0).expect("a token"), sampler)
}

fn with(kept: KeptMode, params: &SamplingParams) -> SamplingParams {
    SamplingParams { kept, seed: Some(5), ..params.clone() }
}

/// Rows of every kind, and chains that keep a prefix.
fn cases() -> Vec<(Vec<f32>, SamplingParams)> {
    let plain = SamplingParams::default();
    let chains = [
        plain.clone(),
        SamplingParams { temperature: 0.0, ..plain.clone() },
        SamplingParams { temperature: 0.7, top_k: 50, ..plain.clone() },
        SamplingParams { temperature: 1.3, top_p: 0.9, ..plain.clone() },
        SamplingParams { temperature: 0.8, top_k: 200, top_p: 0.95, min_p: 0.01, ..plain.clone() },
        SamplingParams { top_n_sigma: 1.0, epsilon_cutoff: 1e-3, ..plain.clone() },
        SamplingParams { mirostat: 2, mirostat_tau: 3.0, ..plain.clone() },
        SamplingParams { top_p: 0.9, smoothing_factor: 0.3, ..plain.clone() },
        SamplingParams {
            top_p: 0.8,
            repetition_penalty: 1.5,
            logit_bias: [(3, 4.0), (5, -100.0)].into(),
            prompt_token_ids: vec![1, 2, 3],
            bad_words_ids: vec![vec![7]],
            ..plain
        },
    ];
    let kinds = [
        rows::peaked(1, 5000),
        rows::gaussian(2, 3000, 1.0),
        rows::ties(3, 700, 5),
        rows::masked(4, 900, 0.9),
        rows::flat(130, 0.0),
        vec![1.0; 8],
    ];
    kinds.iter().flat_map(|row| chains.iter().map(|chain| (row.clone(), chain.clone()))).collect()
}

#[test]
fn a_summary_makes_the_set_again() {
    for (row, params) in cases() {
        let (summed, mut sampler) = drawn(&row, with(KeptMode::Summary, &params));
        let (listed, _) = drawn(&row, with(KeptMode::Ids, &params));
        let (bare, _) = drawn(&row, with(KeptMode::None, &params));
        assert_eq!((summed.token, listed.token, bare.kept), (bare.token, bare.token, None));
        let (summary, ids) = (summed.kept.expect("a summary"), listed.kept.expect("ids"));
        let distribution = sampler.distribution(&row[..]).expect("a distribution");
        let mut expected = distribution.tokens.clone();
        let last = *expected.last().expect("a token");
        expected.sort_unstable();
        assert_eq!(ids.ids.as_ref(), Some(&expected), "{params:?}");
        assert_eq!(summary, Kept { ids: None, ..ids.clone() });
        assert_eq!(summary.count as usize, expected.len());
        assert_eq!(summary.last.map(|border| border.token), Some(last));
        let edited = sampler.edited(&row[..], None).expect("an edited row");
        assert_eq!(summary.ids(&edited).expect("the same row"), expected);
        for token in 0..row.len() as u32 {
            let is_kept = expected.binary_search(&token).is_ok();
            assert_eq!(summary.contains(&edited, token), Ok(is_kept), "token {token}, {params:?}");
            assert_eq!(ids.contains(&edited, token), Ok(is_kept));
        }
        // The mass gives the logprobs.
        if params.temperature > 0.0 {
            let logits = edited.logits();
            let x_max = f64::from(logits.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            for (&token, &logprob) in distribution.tokens.iter().zip(&distribution.logprobs).take(50) {
                let y = (f64::from(logits[token as usize]) - x_max) / params.temperature;
                assert!((y - summary.ln_mass - logprob).abs() < 1e-9, "{params:?}");
            }
        }
    }
}

proptest! {
    /// Every chain: ids are those of the distribution, over shards too.
    #[test]
    fn ids_are_the_support((row, params) in any_case(300)) {
        let params = with(KeptMode::Ids, &params);
        let Ok(mut sampler) = Sampler::new(params.clone()) else { return Ok(()) };
        let Ok(sampled) = sampler.peek(&row[..], 0) else { return Ok(()) };
        let kept = sampled.kept.clone().expect("ids were asked for");
        let mut expected = sampler.distribution(&row[..]).expect("a distribution").tokens;
        expected.sort_unstable();
        prop_assert_eq!(kept.count as usize, expected.len());
        prop_assert!(expected.binary_search(&sampled.token).is_ok());
        prop_assert_eq!(kept.ids, Some(expected));
        let split = Sampler::new(params).expect("valid parameters").shards(Shards::even(3)).peek(&row[..], 0);
        prop_assert_eq!(split, Ok(sampled));
    }
}

#[test]
fn chains_that_keep_no_prefix_have_no_summary() {
    let plain = SamplingParams { kept: KeptMode::Summary, ..Default::default() };
    let after = Some("top_k,logit_bias".parse().expect("an order"));
    let chains = [
        SamplingParams { typical_p: 0.9, ..plain.clone() },
        SamplingParams { xtc_probability: 0.5, ..plain.clone() },
        SamplingParams { top_k: 5, logit_bias: [(1, 1.0)].into(), order: after, ..plain },
    ];
    for params in chains {
        let field = |error: ParamError| error.field().to_owned();
        assert_eq!(Sampler::new(params.clone()).map(drop).map_err(field), Err("kept".to_owned()));
        assert!(Sampler::new(SamplingParams { kept: KeptMode::Ids, ..params }).is_ok());
    }
}

#[test]
fn a_set_belongs_to_its_row() {
    let row = rows::gaussian(8, 400, 2.0);
    let params = SamplingParams { top_p: 0.7, kept: KeptMode::Summary, seed: Some(1), ..Default::default() };
    let (sampled, mut sampler) = drawn(&row, params);
    let kept = sampled.kept.expect("a summary");
    let border = kept.last.expect("a prefix");
    let edited = sampler.edited(&row[..], None).expect("an edited row");
    assert_eq!(edited.logits(), row, "no edit changes it");

    let mut other = row.clone();
    other[border.token as usize] = border.logit.next_up();
    let found = other[border.token as usize];
    let other = EditedRow::from_edited(&other);
    assert_eq!(kept.ids(&other), Err(KeptError::OtherLogit { border, found }));
    assert_eq!(kept.contains(&other, 3), Err(KeptError::OtherLogit { border, found }));

    let mut more = row.clone();
    let outside = (0..400).find(|&token| kept.contains(&edited, token) == Ok(false)).expect("one is cut");
    more[outside as usize] = 50.0;
    let counts = KeptError::OtherCount { kept: kept.count, found: kept.count + 1 };
    assert_eq!(kept.ids(&EditedRow::from_edited(&more)), Err(counts));

    let short = EditedRow::from_edited(&row[..border.token as usize]);
    let outside = KeptError::OutsideVocabulary { token: border.token, vocabulary: border.token as usize };
    assert_eq!(kept.ids(&short), Err(outside));
    assert_eq!(
        kept.contains(&edited, 400),
        Err(KeptError::OutsideVocabulary { token: 400, vocabulary: 400 })
    );
    let window = Kept { last: None, ..kept };
    assert_eq!(window.ids(&edited), Err(KeptError::NoPrefix));
    assert_eq!(
        KeptError::OtherLogit { border: Border { token: 7, logit: 1.5 }, found: 1.25 }.to_string(),
        "the kept set does not belong to this row: the logit of token 7 is 1.25 here, and was 1.5"
    );
}

#[test]
fn ids_are_held_against_their_row() {
    let row = EditedRow::from_edited(&[3.0_f32, 2.0, f32::NEG_INFINITY, 1.0]);
    let kept = |count: u32, ids: &[u32]| Kept { count, last: None, ln_mass: 0.0, ids: Some(ids.to_vec()) };
    assert_eq!(kept(2, &[0, 3]).ids(&row), Ok(vec![0, 3]));
    assert_eq!(kept(3, &[0, 3]).ids(&row), Err(KeptError::OtherCount { kept: 3, found: 2 }));
    assert_eq!(kept(2, &[3, 0]).ids(&row), Err(KeptError::OtherCount { kept: 2, found: 2 }));
    assert_eq!(kept(2, &[0, 2]).ids(&row), Err(KeptError::Masked { token: 2 }));
    assert_eq!(kept(2, &[0, 4]).ids(&row), Err(KeptError::OutsideVocabulary { token: 4, vocabulary: 4 }));
}

#[test]
fn rows_that_are_not_numbers_are_named() {
    let kept = Kept { count: 1, last: Some(Border { token: 0, logit: 1.0 }), ln_mass: 0.0, ids: None };
    let edited = EditedRow::from_edited(&[1.0_f32, f32::NAN]);
    assert_eq!(kept.ids(&edited), Err(KeptError::NanLogit { token: 1 }));
    assert_eq!(kept.contains(&edited, 1), Err(KeptError::NanLogit { token: 1 }));
    let mut sampler =
        Sampler::new(SamplingParams { kept: KeptMode::Ids, ..Default::default() }).expect("valid");
    assert_eq!(sampler.sample(&[1.0_f32, f32::NAN]), Err(RowError::NanLogit { token: 1 }));
}

#[test]
fn sets_of_several_rows_are_one_list() {
    let params = SamplingParams { top_k: 2, kept: KeptMode::Ids, seed: Some(3), ..Default::default() };
    let sets =
        [[0.0_f32, 2.0, 1.0], [5.0, 0.0, 4.0]].map(|row| drawn(&row, params.clone()).0.kept.expect("ids"));
    let joined = KeptSets::new(&sets).expect("all have ids");
    assert_eq!(joined, KeptSets { token_ids: vec![1, 2, 0, 2], offsets: vec![0, 2, 4] });
    assert_eq!((joined.row(0), joined.row(1), joined.row(2)), (Some(&[1, 2][..]), Some(&[0, 2][..]), None));
    let summary = Kept { ids: None, ..sets[1].clone() };
    assert_eq!(KeptSets::new([&sets[0], &summary]), Err(KeptError::NoIds { row: 1 }));
}
