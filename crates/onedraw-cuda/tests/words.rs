//! Bad input: what the CPU answers, the device answers, row by row and in the same words, and the next step works.
//! Without a driver the tests are skipped, and say so.

use onedraw::{RowError, Sampler, SamplingParams, Step};
use onedraw_cuda::{Batch, Capacity, CudaError, Dtype, Shard};

use crate::beside::twins::Twins;
use crate::beside::{Lie, Rows, Uploaded, device};

const VOCABULARY: usize = 70;

fn of(json: &str) -> SamplingParams {
    let params = SamplingParams::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    SamplingParams { seed: Some(1), ..params }
}

/// A row of one token.
fn lone(token: usize) -> Vec<f32> {
    (0..VOCABULARY).map(|i| if i == token { 1.0 } else { f32::NEG_INFINITY }).collect()
}

/// A row of equal tokens, and some others.
fn with(places: &[(usize, f32)]) -> Vec<f32> {
    let mut row = vec![0.25; VOCABULARY];
    places.iter().for_each(|&(place, x)| row[place] = x);
    row
}

#[test]
fn rows_that_cannot_be_drawn_from() {
    let Some(device) = device() else { return };
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let cases = [
        (
            "{}",
            with(&[(68, nan), (69, inf)]),
            "the logit of token 68 is NaN; logits are finite or -inf (masked)",
        ),
        (
            "{}",
            with(&[(3, inf), (5, nan)]),
            "the logit of token 3 is +inf; logits are finite or -inf (masked)",
        ),
        (
            r#"{"allowed_token_ids": [0], "top_p": 0.5, "logprobs": 2}"#,
            with(&[(69, nan)]),
            "the logit of token 69 is NaN; logits are finite or -inf (masked)",
        ),
        ("{}", vec![f32::NEG_INFINITY; VOCABULARY], "every logit of the row is -inf"),
        (r#"{"allowed_token_ids": [3]}"#, lone(4), "no token is left after the stage allowed"),
        (r#"{"bad_words_ids": [[69]]}"#, lone(69), "no token is left after the stage bad_words"),
        (
            r#"{"min_tokens": 2, "eos_token_id": [69], "xtc_probability": 0.5}"#,
            lone(69),
            "no token is left after the stage min_tokens",
        ),
        (
            r#"{"no_repeat_ngram_size": 1, "prompt_token_ids": [7]}"#,
            lone(7),
            "no token is left after the stage no_repeat_ngram",
        ),
        (
            r#"{"top_k": 5, "bad_words_ids": [[9]], "logit_bias": {"1": 1}, "order": "top_k,logit_bias,bad_words"}"#,
            with(&[(9, 3.0)]).into_iter().map(|x| if x > 1.0 { x } else { f32::NEG_INFINITY }).collect(),
            "no token is left after the stage bad_words",
        ),
        (
            r#"{"top_k": 1, "allowed_token_ids": [8], "order": "top_k,allowed"}"#,
            with(&[(9, 3.0)]),
            "no token is left after the stage allowed",
        ),
        (
            r#"{"mirostat": 2}"#,
            with(&[(0, nan)]),
            "the logit of token 0 is NaN; logits are finite or -inf (masked)",
        ),
    ];
    let mut twins = Twins::new(&device, cases.len(), VOCABULARY);
    let pairs: Vec<_> = cases.iter().map(|(json, ..)| twins.add(&of(json))).collect();
    let rows = Rows::new(Dtype::F32, cases.iter().map(|(_, row, _)| row.clone()).collect());
    let good = Rows::new(Dtype::F32, vec![with(&[(8, 3.0), (9, 2.0)]); cases.len()]);
    for (what, position) in [("first", 0), ("then", 1)] {
        let uploaded = Uploaded::new(&device, &rows, Lie::default());
        let answers = twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], what);
        for (answer, (json, _, words)) in answers.into_iter().zip(&cases) {
            let answer = answer.map(|_| ()).map_err(|error| error.to_string());
            assert_eq!(answer, Err((*words).to_owned()), "{what}, {json}");
        }
        let uploaded = Uploaded::new(&device, &good, Lie::default());
        for answer in twins.step(&pairs, &uploaded.matrix(&device), |i| good.row(i), &[], "the next step") {
            assert_eq!(answer.map(|sampled| sampled.position), Ok(position), "a bad row moves nobody on");
        }
    }
}

/// The CPU learns the vocabulary from a row, and the device when the sequence comes.
#[test]
fn ids_outside_the_vocabulary() {
    let Some(device) = device() else { return };
    let capacity = Capacity { sequences: 2, rows: 2, vocabulary: VOCABULARY, logprobs: 2 };
    let mut gpu = Batch::new(&device, capacity).expect("memory");
    let row = with(&[]);
    for (json, field, token) in [
        (r#"{"logit_bias": {"70": 1, "3": 2}}"#, "logit_bias", 70),
        (r#"{"allowed_token_ids": [1, 99]}"#, "allowed_token_ids", 99),
        (r#"{"bad_words_ids": [[1, 71, 2]]}"#, "bad_words_ids", 71),
        (r#"{"stop_token_ids": [4000000000]}"#, "stop_token_ids", 4_000_000_000_u32),
        (r#"{"eos_token_id": [70]}"#, "eos_token_id", 70),
        (r#"{"xtc_probability": 0.5, "xtc_protected_token_ids": [70]}"#, "xtc_protected_token_ids", 70),
        (r#"{"dry_multiplier": 1, "dry_sequence_breakers": [[70]]}"#, "dry_sequence_breakers", 70),
        (r#"{"prompt_token_ids": [1, 70]}"#, "prompt_token_ids", 70),
        (r#"{"output_token_ids": [80]}"#, "output_token_ids", 80),
    ] {
        let words = format!("{field}: token {token} is outside the vocabulary; ids of this row are 0 to 69");
        let params = of(json);
        let mut cpu = onedraw::Batch::new();
        let twin = cpu.add(params.clone()).expect("valid parameters");
        let answer = cpu.sample(&[Step::new(twin, &row[..])]).remove(0).expect_err(json);
        assert_eq!(answer.to_string(), words);
        let answer = gpu.add(&params).expect_err(json);
        assert_eq!((answer.to_string(), gpu.len()), (words.clone(), 0));
        assert_eq!(Shard::new(&device, &params, VOCABULARY).expect_err(json).to_string(), words);
    }
    let id = gpu.add(&of("{}")).expect("the next one works");
    let answer = gpu.accept(onedraw_cuda::Stream::default(), &[(id, 3), (id, 70)]).expect_err("no token");
    let words = "output_token_ids: token 70 is outside the vocabulary; ids of this row are 0 to 69";
    assert_eq!((answer.to_string(), gpu.position(id)), (words.to_owned(), Ok(0)));
    assert!(matches!(answer, CudaError::Row(RowError::OutsideVocabulary { .. })));
}

#[test]
fn mirostat_beside_another_truncation() {
    let Some(device) = device() else { return };
    let capacity = Capacity { sequences: 1, rows: 1, vocabulary: VOCABULARY, logprobs: 2 };
    let mut gpu = Batch::new(&device, capacity).expect("memory");
    for (field, value) in [("top_k", "5"), ("top_p", "0.5"), ("min_p", "0.1"), ("typical_p", "0.5")] {
        let params = SamplingParams { mirostat: 2, ..of(&format!(r#"{{"{field}": {value}}}"#)) };
        let words = format!(
            "{field}: is set beside mirostat, which takes the place of every other truncation and would ignore it; unset \
             one of the two, or name an order of your own that says where each stands"
        );
        assert_eq!(Sampler::new(params.clone()).expect_err(field).to_string(), words);
        assert_eq!(onedraw_cuda::check(&params).expect_err(field).to_string(), words);
        assert_eq!(gpu.add(&params).expect_err(field).to_string(), words);
        assert_eq!(Shard::new(&device, &params, VOCABULARY).expect_err(field).to_string(), words);
    }
    let own = of(r#"{"mirostat": 2, "top_k": 5, "order": "top_k,temperature,mirostat"}"#);
    gpu.add(&own).expect("an order that names both");
}
