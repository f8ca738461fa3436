//! What a draw costs through C beside the same draw in Rust, in one run:
//!
//! ```text
//! cargo build --release -p onedraw-c && cargo bench -p onedraw-c
//! ```
//!
//! A C program (`call_cost.c`) that is linked with the shared library and this one draw in turns. Each takes the fastest of
//! its rounds, which are shorter than a turn of the processor, because whatever else the machine does only adds time.
//! Both must draw the same tokens.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use library::{Sampler, SamplingParams};

const TURNS: usize = 5;

/// Rounds of a turn; those of `call_cost.c` too.
const ROUNDS: usize = 1000;

/// The row of `call_cost.c`: most logits lie within 8 of each other, a few stand out.
fn row(vocabulary: usize) -> Vec<f32> {
    let mut state = 1_u32;
    let logit = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let high = state >> 8;
        (high as f32 - 8_388_608.0) / 2_097_152.0 + if high.is_multiple_of(4096) { 24.0 } else { 0.0 }
    };
    (0..vocabulary).map(logit).collect()
}

/// The nanoseconds of a draw in Rust, and the sum of the tokens.
fn in_rust(params: &str, vocabulary: usize, draws: usize) -> (f64, u64) {
    let mut sampler =
        Sampler::new(SamplingParams::from_json(params).expect("parameters")).expect("parameters");
    // Where a row begins in a line of the cache decides more than the call.
    let mut room = vec![0.0; vocabulary + 16];
    let start = room.as_ptr().align_offset(64);
    let row = &mut room[start..][..vocabulary];
    row.copy_from_slice(&self::row(vocabulary));
    let (mut least, mut sum) = (f64::INFINITY, 0);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..draws {
            sum += u64::from(sampler.sample(black_box(&*row)).expect("a good row").token);
        }
        least = least.min(began.elapsed().as_nanos() as f64 / draws as f64);
        sampler.rewind(0);
    }
    (least, sum)
}

/// The same in C.
fn in_c(program: &Path, params: &str, vocabulary: usize, draws: usize) -> (f64, u64) {
    let output = Command::new(program).args([params, &vocabulary.to_string(), &draws.to_string()]).output();
    let output = output.expect("the C program runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let (least, sum) = text.trim().split_once(' ').expect("two numbers");
    (least.parse().expect("a time"), sum.parse().expect("a sum"))
}

/// Compiles the C program against the library that stands beside this one's folder.
fn compile() -> PathBuf {
    let deps = std::env::current_exe().expect("a program");
    let folder = deps.parent().and_then(Path::parent).expect("target/release").to_owned();
    assert!(folder.join("libonedraw.so").exists(), "first: cargo build --release -p onedraw-c");
    let (crate_folder, program) = (Path::new(env!("CARGO_MANIFEST_DIR")), folder.join("call_cost"));
    let status = Command::new("cc")
        .args(["-std=c11", "-O2", "-D_POSIX_C_SOURCE=200809L"])
        .arg(crate_folder.join("benches/call_cost.c"))
        .arg(format!("-I{}", crate_folder.join("include").display()))
        .args([format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display())])
        .args(["-lonedraw", "-o"])
        .arg(&program)
        .status();
    assert!(status.expect("a C compiler").success());
    program
}

fn main() {
    let program = compile();
    println!("{:<40} {:>8} {:>12} {:>12} {:>8}", "", "logits", "Rust, ns", "C, ns", "more, ns");
    for (name, params, vocabulary, draws) in [
        ("greedy", r#"{"temperature": 0}"#, 64, 100),
        ("temperature 0.8", r#"{"temperature": 0.8, "seed": 1}"#, 64, 100),
        ("top-k 50, top-p 0.9", r#"{"temperature": 0.8, "top_k": 50, "top_p": 0.9, "seed": 1}"#, 64, 100),
        ("greedy", r#"{"temperature": 0}"#, 128_256, 10),
        (
            "top-k 50, top-p 0.9",
            r#"{"temperature": 0.8, "top_k": 50, "top_p": 0.9, "seed": 1}"#,
            128_256,
            500,
        ),
    ] {
        let (mut rust, mut c) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..TURNS {
            let (time, sum) = in_rust(params, vocabulary, draws);
            rust = rust.min(time);
            let (time, same) = in_c(&program, params, vocabulary, draws);
            c = c.min(time);
            assert_eq!(sum, same, "other tokens");
        }
        println!("{name:<40} {vocabulary:>8} {rust:>12.1} {c:>12.1} {:>8.1}", c - rust);
    }
}
