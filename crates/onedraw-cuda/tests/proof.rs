//! What shows that a device draws the CPU's bits, at a length of one's choice: golden values, what other
//! systems answered, random rows by the million, and batches that change for minutes. `prove` beside the
//! crate runs it all. Without a driver the tests are skipped, and say so.

use std::time::{Duration, Instant};

use onedraw::{LogprobsMode, Sampled, SamplingParams, TokenLogprob};
use onedraw_cuda::{Batch, Capacity, Device, Dtype, Turn};
use onedraw_testkit::conformance::{self, Case};
use onedraw_testkit::golden;
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_dtype, any_params, any_row, by_chance, one_of};
use crate::beside::twins::Twins;
use crate::beside::{Lie, Rows, Uploaded, device};

/// Those of the models people run, the smallest ones, and the borders of blocks.
const VOCABULARIES: [usize; 9] = [1, 17, 1023, 1024, 1025, 32_000, 128_256, 151_936, 262_144];

/// A number from the environment, or a small one.
fn asked(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|number| number.parse().ok()).unwrap_or(otherwise)
}

/// One step of one sequence.
fn draw(device: &Device, logits: &[f32], params: &SamplingParams) -> Sampled {
    let logprobs = params.logprobs.unwrap_or(0) as usize;
    let capacity = Capacity { sequences: 1, rows: 1, vocabulary: logits.len(), logprobs };
    let mut batch = Batch::new(device, capacity).expect("a batch");
    let id = batch.add(params).unwrap_or_else(|error| panic!("{error}: {params:?}"));
    let uploaded = Uploaded::new(device, &Rows::new(Dtype::F32, vec![logits.to_vec()]), Lie::default());
    let mut results = batch.sample(&[Turn::new(id)], &uploaded.matrix(device)).expect("a step");
    results.remove(0).expect("a token")
}

#[test]
fn golden_draws() {
    let Some(device) = device() else { return };
    let answers = golden::draws();
    let (mut drawn, mut refused) = (0, 0);
    for case in answers.as_array().expect("a list") {
        let params = SamplingParams::from_value(case["params"].clone()).expect("valid parameters");
        let params =
            SamplingParams { logprobs: Some(1), logprobs_mode: LogprobsMode::ProcessedLogprobs, ..params };
        if onedraw_cuda::check(&params).is_err() {
            refused += 1;
            continue;
        }
        let sampled = draw(&device, &golden::row(&case["row"]), &params);
        assert_eq!(u64::from(sampled.token), case["tokens"][0].as_u64().expect("a token"), "{case}");
        let first = sampled.logprobs.iter().find(|entry| entry.rank == 1).expect("the first of the order");
        assert_eq!(first.logprob.to_bits(), case["first_logprob_bits"].as_u64().expect("bits"), "{case}");
        drawn += 1;
    }
    assert_eq!((drawn, refused), (216, 0), "all of them: 27 chains for 8 rows");
    println!("golden: {drawn} draws and logprobs");
}

/// The tokens that the chain leaves, with their probabilities, from what a draw lists.
fn distribution(sampled: &Sampled) -> (Vec<u32>, Vec<f64>) {
    let mut listed: Vec<TokenLogprob> = sampled.logprobs.clone();
    listed.sort_by_key(|entry| entry.rank);
    let probability = |entry: &TokenLogprob| onedraw::math::exp(entry.logprob);
    (listed.iter().map(|entry| entry.token).collect(), listed.iter().map(probability).collect())
}

#[test]
fn what_other_systems_answered() {
    let Some(device) = device() else { return };
    let compare = |cases: Vec<Case>, tolerance: f64| {
        let mut compared = 0;
        for case in cases {
            let params = case.sampling_params().unwrap_or_else(|error| panic!("{}: {error}", case.name));
            let params = SamplingParams {
                seed: Some(1),
                logprobs: Some(case.logits.len().min(1024) as i64),
                logprobs_mode: LogprobsMode::ProcessedLogprobs,
                ..params
            };
            let is_listed = case.expected.iter().filter(|&&p| p > 0.0).count() < 1024;
            if !is_listed || onedraw_cuda::check(&params).is_err() {
                continue;
            }
            let (tokens, probabilities) = distribution(&draw(&device, &case.logits, &params));
            if let Err(difference) = case.check(&tokens, &probabilities, tolerance) {
                panic!("{}: {difference}\n{}", case.name, case.params);
            }
            compared += 1;
        }
        compared
    };
    let compared = [
        compare(conformance::vllm(), 2e-6),
        compare(conformance::hugging_face(), 2e-6),
        compare(conformance::llama_cpp(), 2e-6),
    ];
    assert!(compared[0] == 160 && compared[1] > 0 && compared[2] > 0, "{compared:?}");
    println!(
        "conformance: vLLM {}, Hugging Face {}, llama.cpp {} cases",
        compared[0], compared[1], compared[2]
    );
}

/// `ONEDRAW_CUDA_ROWS` of them, 20,000 unless it is set: all that is said of each row.
#[test]
fn random_rows() {
    let Some(device) = device() else { return };
    let (wanted, random) =
        (asked("ONEDRAW_CUDA_ROWS", 20_000), &mut SplitMix64::new(asked("ONEDRAW_CUDA_SEED", 7)));
    let mut drawn = 0;
    while drawn < wanted {
        let vocabulary = one_of(random, &VOCABULARIES);
        let count = 1 + random.below(if vocabulary < 5000 { 300 } else { 60 });
        let mut twins = Twins::new(&device, count, vocabulary).on_all_cores();
        // Half of the batches are plain, and so take the short way.
        let is_plain = by_chance(random, 0.5);
        let pairs: Vec<_> = (0..count)
            .map(|_| {
                let params = any_params(random, vocabulary);
                twins.add(&if is_plain { cases::plain(&params) } else { params })
            })
            .collect();
        let (dtype, shape) = (any_dtype(random), one_of(random, &cases::SHAPES));
        let few: Vec<_> = (0..4).map(|_| any_row(random, shape, vocabulary)).collect();
        let rows = Rows::new(dtype, (0..count).map(|i| few[i % 4].clone()).collect());
        let lie = Lie { padding: one_of(random, &[0, 0, 8, 3]), ..Lie::default() };
        let uploaded = Uploaded::new(&device, &rows, lie);
        for step in 0..12 {
            let what = format!("{drawn} rows, step {step}, {vocabulary} {dtype:?} {shape:?}");
            twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], &what);
            drawn += count as u64;
        }
    }
    println!("random rows: {drawn}");
}

/// `ONEDRAW_CUDA_SECONDS` long, 3 unless it is set: sequences join and leave, and the device's memory stays
/// what it was.
#[test]
fn changing_batches() {
    let Some(device) = device() else { return };
    let random = &mut SplitMix64::new(11);
    let (vocabulary, most) = (32_000, 48);
    let mut twins = Twins::new(&device, most, vocabulary).on_all_cores();
    let rows: Vec<_> =
        (0..most).map(|i| any_row(random, cases::SHAPES[i % cases::SHAPES.len()], vocabulary)).collect();
    let rows = Rows::new(Dtype::BF16, rows);
    let free = || device.context().mem_get_info().expect("the device's memory").0;
    let (begun, length) = (Instant::now(), Duration::from_secs(asked("ONEDRAW_CUDA_SECONDS", 3)));
    let (mut pairs, mut steps, mut drawn, mut before) = (Vec::new(), 0u64, 0u64, None);
    while begun.elapsed() < length {
        while pairs.len() < most && by_chance(random, 0.9) {
            pairs.push(twins.add(&any_params(random, vocabulary)));
        }
        random.shuffle(&mut pairs);
        let part = &pairs[..pairs.len().min(1 + random.below(most))];
        if !part.is_empty() {
            let order: Vec<usize> = (0..part.len()).map(|_| random.below(most)).collect();
            let chosen = rows.pick(&order);
            let uploaded = Uploaded::new(&device, &chosen, Lie::default());
            twins.step(part, &uploaded.matrix(&device), |i| chosen.row(i), &[], &format!("step {steps}"));
            drawn += part.len() as u64;
        }
        steps += 1;
        pairs.retain(|&pair| {
            let stays = by_chance(random, 0.85);
            if !stays {
                twins.remove(pair);
            }
            stays
        });
        // Everything that is allocated once is there by now.
        if steps == 200 {
            before = Some(free());
        }
    }
    for pair in pairs.drain(..) {
        twins.remove(pair);
    }
    let lost = before.map_or(0, |before: usize| before.saturating_sub(free()));
    // A pool of the driver's may hold what sequences of the moment have: a few MB each.
    assert!(lost < 256 << 20, "{lost} bytes are gone");
    println!(
        "changing batches: {drawn} rows in {steps} steps and {:.0} s, {lost} bytes less free",
        begun.elapsed().as_secs_f64()
    );
}
