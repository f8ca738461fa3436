//! Samplers and batches: histories, logprobs, prompts, errors.

// The expected logprobs come from another logarithm than the engine's.
#![allow(clippy::disallowed_methods)]

use std::collections::BTreeSet;

use onedraw::{
    Batch, Kernel, LogprobsMode, Row, RowError, Rows, Sampler, SamplingParams, Shards, Stage, Step,
    TokenLogprob, presets,
};

fn params(json: &str) -> SamplingParams {
    SamplingParams::from_json(json).expect(json)
}

fn sampler(json: &str) -> Sampler {
    Sampler::new(params(json)).expect(json)
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-7
}

/// The logarithms of 0.1, 0.2, 0.3 and 0.4.
#[allow(clippy::approx_constant, clippy::excessive_precision)]
const ROW: [f32; 4] = [-2.3025851, -1.6094379, -1.2039728, -0.9162907];

#[test]
fn sampling_advances_and_peeking_does_not() {
    let mut one = sampler(r#"{"seed": 5}"#);
    let row = onedraw_testkit::rows::gaussian(1, 1000, 1.0);
    let ahead: Vec<_> = (0..5).map(|d| one.peek(&row, d).unwrap()).collect();
    assert_eq!(ahead.iter().map(|s| s.position).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let drawn: Vec<_> = (0..5).map(|_| one.sample(&row).unwrap()).collect();
    assert_eq!(drawn, ahead);
    assert_eq!(one.output(), drawn.iter().map(|s| s.token).collect::<Vec<_>>());
    one.rewind(2);
    assert_eq!(one.sample(&row).unwrap(), drawn[2]);
    // The same history given as parameters draws the same token.
    let output: Vec<u32> = drawn[..4].iter().map(|s| s.token).collect();
    let resumed = SamplingParams { output_token_ids: output, seed: Some(5), ..SamplingParams::default() };
    assert_eq!(Sampler::new(resumed).unwrap().sample(&row).unwrap(), drawn[4]);
}

#[test]
fn nobody_pays_unasked() {
    let sampled = sampler(r#"{"seed": 5, "top_p": 0.9}"#).sample(&ROW).unwrap();
    assert_eq!((sampled.probability, sampled.logprob, sampled.rank), (None, None, None));
    assert!(sampled.logprobs.is_empty());
}

#[test]
fn logprobs_in_each_mode() {
    // Token 2 is banned, the bias lifts 0 over 3, temperature 0.5 squares: .1·8 = .8 and .4 weigh .64 to .16
    // to .04.
    let json = r#"{"allowed_token_ids": [0, 1, 3], "logit_bias": {"0": 2.0794415}, "temperature": 0.5, "top_k": 2,
        "seed": 1, "logprobs": 3}"#;
    let with_mode = |mode| Sampler::new(SamplingParams { logprobs_mode: mode, ..params(json) }).unwrap();
    let drawn = |mode| {
        let mut one = with_mode(mode);
        let ahead =
            (0..100).find(|&d| one.peek(&ROW, d).unwrap().token == 0).expect("drawn four times in five");
        one.peek(&ROW, ahead).unwrap()
    };
    let raw = drawn(LogprobsMode::RawLogprobs);
    assert!(close(raw.logprob.unwrap(), 0.1f64.ln()) && close(raw.probability.unwrap(), 0.8));
    assert_eq!(raw.rank, Some(4));
    assert_eq!(
        raw.logprobs.iter().map(|l| (l.token, l.rank)).collect::<Vec<_>>(),
        [(0, 4), (3, 1), (2, 2), (1, 3)]
    );
    assert!(close(raw.logprobs[1].logprob, 0.4f64.ln()));

    let logits = drawn(LogprobsMode::RawLogits);
    assert!(close(logits.logprob.unwrap(), f64::from(ROW[0])) && close(logits.probability.unwrap(), 0.8));
    assert_eq!(logits.logprobs[1], TokenLogprob { token: 3, logprob: f64::from(ROW[3]), rank: 1 });

    let processed = drawn(LogprobsMode::ProcessedLogprobs);
    assert!(close(processed.probability.unwrap(), 0.8));
    assert!(close(processed.logprob.unwrap(), 0.8f64.ln()));
    assert_eq!(processed.logprobs.iter().map(|l| (l.token, l.rank)).collect::<Vec<_>>(), [(0, 1), (3, 2)]);
    assert!(close(processed.logprobs[1].logprob, 0.2f64.ln()));

    let logits = drawn(LogprobsMode::ProcessedLogits);
    assert!(close(logits.logprob.unwrap(), 2.0 * f64::from(ROW[0] + 2.0794415)));
    assert!(close(logits.probability.unwrap(), 0.8));
}

#[test]
fn how_many_logprobs() {
    let count = |n: i64| {
        let mut one =
            Sampler::new(SamplingParams { logprobs: Some(n), ..params(r#"{"temperature": 0}"#) }).unwrap();
        one.sample(&ROW).unwrap().logprobs.iter().map(|l| l.token).collect::<Vec<_>>()
    };
    assert_eq!(count(0), [3]);
    assert_eq!(count(1), [3]);
    assert_eq!(count(2), [3, 2]);
    assert_eq!(count(-1), [3, 2, 1, 0]);
    assert_eq!(count(i64::MAX), [3, 2, 1, 0]);
    // A masked token has no logprob to list.
    let mut one = sampler(r#"{"temperature": 0, "logprobs": -1}"#);
    let tokens = |sampled: onedraw::Sampled| sampled.logprobs.iter().map(|l| l.token).collect::<Vec<_>>();
    assert_eq!(tokens(one.sample(&[1.0f32, f32::NEG_INFINITY, 2.0]).unwrap()), [2, 0]);
}

#[test]
fn greedy_is_a_distribution_of_one_token() {
    let mut one =
        sampler(r#"{"temperature": 0, "top_p": 0.5, "logprobs": 0, "logprobs_mode": "processed_logprobs"}"#);
    let distribution = one.distribution(&ROW).unwrap();
    assert_eq!(
        (distribution.tokens, distribution.probabilities, distribution.logprobs),
        (vec![3], vec![1.0], vec![0.0])
    );
    let sampled = one.sample(&ROW).unwrap();
    assert_eq!(
        (sampled.token, sampled.probability, sampled.logprob, sampled.rank),
        (3, Some(1.0), Some(0.0), Some(1))
    );
    // Ties go to the lower id, and top_k = 1 is greedy for every seed.
    let ties = [0.0f32, 7.0, -0.0, 7.0];
    assert_eq!(one.sample(&ties).unwrap().token, 1);
    for seed in 0..50 {
        let mut first =
            Sampler::new(SamplingParams { seed: Some(seed), ..params(r#"{"top_k": 1}"#) }).unwrap();
        assert_eq!(first.sample(&ties).unwrap().token, 1);
    }
    // Just below the border of 1e-5, and on it.
    assert_eq!(sampler(r#"{"temperature": 9.9e-6}"#).distribution(&ROW).unwrap().tokens.len(), 1);
    assert_eq!(sampler(r#"{"temperature": 1e-5}"#).distribution(&ROW).unwrap().tokens.len(), 4);
}

#[test]
fn a_token_of_weight_zero_still_has_a_logprob() {
    let distribution = sampler("{}").distribution(&[0.0f32, -300.0, -3e38]).unwrap();
    assert_eq!(distribution.tokens, [0, 1, 2]);
    assert_eq!(distribution.logprobs[1], -300.0);
    assert_eq!(distribution.probabilities[2], 0.0);
    assert!(distribution.logprobs[2] < -2e38 && distribution.logprobs[2].is_finite());
}

#[test]
fn a_prompt_has_logprobs_from_its_second_token_on() {
    let matrix: Vec<f32> = [ROW, [0.0, 0.0, 0.0, 0.0], [f32::NAN, 0.0, 0.0, 0.0]].concat();
    let rows = Rows::new(&matrix, 3, 4, 4).unwrap();
    let mut one = sampler(r#"{"prompt_token_ids": [2, 1, 3, 0, 0], "prompt_logprobs": 1, "temperature": 0}"#);
    let reports = one.prompt_logprobs(rows);
    assert_eq!(reports.len(), 5);
    assert_eq!(reports[0], Ok(None));
    let second = reports[1].clone().unwrap().unwrap();
    assert_eq!((second.token, second.rank), (1, 3));
    assert!(close(second.logprob, 0.2f64.ln()));
    assert_eq!(second.logprobs.iter().map(|l| (l.token, l.rank)).collect::<Vec<_>>(), [(1, 3), (3, 1)]);
    let third = reports[2].clone().unwrap().unwrap();
    assert_eq!((third.token, third.rank), (3, 4));
    assert!(close(third.probability, 0.25));
    assert_eq!(reports[3], Err(RowError::NanLogit { token: 0 }));
    assert_eq!(reports[4], Err(RowError::EmptyRow));
}

/// A prompt that is read in parts gives the same reports as the whole, on any number of threads.
#[test]
fn a_batch_reports_a_prompt_in_parts() {
    let matrix = onedraw_testkit::rows::gaussian(22, 5 * 70, 2.0);
    let rows = |range: std::ops::Range<usize>| {
        Rows::new(&matrix[range.start * 70..range.end * 70], range.len(), 70, 70).unwrap()
    };
    let params = SamplingParams {
        prompt_token_ids: vec![1, 69, 3, 0],
        prompt_logprobs: Some(2),
        ..SamplingParams::default()
    };
    let whole = Sampler::new(params.clone()).unwrap().prompt_logprobs(rows(0..5));
    let whole: Vec<_> = whole.into_iter().filter_map(|report| report.unwrap()).collect();
    assert_eq!(whole.iter().map(|report| report.token).collect::<Vec<_>>(), [69, 3, 0]);
    for threads in [1, 2] {
        let mut batch = Batch::new().threads(threads);
        let id = batch.add(params.clone()).unwrap();
        let mut parts = batch.prompt_logprobs(id, 1, rows(0..2));
        // The last two rows predict tokens after the prompt, of which nothing is reported.
        parts.extend(batch.prompt_logprobs(id, 3, rows(2..5)));
        assert_eq!(parts.into_iter().collect::<Result<Vec<_>, _>>().unwrap(), whole);
        assert_eq!(batch.prompt_logprobs(id, 9, rows(0..2)), []);
        batch.remove(id);
        assert_eq!(batch.prompt_logprobs(id, 1, rows(0..1)), [Err(RowError::UnknownSequence)]);
    }
}

/// A masked token, blocks that two shards share, empty shards: the split changes no report.
#[test]
fn prompt_logprobs_do_not_depend_on_shards() {
    let mut matrix = onedraw_testkit::rows::gaussian(21, 4 * 300, 2.0);
    matrix.iter_mut().step_by(3).for_each(|x| *x = f32::NEG_INFINITY);
    let rows = Rows::new(&matrix, 4, 300, 300).unwrap();
    for tokens in [[0, 3, 63, 66, 297], [1, 64, 130, 299, 2], [9, 90, 91, 192, 200]] {
        let params = SamplingParams {
            prompt_token_ids: tokens.to_vec(),
            prompt_logprobs: Some(4),
            ..SamplingParams::default()
        };
        let whole = Sampler::new(params.clone()).unwrap().prompt_logprobs(rows);
        let masked = |report: &onedraw::Report| report.logprob == f64::NEG_INFINITY && report.rank == 201;
        let reports: Vec<_> = whole.iter().filter_map(|report| report.clone().unwrap()).collect();
        assert!(reports.iter().all(|report| report.logprob.is_finite() || masked(report)), "{reports:?}");
        for shards in [Shards::even(7), Shards::at([24, 61, 95, 263, 1154])] {
            let mut split = Sampler::new(params.clone()).unwrap().shards(shards);
            assert_eq!(split.prompt_logprobs(rows), whole);
        }
    }
}

#[test]
fn a_row_with_nothing_left_names_the_stage() {
    let empty = |json: &str, row: &[f32]| {
        let whole = sampler(json).sample(row).unwrap_err();
        for shards in [2, 3] {
            let mut split = sampler(json).shards(Shards::even(shards));
            assert_eq!(split.sample(row).unwrap_err(), whole, "{json}");
        }
        whole
    };
    let nothing = |stage| RowError::NothingLeft { stage };
    let row = [1.0f32, f32::NEG_INFINITY, 2.0];
    assert_eq!(empty("{}", &[f32::NEG_INFINITY; 5]), nothing(None));
    assert_eq!(empty(r#"{"allowed_token_ids": [1]}"#, &row), nothing(Some(Stage::Allowed)));
    assert_eq!(empty(r#"{"bad_words_ids": [[0], [2]]}"#, &row), nothing(Some(Stage::BadWords)));
    let both = r#"{"allowed_token_ids": [2], "eos_token_id": 2, "min_tokens": 1"#;
    assert_eq!(empty(&format!("{both}}}"), &row), nothing(Some(Stage::MinTokens)));
    assert_eq!(empty(&format!(r#"{both}, "order": "huggingface"}}"#), &row), nothing(Some(Stage::Allowed)));
    // The same after a truncation.
    let late = r#"{"top_k": 1, "bad_words_ids": [[2]], "eos_token_id": 2, "min_tokens": 1, "order": "top_k,min_tokens,bad_words"}"#;
    assert_eq!(empty(late, &row), nothing(Some(Stage::MinTokens)));
    assert_eq!(nothing(Some(Stage::BadWords)).to_string(), "no token is left after the stage bad_words");
    assert_eq!(sampler("{}").sample(&[] as &[f32]), Err(RowError::EmptyRow));
}

#[test]
fn ids_outside_the_vocabulary_are_errors() {
    for field in ["logit_bias", "stop_token_ids", "eos_token_id", "prompt_token_ids", "output_token_ids"] {
        let value = if field == "logit_bias" { r#"{"4": 1}"# } else { "[4]" };
        let error = sampler(&format!(r#"{{"{field}": {value}}}"#)).sample(&ROW).unwrap_err();
        let message = format!("{field}: token 4 is outside the vocabulary; ids of this row are 0 to 3");
        assert_eq!(error.to_string(), message);
    }
    let mut one = sampler("{}");
    one.accept(9);
    let error = RowError::OutsideVocabulary { field: "output_token_ids", token: 9, vocabulary: 4 };
    assert_eq!(one.sample(&ROW), Err(error));
    one.rewind(0);
    assert!(one.sample(&ROW).is_ok());
    let too_far = RowError::VocabularyTooLarge { vocabulary: usize::MAX };
    let mut memory = onedraw::ShardMemory::default();
    assert_eq!(one.shard(&ROW, usize::MAX - 1, None, &mut memory).map(drop), Err(too_far));
}

#[test]
fn masks_reach_to_the_end_and_need_their_stage() {
    let row = onedraw_testkit::rows::flat(70, 0.0);
    let mut one = sampler(r#"{"seed": 3}"#);
    assert_eq!(one.sample_masked(&row, &[0; 2]), Err(RowError::MaskTooShort { words: 2, needed: 3 }));
    assert_eq!(one.sample_masked(&row, &[0, 0, 1 << 5]).unwrap().token, 69);
    // Bits beyond the vocabulary are ignored.
    let stage = Some(Stage::Allowed);
    assert_eq!(one.sample_masked(&row, &[0, 0, !0 << 6, !0]), Err(RowError::NothingLeft { stage }));
    let mut without = sampler(r#"{"order": "top_k", "top_k": 5}"#);
    assert_eq!(without.sample_masked(&row, &[!0; 3]), Err(RowError::MaskWithoutStage));
    for uniform in [-0.1, 1.0, f64::NAN] {
        let error = one.sample_uniform(&row, uniform).unwrap_err();
        assert_eq!(error.kind(), "uniform_out_of_range");
    }
}

#[test]
fn sequences_share_a_seed_and_differ_in_noise() {
    let row = onedraw_testkit::rows::flat(5000, 0.0);
    let mut all = Sampler::sequences(params(r#"{"n": 4}"#)).unwrap();
    let sampled: Vec<_> = all.iter_mut().map(|one| one.sample(&row).unwrap()).collect();
    assert_eq!(sampled.iter().map(|s| s.sequence).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(
        sampled.iter().all(|s| s.seed == sampled[0].seed),
        "one seed, drawn from the system and reported"
    );
    let again = SamplingParams { seed: Some(sampled[0].seed), n: 4, ..SamplingParams::default() };
    for (one, expected) in Sampler::sequences(again).unwrap().iter_mut().zip(&sampled) {
        assert_eq!(&one.sample(&row).unwrap(), expected);
    }
    let mut seeded = Sampler::sequences(params(r#"{"n": 4, "seed": 1}"#)).unwrap();
    let tokens: BTreeSet<_> = seeded.iter_mut().map(|one| one.sample(&row).unwrap().token).collect();
    assert_eq!(tokens.len(), 4, "{tokens:?}");
}

#[test]
fn a_batch_keeps_its_sequences_apart() {
    let mut batch = Batch::new();
    let first = batch.add(params(r#"{"temperature": 0}"#)).unwrap();
    let second = batch.add(params(r#"{"temperature": 0, "bad_words_ids": [[3, 2]]}"#)).unwrap();
    assert!(batch.add(params("{}")).is_ok_and(|id| batch.remove(id)));
    let bad = SamplingParams { top_p: 2.0, ..SamplingParams::default() };
    assert_eq!(batch.add(bad).unwrap_err().field(), "top_p");
    assert_eq!(batch.len(), 2);
    let token =
        |result: &Result<onedraw::Sampled, RowError>| result.as_ref().map(|s| s.token).map_err(|e| e.kind());
    let step = |batch: &mut Batch, row: &[f32; 4]| {
        let results = batch.sample(&[Step::new(second, row), Step::new(first, row)]);
        (token(&results[0]), token(&results[1]))
    };
    assert_eq!(step(&mut batch, &ROW), (Ok(3), Ok(3)));
    // The second sequence must not write 2 after 3.
    assert_eq!(step(&mut batch, &[0.0, 1.0, 5.0, 2.0]), (Ok(3), Ok(2)));
    assert_eq!(
        step(&mut batch, &[0.0, 1.0, 5.0, f32::INFINITY]),
        (Err("infinite_logit"), Err("infinite_logit"))
    );
    let twice = batch.sample(&[Step::new(first, &ROW), Step::new(first, &ROW)]);
    assert_eq!((token(&twice[0]), token(&twice[1])), (Ok(3), Err("repeated_sequence")));
    assert!(batch.remove(first));
    assert!(!batch.remove(first));
    let reused = batch.add(params(r#"{"temperature": 0}"#)).unwrap();
    assert_ne!(reused, first);
    let results = batch.sample(&[Step::new(first, &ROW), Step::new(reused, &ROW)]);
    assert_eq!((token(&results[0]), token(&results[1])), (Err("unknown_sequence"), Ok(3)));
    assert_eq!(results[1].as_ref().unwrap().position, 0);
    assert!(batch.accept(reused, 1) && !batch.accept(first, 1));
    assert_eq!(batch.peek(&[Step::new(reused, &ROW)], 4)[0].as_ref().unwrap().position, 6);
}

#[test]
fn every_kernel_of_this_machine_draws_the_same() {
    let row = onedraw_testkit::rows::peaked(3, 30_000);
    let tokens = |kernel: Kernel| {
        let mut batch = Batch::new().kernel(kernel);
        let id =
            batch.add(SamplingParams { seed: Some(3), logprobs: Some(4), ..presets::creative() }).unwrap();
        (0..50).map(|_| batch.sample(&[Step::new(id, &row)]).remove(0).unwrap()).collect::<Vec<_>>()
    };
    let expected = tokens(Kernel::Scalar);
    let supported: Vec<_> = Kernel::ALL.into_iter().filter(|kernel| kernel.is_supported()).collect();
    assert!(supported.len() >= 2, "{supported:?}");
    for kernel in supported {
        assert_eq!(tokens(kernel), expected, "{kernel}");
    }
    assert!(!Kernel::Cuda.is_supported());
    assert!(
        "mmx"
            .parse::<Kernel>()
            .unwrap_err()
            .message()
            .starts_with("`mmx` is not a kernel; the kernels are auto,")
    );
}

#[test]
fn a_sharded_draw_sends_little() {
    let row = onedraw_testkit::rows::peaked(8, 128_256);
    let traffic = |json: &str| {
        let mut split = sampler(json).shards(Shards::even(8));
        split.sample(&row).unwrap();
        split.traffic()
    };
    let greedy = traffic(r#"{"temperature": 0}"#);
    assert_eq!((greedy.rounds, greedy.bytes), (1, 8 * (1 + 14)));
    let plain = traffic(r#"{"seed": 1}"#);
    assert_eq!((plain.rounds, plain.bytes), (2, 8 * (1 + 14 + 29 + 17)));
    let top_k = traffic(r#"{"seed": 1, "top_k": 50}"#);
    assert_eq!((top_k.rounds, top_k.bytes), (3, 8 * (61 + 10 + 8 * 50)));
    let long = traffic(r#"{"seed": 1, "top_k": 500}"#);
    assert_eq!((long.rounds, long.bytes), (3, 8 * (61 + 13 + 5)));
    let top_p = traffic(r#"{"seed": 1, "top_p": 0.9}"#);
    assert_eq!((top_p.rounds, top_p.bytes), (3, 8 * (61 + 21 + 33)));
    let both = traffic(r#"{"seed": 1, "top_k": 50, "top_p": 0.9}"#);
    assert_eq!((both.rounds, both.bytes), (5, 8 * (61 + 10 + 8 * 50 + 2 * 26)));
    // If the winner is the best token, no question is needed.
    let [best, other] =
        [1, 3].map(|t| traffic(&format!(r#"{{"seed": 1, "temperature": {t}, "epsilon_cutoff": 1e-6}}"#)));
    assert_eq!((best.rounds, best.bytes), (2, 8 * 61));
    assert_eq!((other.rounds, other.bytes), (3, 8 * (61 + 54)));
    let dynatemp = traffic(r#"{"seed": 1, "dynatemp_range": 0.5}"#);
    assert_eq!((dynatemp.rounds, dynatemp.bytes), (3, 8 * (61 + 38)));
    let xtc = traffic(r#"{"seed": 1, "xtc_probability": 1, "xtc_threshold": 0.05}"#);
    assert_eq!((xtc.rounds, xtc.bytes), (5, 8 * (61 + 26 + 18 + 31)));
    // Zipf's law over the hundred best tokens gives k = 32. Mirostat learns from the drawn token, which needs
    // the mass of these.
    let mirostat = traffic(r#"{"seed": 1, "mirostat": 1}"#);
    assert_eq!((mirostat.rounds, mirostat.bytes), (5, 8 * (61 + 10 + 8 * 100 + 10 + 8 * 32 + 26)));
    let smoothing = traffic(r#"{"seed": 1, "smoothing_factor": 0.5}"#);
    assert_eq!((smoothing.rounds, smoothing.bytes), (3, 8 * (61 + 43)));
    let typical = traffic(r#"{"seed": 1, "typical_p": 0.9}"#);
    // The questions are: the spread, a sketch, and the keys among which the sketch leaves a choice.
    let fixed = 8 * (61 + 38 + 9 + 22_529 + 33 + 13);
    assert_eq!(typical.rounds, 5);
    assert!((fixed..fixed + 8 * 500).contains(&typical.bytes), "{} bytes beyond {fixed}", typical.bytes);
    let sigma = traffic(r#"{"seed": 1, "temperature": 3, "top_n_sigma": 40}"#);
    assert_eq!((sigma.rounds, sigma.bytes), (4, 8 * (61 + 18 + 46)));
}

#[test]
fn rows_of_a_half_type_are_read_in_place() {
    let row = onedraw_testkit::rows::representable_f16(&ROW);
    let half = onedraw_testkit::rows::to_f16(&row);
    let mut one = sampler(r#"{"seed": 2}"#);
    assert_eq!(one.distribution(Row::F16(&half)).unwrap(), one.distribution(&row).unwrap());
}
