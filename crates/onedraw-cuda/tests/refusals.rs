//! What a machine may lack: a newer driver, a newer card, memory, a launch that works, the device itself. The emulated
//! driver can lack each of these; on a device, or without one, the tests are skipped and say so.

use std::ptr::{null_mut, without_provenance_mut};

use onedraw::{KeptMode, Rank, SamplingParams, Step};
use onedraw_cuda::cudarc::driver::{CudaContext, CudaSlice};
use onedraw_cuda::{
    Batch, Capacity, CudaError, Device, Dtype, RankParts, RankTurn, Requests, Shard, Stream, Turn,
};
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_row};
use crate::beside::twins::{Pair, Twins};
use crate::beside::{Lie, Rows, Uploaded, device, lacks};

fn seeded(seed: u64) -> SamplingParams {
    SamplingParams { seed: Some(seed), ..Default::default() }
}

#[test]
fn an_older_driver_is_named() {
    if lacks("driver", "refusals::an_older_driver_is_named") {
        let error = Device::new(0).expect_err("it is too old");
        assert_eq!(error, CudaError::OldDriver { found: 12_080, needed: 13_000 });
        assert!(error.to_string().contains("12.8") && error.to_string().contains("13.0"), "{error}");
    }
}

#[test]
fn an_older_card_is_named() {
    if lacks("card", "refusals::an_older_card_is_named") {
        let error = Device::new(0).expect_err("it is too old");
        assert_eq!(error, CudaError::OldDevice { name: "a CPU".into(), major: 7, minor: 5 });
        assert!(error.to_string().contains("7.5") && error.to_string().contains("8.0"), "{error}");
    }
}

/// Each launch of a step of such sequences fails once, and the next step works. Nobody has moved before the draw;
/// after it sequences have a token more, though nobody was told, but for some of those of which kept ids are told. In
/// each step a sequence is new, which is counted before.
fn each_launch_fails_once(device: &Device, sequences: &[SamplingParams], launches: &[&str]) {
    // Large enough that what is left of a row may be more than a draw sums by itself.
    const VOCABULARY: usize = 20_000;
    let random = &mut SplitMix64::new(5);
    let mut twins = Twins::new(device, sequences.len() + 1, VOCABULARY);
    let mut pairs: Vec<Pair> = sequences.iter().map(|params| twins.add(params)).collect();
    let mut add_new = |twins: &mut Twins, pairs: &mut Vec<Pair>, seed| {
        pairs.drain(sequences.len()..).for_each(|pair| twins.remove(pair));
        let new = SamplingParams { repetition_penalty: 1.3, prompt_token_ids: vec![3, 4], ..seeded(seed) };
        pairs.push(twins.add(&new));
        let rows = pairs.iter().map(|_| any_row(random, cases::Shape::Zipf, VOCABULARY)).collect();
        Rows::new(Dtype::F32, rows)
    };
    for (i, launch) in launches.iter().enumerate() {
        let rows = add_new(&mut twins, &mut pairs, 100 + i as u64);
        let uploaded = Uploaded::new(device, &rows, Lie::default());
        let failed = twins.gpu.sample(&twins.turns(&pairs, &[]), &uploaded.matrix(device));
        assert!(matches!(failed, Err(CudaError::Launch(_))), "{launch}: {failed:?}");
        let later = add_new(&mut twins, &mut pairs, 200 + i as u64);
        let uploaded = Uploaded::new(device, &later, Lie::default());
        let drawn = twins.gpu.sample(&twins.turns(&pairs, &[]), &uploaded.matrix(device)).expect("a step");
        let is_drawn = launches[..i].contains(&"the draw");
        for (row, (&pair, drawn)) in pairs.iter().zip(drawn).enumerate() {
            let written = twins.cpu.output(pair.1).expect("a sequence").len() as u32;
            let moved = drawn.as_ref().expect("a token").position - written;
            let before = sequences.get(row).filter(|_| is_drawn);
            let is_told = before.is_some_and(|params| params.kept != KeptMode::None);
            let is_right = moved == u32::from(before.is_some()) || (is_told && moved == 0);
            assert!(is_right, "{launch}, sequence {row}: {moved}");
            if moved == 1 {
                twins.expected(&[pair], |_| rows.row(row), &[]);
            }
            let expected = twins.expected(&[pair], |_| later.row(row), &[]);
            assert_eq!(drawn, expected[0], "{launch}, sequence {row}");
        }
    }
}

#[test]
fn after_a_launch_that_failed_the_next_works() {
    if !lacks("launch 5", "refusals::after_a_launch_that_failed_the_next_works") {
        return;
    }
    let Some(device) = device() else { return };
    let params = |seed| SamplingParams { repetition_penalty: 1.3, logprobs: Some(2), ..seeded(seed) };
    let launches = ["what is new", "the first pass", "the draw", "sums", "what is told"];
    each_launch_fails_once(&device, &[params(1), params(2)], &launches);
}

/// The same where rows are summed before the draw, and where kept ids are told, after which sequences move on.
#[test]
fn after_a_launch_that_failed_kept_ids_are_right() {
    if !lacks("launch 7", "refusals::after_a_launch_that_failed_kept_ids_are_right") {
        return;
    }
    let Some(device) = device() else { return };
    let kept = |seed| SamplingParams { kept: KeptMode::Ids, ..seeded(seed) };
    let sequences = [
        SamplingParams { xtc_probability: 0.5, ..kept(1) },
        SamplingParams { typical_p: 0.8, ..kept(2) },
        SamplingParams { top_p: 0.9, repetition_penalty: 1.3, ..kept(3) },
        SamplingParams { mirostat: 2, mirostat_tau: 3.0, ..kept(4) },
        // All tokens are left, or many: then their sums are told by the last kernel.
        SamplingParams { temperature: 1.2, ..kept(6) },
        SamplingParams { mirostat: 2, mirostat_tau: 9.0, ..kept(7) },
        SamplingParams { mirostat: 1, mirostat_tau: 9.0, ..kept(8) },
        SamplingParams { logprobs: Some(2), ..seeded(5) },
    ];
    let launches = [
        "what is new",
        "the first pass",
        "sums before the draw",
        "the draw",
        "sums",
        "raw logprobs",
        "what is left",
    ];
    each_launch_fails_once(&device, &sequences, &launches);
}

#[test]
fn a_text_without_memory_stays_as_it_is() {
    if !lacks("memory", "refusals::a_text_without_memory_stays_as_it_is") {
        return;
    }
    let Some(device) = device() else { return };
    const VOCABULARY: usize = 300;
    let mut twins = Twins::new(&device, 40, VOCABULARY);
    // The room of a text ends after 229,376 tokens: the next one needs more memory.
    let params = |seed, prompt: u32| SamplingParams {
        seed: Some(seed),
        repetition_penalty: 1.3,
        prompt_token_ids: (0..prompt).map(|i| i % 300).collect(),
        ..Default::default()
    };
    let (large, pair) = (twins.add(&params(1, 300_000)), twins.add(&params(2, 229_376)));
    let mut others = Vec::new();
    let error = loop {
        match twins.gpu.add(&params(3, 229_376)) {
            Ok(id) => others.push(id),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, CudaError::Memory(_)), "{error}");
    assert!((2..38).contains(&others.len()), "{}", others.len());
    let rows = vec![any_row(&mut SplitMix64::new(6), cases::Shape::Zipf, VOCABULARY)];
    let rows = Rows::new(Dtype::F32, rows);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let stream = device.context().default_stream();
    for _ in 0..2 {
        let failed = twins.gpu.sample(&twins.turns(&[pair], &[]), &uploaded.matrix(&device));
        assert!(matches!(failed, Err(CudaError::Memory(_))), "{failed:?}");
        let failed = twins.gpu.accept(&stream, &[(large.0, 5), (pair.0, 5)]);
        assert!(matches!(failed, Err(CudaError::Memory(_))), "{failed:?}");
        assert_eq!((twins.gpu.position(pair.0), twins.gpu.position(large.0)), (Ok(0), Ok(0)));
    }
    twins.step(&[large], &uploaded.matrix(&device), |i| rows.row(i), &[], "one that has room");
    assert!(twins.gpu.remove(others.remove(0)));
    others.push(twins.gpu.add(&params(4, 229_376)).expect("the memory of the one that is gone"));
    twins.remove(large);
    for what in ["with the memory of a longer text", "and on"] {
        twins.step(&[pair], &uploaded.matrix(&device), |i| rows.row(i), &[], what);
    }
}

/// Takes the device's memory, down to the last kilobyte.
fn take_all(device: &Device) -> Vec<CudaSlice<u8>> {
    let (stream, mut taken) = (device.context().default_stream(), Vec::new());
    for bytes in [1 << 20, 1 << 14, 1 << 10] {
        while let Ok(memory) = stream.alloc_zeros(bytes) {
            taken.push(memory);
        }
    }
    taken
}

fn is_memory<T>(result: Result<T, CudaError>) -> bool {
    matches!(result.map(|_| ()), Err(CudaError::Memory(message)) if !message.is_empty())
}

/// Everything that takes memory says that there is none; what was there before goes on, and once there is memory again
/// everything works.
#[test]
fn without_memory_there_is_an_error_and_the_next_batch_works() {
    if !lacks("memory", "refusals::without_memory_there_is_an_error_and_the_next_batch_works") {
        return;
    }
    let Some(device) = device() else { return };
    const VOCABULARY: usize = 300;
    let capacity = Capacity { sequences: 2, rows: 2, vocabulary: VOCABULARY, logprobs: 2 };
    let params = SamplingParams { repetition_penalty: 1.3, seed: Some(1), ..Default::default() };
    let mut twins = Twins::new(&device, 2, VOCABULARY);
    let mut requests = Requests::new(&device, capacity, 64).expect("memory");
    let pair = twins.add(&SamplingParams { seed: Some(2), ..Default::default() });
    let rows = vec![any_row(&mut SplitMix64::new(9), cases::Shape::Zipf, VOCABULARY)];
    let rows = Rows::new(Dtype::F32, rows);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let matrix = uploaded.matrix(&device);
    twins.step(&[pair], &matrix, |i| rows.row(i), &[], "before");
    let taken = take_all(&device);
    assert!(taken.len() > 16, "{}", taken.len());
    assert!(is_memory(Batch::new(&device, capacity)));
    assert!(is_memory(Requests::new(&device, capacity, 64)));
    assert!(is_memory(Shard::new(&device, &params, VOCABULARY)));
    assert!(is_memory(twins.gpu.add(&params)));
    assert!(is_memory(requests.add(Stream::default(), 0, "0", &params, 0, false)) && !requests.has(0));
    twins.step(&[pair], &matrix, |i| rows.row(i), &[], "one that has its memory");
    drop(taken);
    let other = twins.add(&params);
    twins.step(&[other], &matrix, |i| rows.row(i), &[], "there is memory again");
    requests.add(Stream::default(), 0, "0", &params, 0, false).expect("memory");
    let mut next = Twins::new(&device, 2, VOCABULARY);
    let pair = next.add(&params);
    next.step(&[pair], &matrix, |i| rows.row(i), &[], "the next batch");
    Shard::new(&device, &params, VOCABULARY).expect("memory");
}

/// Where there is no memory for one of a rank's sequences, all stay where they are, and follow later.
#[test]
fn a_rank_without_memory_moves_nothing() {
    if !lacks("memory", "refusals::a_rank_without_memory_moves_nothing") {
        return;
    }
    let Some(device) = device() else { return };
    let vocabulary = 300;
    let mut batch = onedraw::Batch::new();
    let params = |seed| SamplingParams { seed: Some(seed), frequency_penalty: 0.7, ..Default::default() };
    let plain = batch.add(params(8)).expect("valid");
    let mut parts = RankParts::new(&device).expect("memory");
    let rank = Rank { count: 1, vocabulary, start: 0 };
    let echo = |message: &[u8], _| Ok::<_, CudaError>(vec![message.to_vec()]);
    let random = &mut SplitMix64::new(10);
    for step in 0..8 {
        let other = batch.add(params(100 + step)).expect("valid");
        let rows = Rows::new(Dtype::F32, vec![any_row(random, cases::Shape::Zipf, vocabulary); 2]);
        let uploaded = Uploaded::new(&device, &rows, Lie::default());
        let (matrix, turns) = (uploaded.matrix(&device), [plain, other].map(RankTurn::new));
        let steps = [Step::new(plain, rows.row(0)), Step::new(other, rows.row(1))];
        let expected = batch.peek(&steps, 0);
        let taken = take_all(&device);
        let refused = parts.sample_over(&mut batch, &turns, &matrix, &rank, Stream::default(), echo);
        assert!(is_memory(refused), "step {step}");
        assert_eq!(batch.peek(&steps, 0), expected, "nobody has moved");
        drop(taken);
        // The host draws now and then, and the device has to follow.
        let drawn = match step % 4 < 2 {
            true => batch.sample(&steps),
            false => parts
                .sample_over(&mut batch, &turns, &matrix, &rank, Stream::default(), echo)
                .expect("memory"),
        };
        assert_eq!(drawn, expected, "step {step}");
        assert!(batch.remove(other));
    }
}

/// Nothing is drawn any more, and every call says why. Only a new process has the device again.
#[test]
fn a_lost_device_is_the_error_of_every_call() {
    if !lacks("device", "refusals::a_lost_device_is_the_error_of_every_call") {
        return;
    }
    let Some(device) = device() else { return };
    const VOCABULARY: usize = 300;
    let capacity = Capacity { sequences: 2, rows: 2, vocabulary: VOCABULARY, logprobs: 2 };
    let mut twins = Twins::new(&device, 2, VOCABULARY);
    let params = SamplingParams { repetition_penalty: 1.3, seed: Some(1), ..Default::default() };
    let pair = twins.add(&params);
    let rows = vec![any_row(&mut SplitMix64::new(11), cases::Shape::Zipf, VOCABULARY)];
    let rows = Rows::new(Dtype::F32, rows);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let matrix = uploaded.matrix(&device);
    let turns = twins.turns(&[pair], &[]);
    let mut drawn = 0;
    let error = loop {
        match twins.gpu.sample(&turns, &matrix) {
            Ok(found) => assert_eq!(found, twins.expected(&[pair], |i| rows.row(i), &[])),
            Err(error) => break error,
        }
        drawn += 1;
    };
    assert!((1..10).contains(&drawn), "{drawn}");
    let is_lost = |error: CudaError| match error {
        CudaError::Memory(message) | CudaError::Launch(message) => {
            message.contains("CUDA_ERROR_LAUNCH_FAILED")
        }
        _ => false,
    };
    assert!(is_lost(error.clone()), "{error}");
    for _ in 0..3 {
        assert!(is_lost(twins.gpu.sample(&turns, &matrix).expect_err("it is lost")));
        assert!(is_lost(twins.gpu.accept(Stream::default(), &[(pair.0, 5)]).expect_err("it is lost")));
        assert!(is_lost(Batch::new(&device, capacity).expect_err("it is lost")));
        assert!(is_lost(Requests::new(&device, capacity, 64).expect_err("it is lost")));
        assert!(is_lost(Shard::new(&device, &params, VOCABULARY).expect_err("it is lost")));
        assert!(is_lost(Device::new(0).expect_err("it is lost")));
    }
    // The CPU draws on.
    assert!(twins.expected(&[pair], |i| rows.row(i), &[])[0].is_ok());
}

#[test]
fn a_stream_of_another_device_is_an_error() {
    let Some(device) = device() else { return };
    let Ok(other) = CudaContext::new(1) else {
        println!("skipped: there is one device");
        return;
    };
    let stream = other.new_stream().expect("a stream");
    const VOCABULARY: usize = 300;
    let mut twins = Twins::new(&device, 2, VOCABULARY);
    let params = SamplingParams { repetition_penalty: 1.3, seed: Some(1), ..Default::default() };
    let pair = twins.add(&params);
    let rows = vec![any_row(&mut SplitMix64::new(12), cases::Shape::Zipf, VOCABULARY)];
    let rows = Rows::new(Dtype::F32, rows);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let matrix = uploaded.matrix(&device);
    let turns = [Turn::new(pair.0)];
    let error = CudaError::OtherStream { ordinal: 1, needed: 0 };
    assert_eq!(error.to_string(), "the stream is one of device 1; device 0 draws, and needs one of its own");
    assert_eq!(twins.gpu.sample_on(&stream, &turns, &matrix), Err(error.clone()));
    assert_eq!(twins.gpu.peek_on(&stream, &turns, &matrix), Err(error.clone()));
    assert_eq!(twins.gpu.prepare(&stream, &turns), Err(error.clone()));
    assert_eq!(twins.gpu.accept(&stream, &[(pair.0, 5)]), Err(error.clone()));
    twins.step(&[pair], &matrix, |i| rows.row(i), &[], "on the device's own stream");
    // The driver tells the device of a handle. Default streams have none.
    // SAFETY: these streams live longer than their handles.
    #[allow(unsafe_code)]
    let handle = |raw| unsafe { Stream::from_raw(raw) };
    assert_eq!(twins.gpu.sample_on(handle(stream.cu_stream()), &turns, &matrix), Err(error.clone()));
    let own = device.context().new_stream().expect("a stream");
    for raw in [own.cu_stream(), null_mut(), without_provenance_mut(1), without_provenance_mut(2)] {
        let expected = twins.expected(&[pair], |i| rows.row(i), &[]);
        assert_eq!(twins.gpu.sample_on(handle(raw), &turns, &matrix), Ok(expected), "{raw:?}");
    }
    // Results are asked for again where they are.
    let own = device.context().default_stream();
    twins.gpu.prepare(&own, &turns).expect("turns");
    // SAFETY: the matrix is there until the results are.
    #[allow(unsafe_code)]
    let launched = unsafe { (twins.gpu.launch(&stream, &matrix), twins.gpu.launch(&own, &matrix)) };
    assert_eq!(launched, (Err(error.clone()), Ok(())));
    assert_eq!(twins.gpu.results(&stream), Err(error.clone()));
    assert_eq!(twins.gpu.results(&own), Ok(twins.expected(&[pair], |i| rows.row(i), &[])));
    let capacity = Capacity { sequences: 1, rows: 1, vocabulary: VOCABULARY, logprobs: 0 };
    let mut requests = Requests::new(&device, capacity, 64).expect("memory");
    assert_eq!(requests.add(&stream, 0, "0", &params, 0, false), Err(error.clone()));
    assert_eq!(requests.add(handle(stream.cu_stream()), 0, "0", &params, 0, false), Err(error.clone()));
    requests.add(&own, 0, "0", &params, 0, false).expect("a request");
    let mut batch = onedraw::Batch::new();
    let turn = RankTurn::new(batch.add(params).expect("valid"));
    let mut parts = RankParts::new(&device).expect("memory");
    let rank = Rank { count: 1, vocabulary: VOCABULARY, start: 0 };
    let echo = |message: &[u8], _| Ok::<_, CudaError>(vec![message.to_vec()]);
    let mut over = |stream| parts.sample_over(&mut batch, &[turn], &matrix, &rank, stream, echo);
    assert_eq!(over(Stream::from(&stream)), Err(error));
    assert!(over(Stream::from(&own)).is_ok_and(|drawn| drawn[0].is_ok()));
}

#[test]
fn a_request_without_memory_leaves_the_others() {
    if !lacks("memory", "refusals::a_request_without_memory_leaves_the_others") {
        return;
    }
    let Some(device) = device() else { return };
    let capacity = Capacity { sequences: 64, rows: 2, vocabulary: 100_000, logprobs: 0 };
    let mut requests = Requests::new(&device, capacity, 1000).expect("requests");
    let stream = device.context().new_stream().expect("a stream");
    let plain = SamplingParams { seed: Some(1), ..Default::default() };
    // Each takes 800 KB, of 32 MB.
    let penalised = SamplingParams { repetition_penalty: 1.3, ..plain.clone() };
    let add = |requests: &mut Requests, slot: usize, params: &SamplingParams| {
        requests.add(&stream, slot, &format!("request {slot}"), params, 0, false)
    };
    let added = (0..64).take_while(|&slot| add(&mut requests, slot, &penalised).is_ok()).count();
    assert!((10..40).contains(&added), "{added}");
    let error = add(&mut requests, added, &penalised).expect_err("there is no memory");
    assert!(matches!(error, CudaError::Memory(_)), "{error}");
    assert!(requests.has(added - 1) && !requests.has(added));
    add(&mut requests, added, &plain).expect("which needs none");
    requests.forget("request 0");
    assert!(!requests.has(0));
    add(&mut requests, added, &penalised).expect("the memory of the one that has ended");
}
