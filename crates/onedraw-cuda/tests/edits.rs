//! Edits of single tokens on a device beside the CPU, where they are many, or change what the rest of the row is seen against. Without a driver the tests are
//! skipped, and say so.

mod beside;

use beside::cases::{self, any_row};
use beside::twins::Twins;
use beside::{Lie, Rows, Uploaded, device};
use onedraw::SamplingParams;
use onedraw_cuda::Dtype;
use onedraw_testkit::rows::SplitMix64;

/// Three steps of sequences with these parameters and other seeds, over rows of their own.
fn drawn_as_on_the_cpu(all: &[SamplingParams], dtype: Dtype, rows: Vec<Vec<f32>>, what: &str) {
    let Some(device) = device() else { return };
    let mut twins = Twins::new(&device, all.len(), rows[0].len());
    let seeded =
        |(i, params): (usize, &SamplingParams)| SamplingParams { seed: Some(i as u64), ..params.clone() };
    let pairs: Vec<_> = all.iter().enumerate().map(seeded).map(|params| twins.add(&params)).collect();
    let rows = Rows::new(dtype, rows);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    for step in 0..3 {
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
        drawn_as_on_the_cpu(&all, Dtype::F32, rows, "many edits");
    }
}

#[test]
fn an_edit_may_take_the_best_or_make_another() {
    let random = &mut SplitMix64::new(2);
    // Next to the first, all others vanish, until it is taken away: in units of it, the first pass could not see them.
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
            drawn_as_on_the_cpu(&all, dtype, vec![row.clone(); all.len()], "the best is edited");
        }
    }
}

#[test]
fn logits_may_be_farther_apart_than_a_number() {
    let rows = vec![vec![3e38, -3e38, 2e38, f32::NEG_INFINITY]];
    let params = SamplingParams { logprobs: Some(4), ..Default::default() };
    drawn_as_on_the_cpu(&[params], Dtype::F32, rows, "far apart");
}
