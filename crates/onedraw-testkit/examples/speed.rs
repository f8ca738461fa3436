//! How long a draw takes, as a ratio to one bare max-scan of the same row in the same run:
//! `cargo run --release -p onedraw-testkit --example speed`, with a part of a chain's name to run only these.

use std::hint::black_box;
use std::time::Instant;

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, f32x16};
use onedraw::{Sampler, SamplingParams};
use onedraw_testkit::rows;

const VOCABULARY: usize = 128_256;
const REPETITIONS: u32 = 400;

const CHAINS: [(&str, &str); 18] = [
    ("greedy", r#"{"temperature": 0}"#),
    ("temperature 0.8", r#"{"temperature": 0.8}"#),
    ("top-k 50", r#"{"top_k": 50}"#),
    ("top-p 0.9", r#"{"top_p": 0.9}"#),
    ("top-k 50, top-p 0.9", r#"{"top_k": 50, "top_p": 0.9}"#),
    ("min-p 0.05", r#"{"min_p": 0.05}"#),
    ("temperature, logprobs 0", r#"{"logprobs": 0}"#),
    (
        "top-p 0.9, processed logprobs 5",
        r#"{"top_p": 0.9, "logprobs": 5, "logprobs_mode": "processed_logprobs"}"#,
    ),
    ("epsilon 0.0003", r#"{"epsilon_cutoff": 0.0003}"#),
    ("eta 0.0003", r#"{"eta_cutoff": 0.0003}"#),
    ("top-a 0.1", r#"{"top_a": 0.1}"#),
    ("top-n-sigma 1", r#"{"top_n_sigma": 1}"#),
    ("typical 0.95", r#"{"typical_p": 0.95}"#),
    ("XTC, probability 1", r#"{"xtc_probability": 1}"#),
    ("mirostat 1", r#"{"mirostat": 1}"#),
    ("mirostat 2", r#"{"mirostat": 2}"#),
    ("dynatemp 0.8 ± 0.3", r#"{"temperature": 0.8, "dynatemp_range": 0.3}"#),
    ("smoothing 0.3", r#"{"smoothing_factor": 0.3}"#),
];

/// Median and mean of the microseconds that `work` takes, given the number of the repetition.
fn measure(mut work: impl FnMut(u32)) -> (f64, f64) {
    (0..20).for_each(&mut work);
    let mut times: Vec<f64> = (0..REPETITIONS)
        .map(|i| {
            let start = Instant::now();
            work(i);
            start.elapsed().as_secs_f64() * 1e6
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], times.iter().sum::<f64>() / times.len() as f64)
}

/// The floor: every logit loaded once, by the widest vectors there are, and nothing else.
fn bare_maximum(level: Level, row: &[f32]) -> f32 {
    #[inline(always)]
    fn scan<S: Simd>(simd: S, row: &[f32]) -> f32 {
        let load = |lanes: &[f32; 16]| f32x16::load_array_ref(simd, lanes);
        let lowest = f32x16::splat(simd, f32::NEG_INFINITY);
        // Eight that do not wait for each other.
        let (mut a, mut b, mut c, mut d) = (lowest, lowest, lowest, lowest);
        let (mut e, mut f, mut g, mut h) = (lowest, lowest, lowest, lowest);
        for chunk in row.as_chunks::<128>().0 {
            let [k, l, m, n, o, p, q, r] = chunk.as_chunks::<16>().0 else { continue };
            (a, b, c, d) = (a.max(load(k)), b.max(load(l)), c.max(load(m)), d.max(load(n)));
            (e, f, g, h) = (e.max(load(o)), f.max(load(p)), g.max(load(q)), h.max(load(r)));
        }
        let best = a.max(b).max(c.max(d)).max(e.max(f).max(g.max(h)));
        best.as_slice().iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a })
    }
    dispatch!(level, simd => scan(simd, row))
}

/// A copy that begins at a cache line: a load that splits two lines costs twice, which has nothing to do with sampling.
struct Aligned {
    buffer: Vec<f32>,
    start: usize,
    length: usize,
}

impl Aligned {
    fn new(row: &[f32]) -> Self {
        let mut buffer = vec![0.0; row.len() + 16];
        let start = buffer.as_ptr().align_offset(64);
        buffer[start..start + row.len()].copy_from_slice(row);
        Self { buffer, start, length: row.len() }
    }

    fn row(&self) -> &[f32] {
        &self.buffer[self.start..self.start + self.length]
    }
}

fn main() {
    let level = Level::new();
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let shapes = [
        ("peaked", rows::peaked(1, VOCABULARY)),
        ("gaussian, sigma 3", rows::gaussian(2, VOCABULARY, 3.0)),
        ("flat, sigma 0.01", rows::gaussian(3, VOCABULARY, 0.01)),
        ("ties, 8 values", rows::ties(4, VOCABULARY, 8)),
        ("all equal", rows::flat(VOCABULARY, 0.0)),
    ];
    println!(
        "{VOCABULARY} f32 logits, one thread, row hot in cache; µs as median (mean); ratio of medians to a bare max-scan"
    );
    for (shape, row) in &shapes {
        let aligned = Aligned::new(row);
        let row = aligned.row();
        let (floor, mean) = measure(|_| {
            black_box(bare_maximum(level, black_box(row)));
        });
        println!("\n{shape:<34}{floor:>8.1} ({mean:.1})  bare max-scan");
        for (name, json) in CHAINS.into_iter().filter(|(name, _)| name.contains(&wanted)) {
            let params = SamplingParams {
                seed: Some(1),
                ..SamplingParams::from_json(json).expect("valid parameters")
            };
            let mut sampler = Sampler::new(params).expect("valid parameters");
            let (median, mean) = measure(|position| drop(black_box(sampler.peek(black_box(row), position))));
            println!("  {name:<32}{median:>8.1} ({mean:.1})  {:.1}x", median / floor);
        }
    }
}
