//! Batches on a device beside the CPU: everything that is said of a row is the same. Without a driver the
//! tests are skipped, and say so.
#![allow(unsafe_code)]

use onedraw::{Row, RowError, SamplingParams, Stage};
use onedraw_cuda::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use onedraw_cuda::{Batch, Capacity, CudaError, Device, Dtype, Mask, Matrix, SequenceId, Stream, Turn};
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_dtype, any_params, any_row, by_chance, one_of};
use crate::beside::twins::Twins;
use crate::beside::{Lie, MaskPair, Rows, Uploaded, device, rounds};

fn seeded(seed: u64) -> SamplingParams {
    SamplingParams { seed: Some(seed), ..Default::default() }
}

fn capacity(sequences: usize, vocabulary: usize) -> Capacity {
    Capacity { sequences, rows: sequences, vocabulary, logprobs: 4 }
}

#[test]
fn without_a_driver_the_error_says_so() {
    match Device::new(0) {
        Err(CudaError::NoDriver) => {
            let message = "no NVIDIA driver was found (libcuda): install one, or draw on the CPU";
            assert_eq!(CudaError::NoDriver.to_string(), message);
        }
        Err(error) => panic!("{error}"),
        Ok(device) => {
            println!("skipped: device {} is here", device.ordinal());
            let beyond = Device::new(1000).err();
            assert!(matches!(beyond, Some(CudaError::NoDevice { ordinal: 1000, count: 1.. })), "{beyond:?}");
        }
    }
}

/// The generator makes nothing that the device would refuse, or the tests below would test less than they
/// say.
#[test]
fn random_parameters_are_ones_that_the_device_takes() {
    let random = &mut SplitMix64::new(0);
    for round in 0..5000 {
        let vocabulary = one_of(random, &cases::VOCABULARIES);
        let params = any_params(random, vocabulary);
        assert_eq!(onedraw_cuda::check(&params), Ok(()), "round {round}: {params:?}");
        let plan = onedraw::Plan::new(&params).expect("valid parameters");
        assert_eq!(plan.check_vocabulary(vocabulary), Ok(()), "round {round}: {params:?}");
    }
}

/// Several steps, so that counts, windows and ends move along.
#[test]
fn random_batches_draw_as_on_the_cpu() {
    let Some(device) = device() else { return };
    for round in 0..rounds() {
        let random = &mut SplitMix64::new(round);
        let vocabulary = one_of(random, &cases::VOCABULARIES);
        let count = 1 + random.below(if vocabulary < 5000 { 40 } else { 8 });
        let mut twins = Twins::new(&device, count, vocabulary);
        let pairs: Vec<_> = (0..count).map(|_| twins.add(&any_params(random, vocabulary))).collect();
        for step in 0..6 {
            let (dtype, shape) = (any_dtype(random), one_of(random, &cases::SHAPES));
            let rows = (0..count).map(|_| any_row(random, shape, vocabulary)).collect();
            let rows = Rows::new(dtype, rows);
            let uploaded = Uploaded::new(&device, &rows, Lie::default());
            let what = format!("round {round}, step {step}, {vocabulary} {dtype:?} {shape:?}");
            twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], &what);
        }
    }
}

#[test]
fn rows_may_lie_anyhow() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(1);
    let lies = [(0, 4, false), (0, 3, false), (1, 0, false), (5, 7, false), (0, 0, true), (3, 1, true)];
    for (dtype, (offset, padding, is_reversed)) in
        Dtype::ALL.into_iter().flat_map(|dtype| lies.map(|lie| (dtype, lie)))
    {
        let lie = Lie { offset, padding, is_reversed };
        for vocabulary in [1, 1000, 32_001] {
            let mut twins = Twins::new(&device, 5, vocabulary);
            let pairs: Vec<_> = (0..5).map(|_| twins.add(&any_params(random, vocabulary))).collect();
            let rows = (0..5).map(|_| any_row(random, cases::Shape::Zipf, vocabulary)).collect();
            let rows = Rows::new(dtype, rows);
            let uploaded = Uploaded::new(&device, &rows, lie);
            let what = format!("{vocabulary} {dtype:?} {lie:?}");
            twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], &what);
        }
    }
}

/// A stride of 0: all sequences draw from one row.
#[test]
fn one_row_may_serve_all() {
    let Some(device) = device() else { return };
    let row = any_row(&mut SplitMix64::new(2), cases::Shape::Zipf, 1000);
    let mut twins = Twins::new(&device, 20, 1000);
    let pairs: Vec<_> = (0..20).map(|seed| twins.add(&seeded(seed))).collect();
    let logits = device.context().default_stream().clone_htod(&row).expect("memory");
    let matrix = Matrix::of(&device, &logits, 20, 1000, 0).expect("a matrix");
    twins.step(&pairs, &matrix, |_| Row::from(&row[..]), &[], "one row");
}

#[test]
fn masks_come_with_rows() {
    let Some(device) = device() else { return };
    for round in 0..rounds() {
        let random = &mut SplitMix64::new(1000 + round);
        let vocabulary = one_of(random, &[1, 17, 64, 1000, 32_001]);
        let mut twins = Twins::new(&device, 10, vocabulary);
        let pairs: Vec<_> = (0..10).map(|_| twins.add(&any_params(random, vocabulary))).collect();
        for step in 0..3 {
            let rows = (0..10).map(|_| any_row(random, cases::Shape::Holes, vocabulary)).collect();
            let rows = Rows::new(any_dtype(random), rows);
            let uploaded = Uploaded::new(&device, &rows, Lie::default());
            let masks: Vec<_> = (0..10)
                .map(|_| {
                    by_chance(random, 0.7)
                        .then(|| MaskPair::new(&device, cases::any_mask(random, vocabulary)))
                })
                .collect();
            let masks: Vec<_> = masks.iter().map(Option::as_ref).collect();
            let what = format!("round {round}, step {step}, {vocabulary}");
            twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &masks, &what);
        }
    }
}

#[test]
fn a_mask_needs_its_stage_and_its_length() {
    let Some(device) = device() else { return };
    let mut twins = Twins::new(&device, 2, 100);
    let unnamed = SamplingParams { order: Some("top_k".parse().expect("an order")), ..seeded(1) };
    let pairs = [twins.add(&unnamed), twins.add(&seeded(2))];
    let rows = Rows::new(Dtype::F32, vec![vec![0.5; 100]; 2]);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let (whole, short) =
        (MaskPair::new(&device, vec![u32::MAX; 4]), MaskPair::new(&device, vec![u32::MAX; 3]));
    let masks = [Some(&whole), Some(&short)];
    let results = twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &masks, "bad masks");
    assert_eq!(results[0], Err(RowError::MaskWithoutStage));
    assert_eq!(results[1], Err(RowError::MaskTooShort { words: 3, needed: 4 }));
}

#[test]
fn a_bad_row_is_its_own_error_and_the_next_step_is_sound() {
    let Some(device) = device() else { return };
    let (nan, inf, masked) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    let mut twins = Twins::new(&device, 8, 70);
    let sequences = [
        seeded(1),
        seeded(2),
        seeded(3),
        SamplingParams { allowed_token_ids: Some(vec![3]), ..seeded(4) },
        SamplingParams { bad_words_ids: vec![vec![69]], ..seeded(5) },
        SamplingParams { min_tokens: 1, eos_token_id: vec![69], logprobs: Some(2), ..seeded(6) },
        SamplingParams { temperature: 0.0, ..seeded(7) },
        SamplingParams { allowed_token_ids: Some(vec![0]), ..seeded(8) },
    ];
    let pairs: Vec<_> = sequences.iter().map(|params| twins.add(params)).collect();
    let lone = |token: usize| (0..70).map(|i| if i == token { 1.0 } else { masked }).collect::<Vec<f32>>();
    let with = |places: &[(usize, f32)]| {
        let mut row = vec![0.25; 70];
        places.iter().for_each(|&(place, x)| row[place] = x);
        row
    };
    let bad = vec![
        with(&[(68, nan), (69, inf)]),
        with(&[(3, inf), (5, nan)]),
        vec![masked; 70],
        lone(4),
        lone(69),
        lone(69),
        with(&[(0, nan)]),
        with(&[(69, nan)]),
    ];
    let rows = Rows::new(Dtype::F32, bad);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let results = twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], "bad rows");
    assert_eq!(results[0], Err(RowError::NanLogit { token: 68 }));
    assert_eq!(results[1], Err(RowError::InfiniteLogit { token: 3 }));
    assert_eq!(results[2], Err(RowError::NothingLeft { stage: None }));
    assert_eq!(results[3], Err(RowError::NothingLeft { stage: Some(Stage::Allowed) }));
    assert_eq!(results[4], Err(RowError::NothingLeft { stage: Some(Stage::BadWords) }));
    assert_eq!(results[5], Err(RowError::NothingLeft { stage: Some(Stage::MinTokens) }));
    let rows = Rows::new(Dtype::F32, vec![with(&[(9, 3.0)]); 8]);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    for result in twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], "good rows") {
        assert_eq!(result.map(|sampled| sampled.position), Ok(0), "a bad row moves nobody on");
    }
}

#[test]
fn strangers_and_repetitions_are_errors_of_their_rows() {
    let Some(device) = device() else { return };
    let mut twins = Twins::new(&device, 4, 100);
    let (first, gone) = (twins.add(&seeded(1)), twins.add(&seeded(2)));
    twins.remove(gone);
    let nobody = (SequenceId::NOBODY, onedraw::SequenceId::NOBODY);
    let rows = Rows::new(Dtype::F32, vec![any_row(&mut SplitMix64::new(3), cases::Shape::Flat, 100); 4]);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let pairs = [gone, first, first, nobody];
    for _ in 0..2 {
        let results = twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], "strangers");
        assert!(results[1].is_ok());
        assert_eq!(results[0], Err(RowError::UnknownSequence));
        assert_eq!(results[2], Err(RowError::RepeatedSequence));
    }
    assert_eq!(twins.gpu.position(first.0), Ok(2));
}

#[test]
fn sequences_come_and_go() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(4);
    let vocabulary = 1000;
    let mut twins = Twins::new(&device, 6, vocabulary);
    let mut pairs = Vec::new();
    for step in 0..60 {
        while pairs.len() < 6 && by_chance(random, 0.6) {
            pairs.push(twins.add(&any_params(random, vocabulary)));
        }
        random.shuffle(&mut pairs);
        if !pairs.is_empty() {
            let rows = pairs.iter().map(|_| any_row(random, cases::Shape::Ties, vocabulary)).collect();
            let rows = Rows::new(Dtype::F32, rows);
            let uploaded = Uploaded::new(&device, &rows, Lie::default());
            twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], &format!("step {step}"));
        }
        pairs.retain(|&pair| {
            let stays = by_chance(random, 0.7);
            if !stays {
                twins.remove(pair);
            }
            stays
        });
    }
}

/// Tokens that were chosen elsewhere count as drawn ones do.
#[test]
fn accepted_tokens_enter_the_history() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(5);
    let vocabulary = 40;
    let mut twins = Twins::new(&device, 10, vocabulary);
    let pairs: Vec<_> = (0..10)
        .map(|_| {
            let mut params = any_params(random, vocabulary);
            cases::set_edits(&mut params, random, vocabulary);
            twins.add(&params)
        })
        .collect();
    let stream = device.context().default_stream();
    for step in 0..10 {
        let mut tokens = Vec::new();
        for _ in 0..random.below(20) {
            let (pair, token) = (one_of(random, &pairs), cases::any_token(random, vocabulary));
            tokens.push((pair.0, token));
            assert!(twins.cpu.accept(pair.1, token));
        }
        twins.gpu.accept(&stream, &tokens).expect("tokens of the vocabulary");
        let rows = pairs.iter().map(|_| any_row(random, cases::Shape::Ties, vocabulary)).collect();
        let rows = Rows::new(Dtype::F32, rows);
        let uploaded = Uploaded::new(&device, &rows, Lie::default());
        twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], &format!("step {step}"));
    }
    let position = twins.cpu.output(pairs[0].1).map(|output| output.len() as u32);
    assert_eq!(twins.gpu.position(pairs[0].0).ok(), position);
    let outside = RowError::OutsideVocabulary { field: "output_token_ids", token: 40, vocabulary };
    assert_eq!(twins.gpu.accept(&stream, &[(pairs[0].0, 40)]), Err(outside.into()));
    let stranger = twins.gpu.accept(&stream, &[(SequenceId::NOBODY, 1)]);
    assert_eq!(stranger, Err(RowError::UnknownSequence.into()));
}

#[test]
fn a_seed_may_change_and_all_n_share_one() {
    let Some(device) = device() else { return };
    let mut twins = Twins::new(&device, 8, 500);
    let params = SamplingParams { n: 3, ..seeded(9) };
    let all = twins.gpu.add_all(&params).expect("room");
    let cpu = twins.cpu.add_all(params).expect("valid parameters");
    let mut pairs: Vec<_> = all.into_iter().zip(cpu).collect();
    let other = twins.add(&seeded(1));
    twins.gpu.set_seed(other.0, 77).expect("it is there");
    twins.cpu.remove(other.1);
    pairs.push((other.0, twins.cpu.add(seeded(77)).expect("valid parameters")));
    assert_eq!(twins.gpu.seed(other.0), Some(77));
    let drawn = twins.gpu.add(&SamplingParams::default()).expect("room");
    assert!(twins.gpu.seed(drawn).is_some());
    let rows = Rows::new(Dtype::BF16, vec![any_row(&mut SplitMix64::new(6), cases::Shape::Flat, 500); 4]);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], "seeds");
}

/// What is captured once draws step after step, with histories that move along on the device.
#[test]
fn a_launch_may_stand_in_a_graph() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(7);
    let (vocabulary, count) = (4096, 12);
    let mut twins = Twins::new(&device, count, vocabulary);
    let pairs: Vec<_> = (0..count).map(|_| twins.add(&any_params(random, vocabulary))).collect();
    let rows: Vec<_> = (0..count).map(|_| any_row(random, cases::Shape::Ties, vocabulary)).collect();
    let rows = Rows::new(Dtype::F16, rows);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let matrix = uploaded.matrix(&device);
    let stream = device.context().new_stream().expect("a stream");
    let turns = twins.turns(&pairs, &[]);
    twins.gpu.prepare(&stream, &turns).expect("turns");
    stream.synchronize().expect("a copy");
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL).expect("a capture");
    // As PyTorch's streams come. SAFETY: the stream lives longer than its handle.
    let handle = unsafe { Stream::from_raw(stream.cu_stream()) };
    // SAFETY: matrix and batch outlive the graph, whose turns stay the same.
    unsafe { twins.gpu.launch(handle, &matrix) }.expect("a launch");
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags).expect("a graph").expect("launches in it");
    for step in 0..5 {
        twins.gpu.prepare(&stream, &turns).expect("turns");
        graph.launch().expect("a launch");
        let drawn = twins.gpu.results(&stream).expect("results");
        assert_eq!(drawn, twins.expected(&pairs, |i| rows.row(i), &[]), "step {step}");
    }
}

#[test]
fn results_are_read_once_after_a_launch() {
    let Some(device) = device() else { return };
    let mut twins = Twins::new(&device, 2, 200);
    let pairs = [twins.add(&seeded(1)), twins.add(&seeded(2))];
    let rows = Rows::new(Dtype::F32, vec![any_row(&mut SplitMix64::new(8), cases::Shape::Zipf, 200); 2]);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let matrix = uploaded.matrix(&device);
    let stream = device.context().default_stream();
    let turns = twins.turns(&pairs, &[]);
    assert_eq!(twins.gpu.results(&stream), Err(CudaError::NoResults), "nothing is prepared");
    twins.gpu.prepare(&stream, &turns).expect("turns");
    assert_eq!(twins.gpu.results(&stream), Err(CudaError::NoResults), "nothing was ever launched");
    // SAFETY: the matrix is there until the results are.
    unsafe { twins.gpu.launch(&stream, &matrix) }.expect("a launch");
    assert_eq!(twins.gpu.position(pairs[0].0), Ok(1), "not read yet");
    assert_eq!(twins.gpu.results(&stream), Ok(twins.expected(&pairs, |i| rows.row(i), &[])));
    assert_eq!(twins.gpu.results(&stream), Err(CudaError::NoResults), "read before");
    twins.step(&pairs, &matrix, |i| rows.row(i), &[], "a step after the errors");
    assert_eq!(twins.gpu.drawn().rows, 2, "the tokens are still there");
    assert_eq!(twins.gpu.results(&stream), Err(CudaError::NoResults), "read by `sample`");
    // SAFETY: nothing is launched.
    let again = unsafe { twins.gpu.launch(&stream, &matrix) };
    assert_eq!(again, Err(CudaError::Rows { rows: 2, turns: 0 }), "a step's masks are not used after it");
    twins.gpu.prepare(&stream, &[]).expect("no turns");
    assert_eq!(twins.gpu.results(&stream), Ok(Vec::new()), "no turns need no launch");
}

/// Tokens may stay on the device: whoever reads results later gets the positions that the CPU has.
#[test]
fn positions_are_right_after_draws_that_nobody_read() {
    let Some(device) = device() else { return };
    let mut twins = Twins::new(&device, 3, 200);
    let counted = SamplingParams { frequency_penalty: 0.3, penalty_window: 3, ..seeded(2) };
    let pairs = [twins.add(&seeded(1)), twins.add(&counted), twins.add(&seeded(3))];
    let row = any_row(&mut SplitMix64::new(9), cases::Shape::Ties, 200);
    let mut bad = row.clone();
    bad[7] = f32::NAN;
    let rows = Rows::new(Dtype::F32, vec![row.clone(), row, bad]);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let matrix = uploaded.matrix(&device);
    let stream = device.context().new_stream().expect("a stream");
    let turns = twins.turns(&pairs, &[]);
    for _ in 0..3 {
        twins.gpu.prepare(&stream, &turns).expect("turns");
        // SAFETY: the matrix is there until the stream was waited for.
        unsafe { twins.gpu.launch(&stream, &matrix) }.expect("a launch");
        twins.expected(&pairs, |i| rows.row(i), &[]);
    }
    // The others of the unread steps have no row in this one.
    let (first, one) = (&pairs[..1], Uploaded::new(&device, &rows.pick(&[0]), Lie::default()));
    twins.gpu.prepare(&stream, &turns[..1]).expect("turns");
    // SAFETY: as above.
    unsafe { twins.gpu.launch(&stream, &one.matrix(&device)) }.expect("a launch");
    assert_eq!(twins.gpu.results(&stream), Ok(twins.expected(first, |i| rows.row(i), &[])));
    let drawn = twins.step(&pairs, &matrix, |i| rows.row(i), &[], "after unread steps");
    let positions: Vec<_> = drawn.iter().flatten().map(|sampled| sampled.position).collect();
    assert_eq!(positions, [4, 3]);
}

#[test]
fn a_failed_read_loses_no_position() {
    let Some(device) = device() else { return };
    let mut twins = Twins::new(&device, 2, 200);
    let pairs = [twins.add(&seeded(1)), twins.add(&seeded(2))];
    let rows = Rows::new(Dtype::F32, vec![any_row(&mut SplitMix64::new(10), cases::Shape::Ties, 200); 2]);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let matrix = uploaded.matrix(&device);
    let turns = twins.turns(&pairs, &[]);
    for is_read_again in [true, false, true] {
        let stream = device.context().new_stream().expect("a stream");
        twins.gpu.prepare(&stream, &turns).expect("turns");
        // SAFETY: the matrix is there until the stream was waited for.
        unsafe { twins.gpu.launch(&stream, &matrix) }.expect("a launch");
        stream.synchronize().expect("a draw");
        // Nobody can wait for a stream that is captured.
        stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED).expect("a capture");
        assert!(matches!(twins.gpu.results(&stream), Err(CudaError::Memory(_))));
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        // It was spoilt by then.
        let _ = stream.end_capture(flags);
        let expected = twins.expected(&pairs, |i| rows.row(i), &[]);
        if is_read_again {
            assert_eq!(twins.gpu.results(&stream), Ok(expected));
        }
        twins.step(&pairs, &matrix, |i| rows.row(i), &[], "a step after the failure");
    }
}

#[test]
fn draws_of_several_positions_are_made_from_one_text() {
    let Some(device) = device() else { return };
    let mut twins = Twins::new(&device, 3, 200);
    let penalties = SamplingParams { presence_penalty: 0.5, output_token_ids: vec![1, 2, 3], ..seeded(1) };
    let row = any_row(&mut SplitMix64::new(11), cases::Shape::Zipf, 200);
    let uploaded = Uploaded::new(&device, &Rows::new(Dtype::F32, vec![row.clone()]), Lie::default());
    let all = [
        penalties.clone(),
        SamplingParams { penalty_window: 2, ..penalties.clone() },
        SamplingParams { bad_words_ids: vec![vec![3, 5], vec![2, 3, 6]], min_tokens: 4, ..penalties.clone() },
        SamplingParams { no_repeat_ngram_size: 1, eos_token_id: vec![9], min_tokens: 4, ..penalties },
    ];
    for params in all {
        let pair = twins.add(&params);
        twins.gpu.set_position(pair.0, 3 + 5).expect("it is there");
        let peeked = twins.cpu.peek(&[onedraw::Step::new(pair.1, &row[..])], 5);
        let stream = device.context().default_stream();
        let drawn = twins.gpu.peek_on(&stream, &[Turn::new(pair.0)], &uploaded.matrix(&device));
        assert_eq!(drawn, Ok(peeked), "{params:?}");
        twins.gpu.set_position(pair.0, 3).expect("it is there");
        let rows = Rows::new(Dtype::F32, vec![row.clone()]);
        for what in ["back again", "and on"] {
            twins.step(&[pair], &uploaded.matrix(&device), |i| rows.row(i), &[], what);
        }
        twins.remove(pair);
    }
    assert_eq!(twins.gpu.set_position(SequenceId::NOBODY, 9), Err(RowError::UnknownSequence.into()));
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(device) = device() else { return };
    let mut batch = Batch::new(&device, capacity(2, 100)).expect("a batch");
    let (first, _) = (batch.add(&seeded(1)).expect("room"), batch.add(&seeded(2)).expect("room"));
    assert_eq!(batch.add(&seeded(3)), Err(CudaError::TooMany { what: "sequences", given: 3, capacity: 2 }));
    assert!(batch.remove(first) && !batch.remove(first));
    let logprobs = SamplingParams { logprobs: Some(5), ..seeded(1) };
    assert_eq!(batch.add(&logprobs), Err(CudaError::TooMany { what: "logprobs", given: 5, capacity: 4 }));
    let outside = SamplingParams { allowed_token_ids: Some(vec![100]), ..seeded(1) };
    let error = RowError::OutsideVocabulary { field: "allowed_token_ids", token: 100, vocabulary: 100 };
    assert_eq!(batch.add(&outside), Err(error.into()));
    let turns = [Turn::new(first); 3];
    let stream = device.context().default_stream();
    let too_many = CudaError::TooMany { what: "rows", given: 3, capacity: 2 };
    assert_eq!(batch.prepare(&stream, &turns), Err(too_many));
    let logits = stream.clone_htod(&vec![0f32; 200]).expect("memory");
    let two = Matrix::of(&device, &logits, 2, 100, 100).expect("a matrix");
    let error = batch.sample(&turns[..1], &two).err();
    assert_eq!(error, Some(CudaError::Rows { rows: 2, turns: 1 }));
    let short = Matrix::of(&device, &logits, 1, 99, 99).expect("a matrix");
    let error = batch.sample(&turns[..1], &short).err();
    assert_eq!(error, Some(CudaError::Vocabulary { given: 99, needed: 100 }));
    assert_eq!(
        batch.sample(&[], &Matrix::of(&device, &logits, 0, 100, 100).expect("a matrix")),
        Ok(Vec::new())
    );
    let vocabulary = device.max_vocabulary();
    let beyond = Batch::new(&device, capacity(1, vocabulary + 1)).err();
    assert_eq!(
        beyond,
        Some(CudaError::TooMany { what: "vocabulary", given: vocabulary + 1, capacity: vocabulary })
    );
}

#[test]
fn memory_of_the_host_is_refused() {
    let Some(device) = device() else { return };
    let host = [0f32; 64];
    let address = host.as_ptr() as u64;
    // SAFETY: nothing is drawn from it.
    let matrix = unsafe { Matrix::new(&device, address, Dtype::F32, 1, 64, 64) };
    assert_eq!(matrix.err(), Some(CudaError::NotOnDevice { address }));
    // SAFETY: as above.
    let matrix = unsafe { Matrix::new(&device, address + 1, Dtype::F16, 1, 64, 64) };
    assert_eq!(matrix.err(), Some(CudaError::Misaligned { address: address + 1, size: 2 }));
    // SAFETY: as above.
    let matrix = unsafe { Matrix::new(&device, 0, Dtype::F32, 1, 64, 64) };
    assert_eq!(matrix.err(), Some(CudaError::NullAddress));
    // SAFETY: a matrix without rows has no memory.
    assert!(unsafe { Matrix::new(&device, 0, Dtype::F32, 0, 64, 64) }.is_ok());
}

#[test]
fn a_null_mask_is_no_mask() {
    let Some(device) = device() else { return };
    // SAFETY: nothing is drawn with it.
    let null = unsafe { Mask::new(&device, 0, 2) };
    assert_eq!(null.err(), Some(CudaError::NullAddress));
    // SAFETY: it has no words.
    let empty = unsafe { Mask::new(&device, 0, 0) }.expect("a mask that is too short for any row");
    let mut batch = Batch::new(&device, capacity(1, 64)).expect("a batch");
    let sequence = batch.add(&seeded(1)).expect("room");
    let logits = device.context().default_stream().clone_htod(&[0f32; 64]).expect("memory");
    let matrix = Matrix::of(&device, &logits, 1, 64, 64).expect("a matrix");
    let results = batch.sample(&[Turn { sequence, mask: Some(empty) }], &matrix);
    assert_eq!(results, Ok(vec![Err(RowError::MaskTooShort { words: 0, needed: 2 })]));
}
