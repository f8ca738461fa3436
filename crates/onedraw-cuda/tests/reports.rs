//! What is reported beside tokens, beside the CPU: kept sets, logprobs of whole rows, logprobs of prompts.

use onedraw::{KeptMode, LogprobsMode, RowError, SamplingParams};
use onedraw_cuda::{Batch, Capacity, CudaError, Dtype};
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_dtype, any_params, any_row, one_of};
use crate::beside::twins::Twins;
use crate::beside::{Lie, Rows, Uploaded, device, rounds};

const VOCABULARIES: [usize; 6] = [1, 65, 1000, 1025, 4096, 32_001];

/// Twins with room for the logprobs of all tokens.
fn roomy(device: &onedraw_cuda::Device, sequences: usize, vocabulary: usize) -> Twins {
    let capacity = Capacity { sequences, rows: sequences, vocabulary, logprobs: vocabulary.max(1024) };
    let gpu = Batch::new(device, capacity).expect("a batch");
    Twins { device: device.clone(), gpu, cpu: onedraw::Batch::new() }
}

#[test]
fn logprobs_may_be_of_any_number() {
    let Some(device) = device() else { return };
    for round in 0..rounds() {
        let random = &mut SplitMix64::new(7000 + round);
        let vocabulary = one_of(random, &VOCABULARIES);
        let mut twins = roomy(&device, 4, vocabulary);
        let mut params = || {
            let logprobs = Some(one_of(random, &[-1, 1025, 1500, 5000, 1_000_000, 3]));
            let logprobs_mode = one_of(random, &LogprobsMode::ALL);
            SamplingParams { logprobs, logprobs_mode, ..any_params(random, vocabulary) }
        };
        let pairs: Vec<_> = (0..4).map(|_| params()).map(|params| twins.add(&params)).collect();
        for step in 0..2 {
            let (dtype, shape) = (any_dtype(random), one_of(random, &cases::SHAPES));
            let rows = Rows::new(dtype, (0..4).map(|_| any_row(random, shape, vocabulary)).collect());
            let uploaded = Uploaded::new(&device, &rows, Lie::default());
            let what = format!("round {round}, step {step}, {vocabulary} {dtype:?} {shape:?}");
            twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], &what);
        }
    }
}

#[test]
fn logprobs_need_room() {
    let Some(device) = device() else { return };
    let capacity = Capacity { sequences: 1, rows: 1, vocabulary: 3000, logprobs: 5 };
    let mut batch = Batch::new(&device, capacity).expect("a batch");
    let asks = |logprobs, prompt_logprobs| SamplingParams { logprobs, prompt_logprobs, ..Default::default() };
    let refused = |what, given| Err(CudaError::TooMany { what, given, capacity: 5 });
    assert_eq!(batch.add(&asks(Some(-1), None)), refused("logprobs", 3000));
    assert_eq!(batch.add(&asks(Some(6), None)), refused("logprobs", 6));
    assert_eq!(batch.add(&asks(None, Some(-1))), refused("prompt_logprobs", 3000));
    assert!(batch.add(&asks(Some(5), Some(5))).is_ok());
    let capacity = Capacity { logprobs: 3001, ..capacity };
    let refused = Batch::new(&device, capacity).expect_err("there are no more tokens");
    assert_eq!(refused, CudaError::TooMany { what: "logprobs", given: 3001, capacity: 3000 });
}

#[test]
fn kept_sets_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    for (vocabulary, shape) in
        [(1000, cases::Shape::Zipf), (32_001, cases::Shape::Flat), (4096, cases::Shape::Ties)]
    {
        let random = &mut SplitMix64::new(vocabulary as u64);
        let mut twins = Twins::new(&device, 12, vocabulary);
        let mut pairs = Vec::new();
        for kept in [KeptMode::Summary, KeptMode::Ids] {
            let base = SamplingParams { kept, seed: Some(5), ..Default::default() };
            for params in [
                SamplingParams { top_p: 0.9, ..base.clone() },
                SamplingParams { top_k: 40, top_p: 0.5, ..base.clone() },
                SamplingParams { min_p: 0.01, temperature: 0.7, ..base.clone() },
                SamplingParams { temperature: 0.0, ..base.clone() },
                SamplingParams {
                    top_p: 0.99,
                    repetition_penalty: 1.5,
                    prompt_token_ids: vec![1, 2, 3],
                    ..base.clone()
                },
            ] {
                pairs.push(twins.add(&params));
            }
        }
        let rows =
            Rows::new(Dtype::F32, (0..pairs.len()).map(|_| any_row(random, shape, vocabulary)).collect());
        let uploaded = Uploaded::new(&device, &rows, Lie::default());
        let drawn = twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], "kept sets");
        for (i, drawn) in drawn.iter().enumerate() {
            let drawn = drawn.as_ref().expect("a token");
            let kept = drawn.kept.as_ref().expect("a kept set");
            assert_eq!(kept.ids.is_some(), i >= 5);
            assert!(kept.ids.as_ref().is_none_or(|ids| ids.binary_search(&drawn.token).is_ok()));
            assert!(kept.last.is_some() && kept.count >= 1);
            assert_eq!(drawn.probability, None, "nobody asked for it");
        }
    }
}

#[test]
fn prompts_are_told_as_on_the_cpu() {
    let Some(device) = device() else { return };
    for round in 0..rounds() {
        let random = &mut SplitMix64::new(8000 + round);
        let vocabulary = one_of(random, &VOCABULARIES);
        let prompt: Vec<_> = (0..9).map(|_| cases::any_token(random, vocabulary)).collect();
        let params = SamplingParams {
            prompt_token_ids: prompt,
            prompt_logprobs: Some(one_of(random, &[0, 1, 5, 5, 20, 1024, -1])),
            logprobs_mode: one_of(random, &LogprobsMode::ALL),
            ..any_params(random, vocabulary)
        };
        // There is room for four rows at a time.
        let mut twins = roomy(&device, 4, vocabulary);
        let pair = twins.add(&params);
        let (dtype, shape) = (any_dtype(random), one_of(random, &cases::SHAPES));
        let mut rows: Vec<_> = (0..9).map(|_| any_row(random, shape, vocabulary)).collect();
        rows[2][vocabulary / 2] = f32::NAN;
        rows[5] = vec![f32::NEG_INFINITY; vocabulary];
        rows[6][vocabulary - 1] = f32::INFINITY;
        let rows = Rows::new(dtype, rows);
        let lie = Lie { offset: random.below(2), padding: random.below(3), ..Lie::default() };
        let uploaded = Uploaded::new(&device, &rows, lie);
        for first in [0, 1, 4, 9] {
            let told = twins.gpu.prompt_logprobs(pair.0, first, &uploaded.matrix(&device)).expect("a call");
            let listed: Vec<Vec<f32>> = (0..9).map(|i| widened(&rows, i)).collect();
            let flat: Vec<f32> = listed.concat();
            let matrix = onedraw::Rows::new(&flat[..], 9, vocabulary, vocabulary).expect("rows");
            let expected = twins.cpu.prompt_logprobs(pair.1, first, matrix);
            assert_eq!(told, expected, "round {round}, from {first}, {vocabulary} {dtype:?} {shape:?}");
        }
        // The next step finds everything as it should be.
        let rows = Rows::new(dtype, vec![any_row(random, shape, vocabulary)]);
        let uploaded = Uploaded::new(&device, &rows, Lie::default());
        twins.step(&[pair], &uploaded.matrix(&device), |i| rows.row(i), &[], "afterwards");
        twins.remove(pair);
        let matrix = uploaded.matrix(&device);
        let gone = twins.gpu.prompt_logprobs(pair.0, 0, &matrix).expect("a call");
        assert_eq!(gone, [Err(RowError::UnknownSequence)]);
    }
}

fn widened(rows: &Rows, i: usize) -> Vec<f32> {
    onedraw::EditedRow::from_edited(rows.row(i)).logits().to_vec()
}
