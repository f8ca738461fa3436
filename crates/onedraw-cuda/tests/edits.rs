//! Edits of single tokens on a device beside the CPU, where they are many, or change what the rest of the row
//! is seen against. Without a driver the tests are skipped, and say so.

use onedraw::{LogprobsMode, PenaltyScope, RowError, SamplingParams, Stage};
use onedraw_cuda::Dtype;
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_row};
use crate::beside::twins::Twins;
use crate::beside::{Lie, MaskPair, Rows, Uploaded, device};

/// Some steps of sequences with these parameters and other seeds, over rows of their own.
fn drawn_as_on_the_cpu(steps: usize, all: &[SamplingParams], dtype: Dtype, rows: Vec<Vec<f32>>, what: &str) {
    let Some(device) = device() else { return };
    let mut twins = Twins::new(&device, all.len(), rows[0].len());
    let seeded =
        |(i, params): (usize, &SamplingParams)| SamplingParams { seed: Some(i as u64), ..params.clone() };
    let pairs: Vec<_> = all.iter().enumerate().map(seeded).map(|params| twins.add(&params)).collect();
    let rows = Rows::new(dtype, rows);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    for step in 0..steps {
        let drawn = twins.step(
            &pairs,
            &uploaded.matrix(&device),
            |i| rows.row(i),
            &[],
            &format!("{what}, step {step}"),
        );
        assert!(drawn.iter().all(Result::is_ok), "{drawn:?}");
    }
}

/// With top-p and top-k and without, with logprobs and without.
fn ways(params: &SamplingParams) -> Vec<SamplingParams> {
    let tops = [(1.0, 0), (0.9, 0), (0.9, 50), (1.0, 300)];
    let logprobs = [None, Some(5)];
    let way =
        |(top_p, top_k)| logprobs.map(|logprobs| SamplingParams { top_p, top_k, logprobs, ..params.clone() });
    tops.into_iter().flat_map(way).collect()
}

#[test]
fn more_tokens_may_be_edited_than_a_list_holds() {
    let random = &mut SplitMix64::new(1);
    // Dense at the beginning, as texts are, and more than one vector of blocks a thread.
    for (vocabulary, seen) in [(9_000, 8_999), (140_000, 12_000)] {
        let params = SamplingParams {
            repetition_penalty: 1.3,
            frequency_penalty: 0.4,
            prompt_token_ids: (0..seen).collect(),
            output_token_ids: (0..seen / 3).map(|i| 3 * i).collect(),
            ..Default::default()
        };
        let all = ways(&params);
        let rows = all.iter().map(|_| any_row(random, cases::Shape::Zipf, vocabulary)).collect();
        drawn_as_on_the_cpu(3, &all, Dtype::F32, rows, "many edits");
    }
}

/// In the first segment and in later ones, with a mask and without.
#[test]
fn a_chain_may_have_any_number_of_edits() {
    let Some(device) = device() else { return };
    let (random, vocabulary) = (&mut SplitMix64::new(7), 40);
    let chains = cases::long_chains(7);
    let mut twins = Twins::new(&device, chains.len(), vocabulary);
    let pairs: Vec<_> = chains.iter().map(|params| twins.add(params)).collect();
    let mask = MaskPair::new(&device, vec![!(1 << 5), u32::MAX]);
    for step in 0..6 {
        let rows = pairs.iter().map(|_| any_row(random, cases::Shape::Zipf, vocabulary)).collect();
        let rows = Rows::new(Dtype::F32, rows);
        let uploaded = Uploaded::new(&device, &rows, Lie::default());
        // The last two name the stage that applies it.
        let is_masked = |i: usize| step % 2 == 1 && i + 2 >= chains.len();
        let masks: Vec<_> = (0..chains.len()).map(|i| is_masked(i).then_some(&mask)).collect();
        let what = format!("step {step}");
        let drawn = twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &masks, &what);
        assert!(drawn.iter().all(Result::is_ok), "{drawn:?}");
    }
    // The only token that is left is a bad word, which comes after forty other edits.
    let lone: Vec<f32> =
        (0..vocabulary).map(|token| if token == 9 { 1.0 } else { f32::NEG_INFINITY }).collect();
    let rows = Rows::new(Dtype::F32, vec![lone; chains.len()]);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let drawn = twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], "a bad word");
    let emptied = Err(RowError::NothingLeft { stage: Some(Stage::BadWords) });
    assert_eq!([&drawn[4], &drawn[6], &drawn[7]], [&emptied; 3]);
    assert!([0, 1, 2, 3, 5].iter().all(|&i| drawn[i].as_ref().is_ok_and(|sampled| sampled.token == 9)));
}

#[test]
fn an_edit_may_take_the_best_or_make_another() {
    let random = &mut SplitMix64::new(2);
    // Next to the first, all others vanish, until it is taken away: in units of it, the first pass could not
    // see them.
    let mut row: Vec<f32> = any_row(random, cases::Shape::Flat, 5_000);
    row[70] = 200.0;
    row[71] = 150.0;
    for bias in [
        vec![(70, -100.0), (71, -100.0)],
        vec![(70, -300.0), (71, -300.0)],
        vec![(4_000, 100.0), (70, -100.0)],
        vec![(70, 100.0)],
    ] {
        let params = SamplingParams { logit_bias: bias.into_iter().collect(), ..Default::default() };
        let all = ways(&params);
        for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
            drawn_as_on_the_cpu(3, &all, dtype, vec![row.clone(); all.len()], "the best is edited");
        }
    }
}

#[test]
fn logits_may_be_farther_apart_than_a_number() {
    let rows = vec![vec![3e38, -3e38, 2e38, f32::NEG_INFINITY]];
    let params = SamplingParams { logprobs: Some(4), ..Default::default() };
    drawn_as_on_the_cpu(3, &[params], Dtype::F32, rows, "far apart");
}

/// Steps enough for every window to fill, and to lose the last token of the prompt.
#[test]
fn windows_move_along_with_what_is_drawn() {
    let random = &mut SplitMix64::new(3);
    for temperature in [0.0, 0.7] {
        let of = |(window, prompt): (u32, u32)| SamplingParams {
            temperature,
            penalty_window: window,
            repetition_penalty: 1.5,
            frequency_penalty: 1.0,
            presence_penalty: 0.5,
            penalty_scope: PenaltyScope::All,
            prompt_token_ids: (0..prompt).map(|i| i % 7).collect(),
            logprobs: Some(3),
            ..Default::default()
        };
        let windows = [1, 2, 5, 9];
        let all: Vec<_> = windows
            .into_iter()
            .flat_map(|window| [0, 1, 4, 11].map(|prompt| (window, prompt)))
            .map(of)
            .collect();
        let rows = all.iter().map(|_| any_row(random, cases::Shape::Flat, 12)).collect();
        drawn_as_on_the_cpu(14, &all, Dtype::F32, rows, "windows");
    }
}

/// What a sequence lists of its tokens is as long as a table; nearly every token that is drawn here is a new
/// one.
#[test]
fn a_sequence_may_outgrow_its_list() {
    let random = &mut SplitMix64::new(4);
    let of = |seen| SamplingParams {
        frequency_penalty: 0.4,
        presence_penalty: 2.0,
        prompt_token_ids: (0..seen).collect(),
        ..Default::default()
    };
    let all: Vec<_> = [1_530, 1_535, 1_536, 1_537].map(of).iter().flat_map(ways).collect();
    let rows = all.iter().map(|_| any_row(random, cases::Shape::Flat, 4_000)).collect();
    drawn_as_on_the_cpu(8, &all, Dtype::F32, rows, "a full list");
}

/// The difference of 0 and -0 may be -0, which is no small number to look at.
#[test]
fn zeros_have_no_sign() {
    let Some(device) = device() else { return };
    let params = SamplingParams {
        top_p: 0.999,
        temperature: 1000.0,
        logprobs: Some(1),
        logprobs_mode: LogprobsMode::ProcessedLogprobs,
        seed: Some(1),
        ..Default::default()
    };
    let smooth =
        |smoothing_curve| SamplingParams { smoothing_factor: 0.001, smoothing_curve, ..params.clone() };
    let chains = [params.clone(), smooth(1.0), smooth(3.0)];
    for row in [[-0.0, -2.25, 0.0], [0.0, -0.0, -2.25], [-0.0, -0.0, -2.25]] {
        let mut twins = Twins::new(&device, chains.len(), 3);
        let pairs: Vec<_> = chains.iter().map(|params| twins.add(params)).collect();
        let rows = Rows::new(Dtype::F32, vec![row.to_vec(); chains.len()]);
        let uploaded = Uploaded::new(&device, &rows, Lie::default());
        let drawn = twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], "zeros");
        for drawn in drawn {
            let logprob = drawn.expect("a token").logprob.expect("it is asked for");
            assert!((logprob + 1.0986).abs() < 1e-2, "one of three: {logprob}");
        }
    }
}
