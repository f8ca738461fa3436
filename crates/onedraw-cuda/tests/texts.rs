//! Texts that become longer and shorter, on a device beside the CPU. Without a driver the tests are skipped, and say
//! so.

use onedraw::{KeptMode, Rewind, RowError, SamplingParams, Stage};
use onedraw_cuda::cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use onedraw_cuda::{Dtype, SequenceId, Turn};
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_params, any_row, any_token, by_chance, one_of};
use crate::beside::twins::{Pair, Twins};
use crate::beside::{Lie, Rows, Uploaded, device, rounds};

fn seeded(seed: u64) -> SamplingParams {
    SamplingParams { seed: Some(seed), ..Default::default() }
}

/// Sequences that read their texts, or undo what they did with them, each in its own way.
fn readers() -> Vec<SamplingParams> {
    let all = |i| SamplingParams { max_tokens: 2, temperature: 2.0, ..seeded(i) };
    vec![
        SamplingParams { dry_multiplier: 1.5, dry_allowed_length: 1, ..all(0) },
        SamplingParams {
            dry_multiplier: 1.5,
            dry_penalty_last_n: 1030,
            dry_sequence_breakers: vec![vec![7, 3]],
            ..all(1)
        },
        SamplingParams { no_repeat_ngram_size: 4, ..all(2) },
        SamplingParams { repetition_penalty: 1.2, frequency_penalty: 0.01, ..all(3) },
        SamplingParams { presence_penalty: 0.7, frequency_penalty: 0.01, penalty_window: 1025, ..all(4) },
        SamplingParams { presence_penalty: 0.7, frequency_penalty: 0.3, penalty_window: 3, ..all(5) },
        SamplingParams { bad_words_ids: vec![vec![1, 2], vec![3, 4, 5], vec![6]], ..all(6) },
        SamplingParams { mirostat: 2, mirostat_tau: 1.0, ..all(7) },
        SamplingParams {
            mirostat: 1,
            mirostat_tau: 2.0,
            frequency_penalty: 0.1,
            probability: true,
            ..all(8)
        },
        all(9),
    ]
}

fn any_rows(random: &mut SplitMix64, count: usize, vocabulary: usize) -> Rows {
    let rows = (0..count).map(|_| {
        let shape = one_of(random, &[cases::Shape::Zipf, cases::Shape::Flat, cases::Shape::Ties]);
        any_row(random, shape, vocabulary)
    });
    Rows::new(Dtype::F32, rows.collect())
}

fn step(twins: &mut Twins, pairs: &[Pair], random: &mut SplitMix64, vocabulary: usize, what: &str) {
    let rows = any_rows(random, pairs.len(), vocabulary);
    let uploaded = Uploaded::new(&twins.device, &rows, Lie::default());
    let matrix = uploaded.matrix(&twins.device.clone());
    twins.step(pairs, &matrix, |i| rows.row(i), &[], what);
}

fn accept(twins: &mut Twins, pairs: &[Pair], random: &mut SplitMix64, vocabulary: usize, count: usize) {
    let mut tokens = Vec::new();
    for _ in 0..count {
        let (pair, token) = (one_of(random, pairs), any_token(random, vocabulary));
        tokens.push((pair.0, token));
        assert!(twins.cpu.accept(pair.1, token));
    }
    let stream = twins.device.context().default_stream();
    twins.gpu.accept(&stream, &tokens).expect("tokens of the vocabulary");
}

/// The parameters say that there will be two tokens. The room of a text ends after 1024, 1280 and 1536 tokens.
#[test]
fn a_text_is_as_long_as_it_is_written() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(1);
    let vocabulary = 30;
    let mut twins = Twins::new(&device, 16, vocabulary);
    let prompt =
        |i: usize, random: &mut SplitMix64| (0..1010 + i).map(|_| any_token(random, vocabulary)).collect();
    let pairs: Vec<_> = readers()
        .into_iter()
        .enumerate()
        .map(|(i, params)| SamplingParams { prompt_token_ids: prompt(i, random), ..params })
        .map(|params| twins.add(&params))
        .collect();
    for border in 0..3 {
        for i in 0..18 {
            step(&mut twins, &pairs, random, vocabulary, &format!("border {border}, step {i}"));
        }
        for &pair in &pairs {
            accept(&mut twins, &[pair], random, vocabulary, 238);
        }
    }
    for &(gpu, cpu) in &pairs {
        assert_eq!(twins.gpu.position(gpu).ok(), twins.cpu.output(cpu).map(|output| output.len() as u32));
        // Half of the text goes, also what was there before it had moved.
        twins.gpu.rewind(gpu, 5).expect("it is there");
        assert!(twins.cpu.rewind(cpu, 5));
    }
    for i in 0..4 {
        step(&mut twins, &pairs, random, vocabulary, &format!("after a rewind, step {i}"));
    }
}

/// What mirostat learned has room of its own, which ends after 1024 tokens of the output.
#[test]
fn mirostat_is_undone_after_a_long_text() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(2);
    let vocabulary = 20;
    let mut twins = Twins::new(&device, 2, vocabulary);
    let params = SamplingParams {
        mirostat: 2,
        mirostat_tau: 1.0,
        output_token_ids: (0..1015).map(|i| i % 20).collect(),
        ..seeded(1)
    };
    let pairs = [twins.add(&params)];
    let rewind = |twins: &mut Twins, length: usize| {
        twins.gpu.rewind(pairs[0].0, length as u32).expect("it is there");
        assert!(twins.cpu.rewind(pairs[0].1, length));
    };
    for (steps, length) in [(20, 1030), (3, 1020), (1, 1014), (3, 1000), (2, 3)] {
        for i in 0..steps {
            step(&mut twins, &pairs, random, vocabulary, &format!("before {length}, step {i}"));
        }
        rewind(&mut twins, length);
    }
    step(&mut twins, &pairs, random, vocabulary, "at last");
}

/// Everything that may happen to sequences, in any order. Some steps are launched and never read.
#[test]
fn texts_are_taken_back_as_on_the_cpu() {
    let Some(device) = device() else { return };
    for round in 0..rounds() {
        let random = &mut SplitMix64::new(100 + round);
        let vocabulary = one_of(random, &[3, 17, 65, 300]);
        let mut twins = Twins::new(&device, 8, vocabulary);
        let mut pairs: Vec<Pair> = Vec::new();
        for turn in 0..40 {
            let what = format!("round {round}, turn {turn}");
            while pairs.len() < 8 && by_chance(random, 0.5) {
                let mut params = any_params(random, vocabulary);
                if by_chance(random, 0.5) {
                    cases::set_edits(&mut params, random, vocabulary);
                }
                // The edits may come after a truncation, of which a summary cannot tell.
                params.kept = KeptMode::None;
                params.banned_strings =
                    one_of(random, &[&[][..], &["no"]]).iter().map(|&s| s.into()).collect();
                pairs.push(twins.add(&params));
            }
            random.shuffle(&mut pairs);
            if pairs.is_empty() {
                continue;
            }
            let part: Vec<Pair> = pairs[..1 + random.below(pairs.len())].to_vec();
            match random.below(8) {
                0 => {
                    let count = random.below(20);
                    accept(&mut twins, &part, random, vocabulary, count);
                }
                1 => {
                    // Nobody reads these.
                    let rows = any_rows(random, part.len(), vocabulary);
                    let uploaded = Uploaded::new(&device, &rows, Lie::default());
                    let stream = device.context().default_stream();
                    twins.gpu.prepare(&stream, &twins.turns(&part, &[])).expect("turns");
                    // SAFETY: the matrix is there until the stream was waited for.
                    #[allow(unsafe_code)]
                    unsafe { twins.gpu.launch(&stream, &uploaded.matrix(&device)) }.expect("a launch");
                    twins.expected(&part, |i| rows.row(i), &[]);
                    stream.synchronize().expect("draws");
                }
                _ => step(&mut twins, &part, random, vocabulary, &what),
            }
            for &pair in &part {
                let written = twins.cpu.output(pair.1).expect("it is there").len();
                match random.below(6) {
                    0 => {
                        let length = random.below(written + 2);
                        twins.gpu.rewind(pair.0, length as u32).expect("it is there");
                        assert!(twins.cpu.rewind(pair.1, length));
                    }
                    1 | 2 => {
                        let length = written.saturating_sub(random.below(4)) + random.below(20) / 19;
                        let output = twins.cpu.output(pair.1).expect("it is there");
                        let token = output.get(length).copied().unwrap_or(random.below(vocabulary) as u32);
                        let rewind = Rewind { length, token, phrase: 0 };
                        twins.gpu.take_back(pair.0, &rewind).expect("it is there");
                        assert!(twins.cpu.take_back(pair.1, &rewind));
                    }
                    _ => {}
                }
            }
            pairs.retain(|&pair| {
                let stays = by_chance(random, 0.95);
                if !stays {
                    twins.remove(pair);
                }
                stays
            });
        }
        for &(gpu, cpu) in &pairs {
            let written = twins.cpu.output(cpu).map(|output| output.len() as u32);
            assert_eq!(twins.gpu.position(gpu).ok(), written, "round {round}");
        }
    }
}

#[test]
fn what_is_taken_back_is_not_drawn_again() {
    let Some(device) = device() else { return };
    let mut twins = Twins::new(&device, 2, 3);
    let greedy =
        twins.add(&SamplingParams { temperature: 0.0, banned_strings: vec!["a".into()], ..seeded(1) });
    let rows = Rows::new(Dtype::F32, vec![vec![3.0, 2.0, 1.0]]);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    let matrix = uploaded.matrix(&device);
    let take_back = |twins: &mut Twins, length: usize, token: u32| {
        let rewind = Rewind { length, token, phrase: 0 };
        twins.gpu.take_back(greedy.0, &rewind).expect("it is there");
        assert!(twins.cpu.take_back(greedy.1, &rewind));
    };
    let drawn = |twins: &mut Twins| {
        let result = twins.step(&[greedy], &matrix, |i| rows.row(i), &[], "a step").remove(0);
        result.map(|sampled| (sampled.token, sampled.position))
    };
    assert_eq!(drawn(&mut twins), Ok((0, 0)));
    assert_eq!(drawn(&mut twins), Ok((0, 1)));
    take_back(&mut twins, 1, 0);
    assert_eq!(drawn(&mut twins), Ok((1, 1)), "0 is banned there");
    assert_eq!(drawn(&mut twins), Ok((0, 2)), "and there only");
    take_back(&mut twins, 1, 1);
    assert_eq!(drawn(&mut twins), Ok((2, 1)));
    take_back(&mut twins, 1, 2);
    let emptied = Err(RowError::NothingLeft { stage: Some(Stage::BadWords) });
    assert_eq!(drawn(&mut twins), emptied, "and stays where it is");
    assert_eq!(twins.gpu.position(greedy.0), Ok(1));
    take_back(&mut twins, 5, 2);
    assert_eq!(drawn(&mut twins), emptied, "there is no such token");
    take_back(&mut twins, 0, 70);
    assert_eq!(drawn(&mut twins), Ok((0, 0)), "what is no token cannot be drawn");
    assert_eq!(drawn(&mut twins), Ok((0, 1)), "a ban goes with the token before it");
    let stranger = Rewind { length: 0, token: 0, phrase: 0 };
    let unknown = Err(RowError::UnknownSequence.into());
    assert_eq!(twins.gpu.take_back(SequenceId::NOBODY, &stranger), unknown);
    assert_eq!(twins.gpu.rewind(SequenceId::NOBODY, 0), unknown);
}

/// The emulated driver refuses every wait and every allocation while a stream is captured.
#[test]
fn sequences_come_and_go_without_a_wait() {
    if !std::env::var("ONEDRAW_CUDA_REQUIRED").is_ok_and(|name| name == "a CPU") {
        println!("skipped: the driver is not the emulated one");
        return;
    }
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(3);
    let vocabulary = 20;
    let mut twins = Twins::new(&device, 12, vocabulary);
    let rows = any_rows(random, 12, vocabulary);
    // All turns have as many rows.
    let uploaded =
        Uploaded::new(&device, &rows.pick(&(0..readers().len()).collect::<Vec<_>>()), Lie::default());
    let matrix = uploaded.matrix(&device);
    let long = |params: SamplingParams| SamplingParams {
        prompt_token_ids: (0..1021).map(|i| i % 13).collect(),
        ..params
    };
    let captured = device.context().new_stream().expect("a stream");
    let stream = device.context().new_stream().expect("a stream");
    let mut pairs: Vec<Pair> = Vec::new();
    // The first time makes the memory that there is the second time.
    for is_captured in [false, true] {
        pairs.drain(..).for_each(|pair| twins.remove(pair));
        if is_captured {
            let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
            captured.begin_capture(mode).expect("a capture");
        }
        pairs.extend(readers().into_iter().map(|params| twins.add(&long(params))));
        for turn in 0..5 {
            let turns: Vec<Turn> = twins.turns(&pairs, &[]);
            twins.gpu.prepare(&stream, &turns).expect("turns");
            // SAFETY: the matrix is there until the stream was waited for.
            #[allow(unsafe_code)]
            unsafe { twins.gpu.launch(&stream, &matrix) }.expect("a launch");
            twins.expected(&pairs, |i| rows.row(i), &[]);
            let gone = pairs.remove(turn);
            twins.remove(gone);
            pairs.push(twins.add(&long(readers().remove(turn))));
        }
        if is_captured {
            let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
            captured.end_capture(flags).expect("nothing waited");
        }
        stream.synchronize().expect("draws");
    }
    twins.step(&pairs, &matrix, |i| rows.row(i), &[], "afterwards");
    for &(gpu, cpu) in &pairs {
        twins.gpu.take_back(gpu, &Rewind { length: 0, token: 4, phrase: 0 }).expect("it is there");
        assert!(twins.cpu.take_back(cpu, &Rewind { length: 0, token: 4, phrase: 0 }));
    }
    twins.step(&pairs, &matrix, |i| rows.row(i), &[], "taken back");
}
