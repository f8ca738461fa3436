//! How many instructions a draw takes under Valgrind: a number that does not depend on how busy the machine
//! is.
//!
//! `instructions.txt` holds what each benchmark took when the table was last written. One that takes more
//! than 5 % above that fails. `.ci/instructions` runs them; `.ci/instructions --write` writes the table anew
//! after a change that is meant. Valgrind shows a program AVX2 and no AVX-512, so these are the counts of the
//! AVX2 path.

#![allow(missing_docs, reason = "the macros make public items")]

use std::hint::black_box;

use gungraun::prelude::*;
use gungraun::{Callgrind, EventKind};
use onedraw::{Kernel, Row, Sampler, SamplingParams};
use onedraw_testkit::rows::{self, SplitMix64, to_bf16};

const VOCABULARY: usize = 128_256;
/// Each position opens other parts of the row: several, so that the luck of one weighs little.
const POSITIONS: u32 = 8;
/// `name.row instructions`, one line per benchmark. Read when the benchmarks run: a table written anew needs
/// no new build.
const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");

/// 5 % above the table. What is not in the table may take no instruction at all, and so fails.
fn limit(name: &str, row: &str) -> LibraryBenchmarkConfig {
    let name = format!("{name}.{row} ");
    let table = std::fs::read_to_string(TABLE).expect(TABLE);
    let limit = table.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |count| {
        let count: u64 = count.parse().expect("a count");
        count + count / 20
    });
    let mut callgrind = Callgrind::with_args(["--cache-sim=no"]);
    callgrind.hard_limits([(EventKind::Ir, limit)]);
    // With ERMS, glibc fills memory by one instruction that Valgrind counts once per byte.
    LibraryBenchmarkConfig::default().env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-ERMS").tool(callgrind).clone()
}

/// Draws that have been drawn once before, so that no memory is taken while they are counted.
fn warm<T: 'static>(params: SamplingParams, row: Vec<T>) -> Box<dyn FnMut()>
where
    for<'a> Row<'a>: From<&'a Vec<T>>,
{
    assert!(Kernel::Avx2.is_supported() && !Kernel::Avx512.is_supported(), "the table is of AVX2");
    let mut sampler = Sampler::new(params).expect("valid parameters").kernel(Kernel::Avx2);
    let mut draw = move || {
        for ahead in 0..POSITIONS {
            black_box(sampler.peek(black_box(&row), ahead)).expect("a good row");
        }
    };
    draw();
    Box::new(draw)
}

/// As a language model gives them: a bulk N(0, 3) and a Zipf head.
fn peaked() -> Vec<f32> {
    rows::peaked(1, VOCABULARY)
}

/// N(0, 1): thousands of tokens matter.
fn flat() -> Vec<f32> {
    rows::gaussian(2, VOCABULARY, 1.0)
}

fn to_f32(row: &[f32]) -> Vec<f32> {
    row.to_vec()
}

fn params(json: &str) -> SamplingParams {
    SamplingParams { seed: Some(1), ..SamplingParams::from_json(json).expect(json) }
}

/// 512 tokens of prompt and 1,000 of output, low ids more often than high ones.
fn with_text(params: SamplingParams) -> SamplingParams {
    let mut random = SplitMix64::new(3);
    let mut token = || (random.uniform() * random.uniform() * VOCABULARY as f64) as u32;
    let prompt_token_ids = (0..512).map(|_| token()).collect();
    let output_token_ids = (0..1000).map(|_| token()).collect();
    SamplingParams { prompt_token_ids, output_token_ids, ..params }
}

/// For each name, the parameters on each kind of row, in a dtype.
macro_rules! draws {
    ($($name:ident: $to_dtype:path, $params:expr;)*) => {
        $(
            #[library_benchmark]
            #[bench::peaked(args = (warm($params, $to_dtype(&peaked()))), config = limit(stringify!($name), "peaked"))]
            #[bench::flat(args = (warm($params, $to_dtype(&flat()))), config = limit(stringify!($name), "flat"))]
            // What comes back is freed outside of the count.
            fn $name(mut draw: Box<dyn FnMut()>) -> Box<dyn FnMut()> {
                draw();
                draw
            }
        )*
        library_benchmark_group!(name = draws, benchmarks = [$($name),*]);
    };
}

draws! {
    greedy: to_f32, params(r#"{"temperature": 0}"#);
    temperature: to_f32, params(r#"{"temperature": 0.8}"#);
    top_k_top_p: to_f32, params(r#"{"temperature": 0.8, "top_k": 50, "top_p": 0.9}"#);
    top_p: to_f32, params(r#"{"temperature": 0.8, "top_p": 0.9}"#);
    min_p: to_f32, params(r#"{"temperature": 0.8, "min_p": 0.05}"#);
    penalties: to_f32, with_text(params(
        r#"{"repetition_penalty": 1.1, "frequency_penalty": 0.1, "presence_penalty": 0.1,
            "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}"#,
    ));
    logprobs: to_f32, params(r#"{"temperature": 0.8, "logprobs": 5}"#);
    typical: to_f32, params(r#"{"typical_p": 0.95}"#);
    xtc: to_f32, params(r#"{"xtc_probability": 1}"#);
    mirostat: to_f32, params(r#"{"mirostat": 2}"#);
    greedy_bf16: to_bf16, params(r#"{"temperature": 0}"#);
    temperature_bf16: to_bf16, params(r#"{"temperature": 0.8}"#);
}

main!(library_benchmark_groups = draws);
