//! The golden vectors: how their rows are made, and what the library answers today.

use onedraw::mass::exp2_fixed;
use onedraw::math::{exp, ln};
use onedraw::noise::{exponential, philox4x32_10};
use onedraw::speculate::{Draft, Law, Verify};
use onedraw::{Batch, Row, Sampler, SamplingParams, Step};
use serde_json::{Value, json};

/// Positions drawn for each case.
const POSITIONS: u32 = 16;

/// The row that a case describes; the shapes are defined in `golden/README.md`.
pub fn row(description: &Value) -> Vec<f32> {
    let shape = description["shape"].as_str().expect("a shape");
    if shape == "list" {
        let logits = description["logits"].as_array().expect("a list of logits");
        return logits.iter().map(|x| x.as_f64().map_or(f32::NEG_INFINITY, |x| x as f32)).collect();
    }
    let vocabulary = description["vocabulary"].as_u64().expect("a vocabulary") as u32;
    let seed = description["seed"].as_u64().expect("a seed") as u32;
    let high = |i: u32| philox4x32_10([seed, 0], [i / 4, 0, 0, 0])[i as usize % 4] >> 8;
    let centred = |i: u32| high(i) as f32 - 8_388_608.0;
    let logit = |i: u32| match shape {
        "wide" => centred(i) / 524_288.0,
        "flat" => centred(i) / 1_073_741_824.0,
        "peaked" => centred(i) / 2_097_152.0 + if high(i).is_multiple_of(4096) { 24.0 } else { 0.0 },
        "ties" => (high(i) % 8) as f32 * 0.5,
        "holes" if high(i).is_multiple_of(3) => f32::NEG_INFINITY,
        "holes" => centred(i) / 524_288.0,
        _ => panic!("the shape {shape} is not defined"),
    };
    (0..vocabulary).map(logit).collect()
}

/// The cases, without answers.
fn cases() -> Vec<(Value, Value)> {
    let made = |shape: &str, vocabulary: u32, seed: u32| json!({"shape": shape, "vocabulary": vocabulary, "seed": seed});
    let rows = [
        json!({"shape": "list", "logits": [0.5, 2.0, -1.0, 2.0, null, 0.0]}),
        made("ties", 200, 1),
        made("wide", 1000, 2),
        made("flat", 4099, 3),
        made("holes", 32_000, 4),
        made("peaked", 128_256, 5),
        made("flat", 151_936, 6),
        made("peaked", 262_144, 7),
    ];
    let params = [
        json!({"seed": 42}),
        json!({"seed": 42, "temperature": 0}),
        json!({"seed": 7, "temperature": 0.7}),
        json!({"seed": 18_446_744_073_709_551_615_u64, "temperature": 1.5, "top_k": 5}),
        json!({"seed": 1, "top_p": 0.9}),
        json!({"seed": 2, "temperature": 1.3, "min_p": 0.05}),
        json!({"seed": 3, "temperature": 0.8, "top_k": 50, "top_p": 0.95, "min_p": 0.01}),
        json!({"seed": 4, "temperature": 2.0, "top_k": 3000, "top_p": 0.5}),
        json!({"seed": 5, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": -0.2,
               "prompt_token_ids": [0, 1, 1, 2], "output_token_ids": [3, 3, 5], "penalty_scope": "all"}),
        json!({"seed": 6, "logit_bias": {"0": 3.25, "3": -2.5}, "bad_words_ids": [[1], [2, 3]], "output_token_ids": [2],
               "eos_token_id": 5, "min_tokens": 4}),
        json!({"seed": 8, "allowed_token_ids": [0, 2, 3, 5], "temperature": 0.9, "top_p": 0.8}),
        json!({"seed": 9, "temperature": 0.6, "top_k": 20, "top_p": 0.7, "min_p": 0.02, "order": "llama.cpp"}),
        json!({"seed": 10, "temperature": 1.4, "top_p": 0.9, "logit_bias": {"1": 0.75}, "repetition_penalty": 1.2,
               "output_token_ids": [0, 3], "order": "top_p,temperature,logit_bias,penalties,top_p"}),
        json!({"seed": 11, "typical_p": 0.9}),
        json!({"seed": 12, "top_n_sigma": 1.5, "temperature": 1.8}),
        json!({"seed": 13, "epsilon_cutoff": 0.0005}),
        json!({"seed": 14, "eta_cutoff": 0.002, "temperature": 1.1}),
        json!({"seed": 15, "top_a": 0.2}),
        json!({"seed": 16, "xtc_probability": 0.5, "xtc_threshold": 0.01, "xtc_protected_token_ids": [1, 3]}),
        json!({"seed": 17, "mirostat": 1, "mirostat_tau": 4}),
        json!({"seed": 18, "mirostat": 2, "mirostat_mu": 6.5, "temperature": 1.2}),
        json!({"seed": 19, "temperature": 0.9, "dynatemp_range": 0.6, "dynatemp_exponent": 1.5, "top_p": 0.95}),
        json!({"seed": 20, "smoothing_factor": 0.3, "smoothing_curve": 1.4, "min_p": 0.02}),
        json!({"seed": 21, "dry_multiplier": 0.8, "dry_sequence_breakers": [[5]], "no_repeat_ngram_size": 4,
               "prompt_token_ids": [0, 1, 2, 3, 1, 2], "output_token_ids": [0, 5, 0, 1, 2]}),
        json!({"seed": 22, "temperature": 0.7, "top_k": 100, "top_p": 0.98, "typical_p": 0.95, "epsilon_cutoff": 0.0001,
               "eta_cutoff": 0.0002, "order": "huggingface"}),
        json!({"seed": 23, "temperature": 0.7, "top_n_sigma": 2, "top_k": 200, "typical_p": 0.97, "top_p": 0.98,
               "min_p": 0.005, "xtc_probability": 0.6, "xtc_threshold": 0.02, "order": "llama.cpp"}),
        json!({"seed": 24, "xtc_probability": 0.7, "xtc_threshold": 0.005, "temperature": 1.3, "smoothing_factor": 0.2,
               "top_a": 0.05, "order": "xtc,temperature,smoothing,top_a,xtc,temperature"}),
    ];
    rows.iter().flat_map(|row| params.iter().map(move |params| (row.clone(), params.clone()))).collect()
}

/// Every case with the library's answers.
pub fn draws() -> Value {
    let answer = |(description, params): (Value, Value)| {
        let row = row(&description);
        let checked = SamplingParams::from_value(params.clone()).expect("valid parameters");
        let mut sampler = Sampler::new(checked).expect("valid parameters");
        let token = |ahead| sampler.clone().peek(&row, ahead).expect("a good row").token;
        let tokens: Vec<u32> = (0..POSITIONS).map(token).collect();
        let at = |i: u32| sampler.clone().sample_uniform(&row, f64::from(i) / 8.0).expect("a good row").token;
        let uniform: Vec<u32> = (0..8).map(at).collect();
        let distribution = sampler.distribution(&row).expect("a good row");
        json!({"row": description, "params": params, "tokens": tokens, "uniform": uniform,
               "kept": distribution.tokens.len(), "first_logprob_bits": distribution.logprobs[0].to_bits()})
    };
    Value::Array(cases().into_iter().map(answer).collect())
}

/// Drafts and how they are judged: the noise of the drafter, of acceptance and of what is drawn instead.
pub fn speculation() -> Value {
    let params = [
        json!({"seed": 1}),
        json!({"seed": 2, "temperature": 2.5, "output_token_ids": [7, 9, 7]}),
        json!({"seed": 3, "temperature": 4, "top_k": 20, "presence_penalty": 1.5}),
        json!({"seed": 18_446_744_073_709_551_615_u64, "temperature": 3, "top_p": 0.9, "min_p": 0.01}),
        json!({"seed": 5, "temperature": 8, "repetition_penalty": 1.1}),
        json!({"seed": 6, "temperature": 0}),
    ];
    let shapes = [(1, 5), (2, 3), (4, 2)];
    let modes = ["exact", "rejection", "block"];
    let mut cases = Vec::new();
    for params in &params {
        for (width, depth) in shapes {
            for mode in modes.into_iter().filter(|&mode| width == 1 || mode != "block") {
                cases.push(judged(params, (width, depth), mode));
            }
        }
    }
    Value::Array(cases)
}

/// The target's logits after a path of tokens and the drafter's, as `golden/README.md` defines them.
fn logits_after(path: &[u32]) -> (Vec<f32>, Vec<f32>) {
    let seed = path.iter().fold(1, |seed: u32, token| seed.wrapping_mul(31).wrapping_add(token + 1));
    let wide = |seed: u32| row(&json!({"shape": "wide", "vocabulary": 300, "seed": seed}));
    let (target, other) = (wide(seed), wide(seed.wrapping_add(1)));
    let pairs = target.iter().zip(other).enumerate();
    let drafter = pairs.map(|(i, (own, other))| if i % 2 == 0 { own / 2.0 } else { other / 2.0 }).collect();
    (target, drafter)
}

fn judged(params: &Value, (width, depth): (usize, usize), mode: &str) -> Value {
    let checked = SamplingParams::from_value(params.clone()).expect("valid parameters");
    let begun = checked.output_token_ids.len();
    let mut batch = Batch::new();
    let id = batch.add(checked).expect("valid parameters");
    let mut draft = Draft::default();
    let (mut rows, mut level) = (vec![logits_after(&[]).0], vec![None]);
    for _ in 0..depth {
        for node in std::mem::take(&mut level) {
            let tokens_to = |draft: &Draft, node: Option<usize>| -> Vec<u32> {
                let path = node.map_or(Vec::new(), |node| draft.tree.path(node));
                path.into_iter().map(|node| draft.tree.tokens()[node]).collect()
            };
            let path = tokens_to(&draft, node);
            let fork = batch.fork(id).expect("a sequence");
            path.iter().for_each(|&token| _ = batch.accept(fork, token));
            let (_, drafter) = logits_after(&path);
            let step = Step::new(fork, &drafter);
            // Where the target's own draw decides, the drafter guesses with its noise.
            let (tokens, law) = if mode == "exact" {
                let runners = batch.runners(&[step], width).remove(0).expect("a good row");
                (runners.into_iter().map(|runner| runner.token).collect(), Law::Given)
            } else {
                batch.guess(&step, width, begun).expect("a good row")
            };
            batch.remove(fork);
            for child in draft.grow(node, &tokens, law) {
                rows.push(logits_after(&tokens_to(&draft, Some(child))).0);
                level.push(Some(child));
            }
        }
    }
    let rows: Vec<Row<'_>> = rows.iter().map(Row::from).collect();
    let verify: Verify = mode.parse().expect("a mode");
    let verdict = batch.verify(id, &draft, &rows, None, verify).expect("good rows");
    assert_eq!(verdict.error, None);
    let tokens: Vec<u32> = verdict.sampled.iter().map(|sampled| sampled.token).collect();
    json!({"params": params, "width": width, "depth": depth, "verify": mode, "guesses": draft.tree.tokens(),
           "parents": draft.tree.parents(), "path": verdict.path, "tokens": tokens})
}

/// The arithmetic below the draws.
pub fn numbers() -> Value {
    let points = |count: u32| (0..count).map(|i| philox4x32_10([99, 0], [i, 0, 0, 0]));
    let philox: Vec<Value> = points(8)
        .map(|[a, b, c, d]| json!({"key": [a, b], "counter": [c, d, a, b], "words": philox4x32_10([a, b], [c, d, a, b])}))
        .collect();
    let words =
        [0, 1, 255, 256, 1 << 31, u32::MAX - 1, u32::MAX].into_iter().chain(points(16).map(|[a, ..]| a));
    let exponential: Vec<Value> = words.map(|bits| json!([bits, exponential(bits).to_bits()])).collect();
    let unit = |word: u32| f64::from(word) / 4_294_967_296.0;
    let ln: Vec<Value> = points(24)
        .map(|[a, b, ..]| (unit(a) + 2.0_f64.powi(-33)) * 2.0_f64.powi((b % 40) as i32 - 30))
        .map(|x| json!([x.to_bits(), ln(x).to_bits()]))
        .collect();
    let exp: Vec<Value> = points(24)
        .map(|[a, b, ..]| -unit(a) * 2.0_f64.powi((b % 10) as i32 - 1))
        .map(|x| json!([x.to_bits(), exp(x).to_bits()]))
        .collect();
    let weight: Vec<Value> = points(48)
        .map(|[a, b, ..]| -(unit(a) * 2.0_f64.powi((b % 12) as i32 - 5)) as f32)
        .map(|t| json!([t.to_bits(), exp2_fixed(t)]))
        .collect();
    json!({"philox": philox, "exponential": exponential, "ln": ln, "exp": exp, "weight": weight})
}

/// One value a line, so that a change shows as the lines it changes.
pub fn lines(value: &Value) -> String {
    let list = |items: &[Value]| items.iter().map(Value::to_string).collect::<Vec<_>>().join(",\n");
    match value {
        Value::Array(items) => format!("[\n{}\n]\n", list(items)),
        Value::Object(fields) => {
            let field = |(name, items): (&String, &Value)| {
                format!("\"{name}\": [\n{}\n]", list(items.as_array().map_or(&[], Vec::as_slice)))
            };
            format!("{{\n{}\n}}\n", fields.iter().map(field).collect::<Vec<_>>().join(",\n"))
        }
        other => other.to_string(),
    }
}
