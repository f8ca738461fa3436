//! What a machine may lack: a newer driver, a newer card, memory, a launch that works. The emulated driver can lack
//! each of these; on a device, or without one, the tests are skipped and say so.

use std::process::Command;

use onedraw::SamplingParams;
use onedraw_cuda::{CudaError, Device, Dtype};
use onedraw_testkit::rows::SplitMix64;

use crate::beside::cases::{self, any_row};
use crate::beside::twins::Twins;
use crate::beside::{Lie, Rows, Uploaded, device};

/// Whether this process has a driver that lacks it. If not, the test runs again in one that has: its answer
/// is this one's.
fn lacks(what: &str, test: &str) -> bool {
    if std::env::var("EMULATED_LACK").is_ok_and(|lack| lack == what) {
        return true;
    }
    if std::env::var("ONEDRAW_CUDA_REQUIRED").is_ok_and(|name| name == "a CPU") {
        let program = std::env::current_exe().expect("this program");
        let child = Command::new(program)
            .args(["--exact", &format!("refusals::{test}")])
            .env("EMULATED_LACK", what)
            .output();
        let output = child.expect("a child");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    } else {
        println!("skipped: the driver is not the emulated one");
    }
    false
}

#[test]
fn an_older_driver_is_named() {
    if lacks("driver", "an_older_driver_is_named") {
        let error = Device::new(0).expect_err("it is too old");
        assert_eq!(error, CudaError::OldDriver { found: 12_080, needed: 13_000 });
        assert!(error.to_string().contains("12.8") && error.to_string().contains("13.0"), "{error}");
    }
}

#[test]
fn an_older_card_is_named() {
    if lacks("card", "an_older_card_is_named") {
        let error = Device::new(0).expect_err("it is too old");
        assert_eq!(error, CudaError::OldDevice { name: "a CPU".into(), major: 7, minor: 5 });
        assert!(error.to_string().contains("7.5") && error.to_string().contains("8.0"), "{error}");
    }
}

#[test]
fn after_a_launch_that_failed_the_next_works() {
    if !lacks("launch", "after_a_launch_that_failed_the_next_works") {
        return;
    }
    let Some(device) = device() else { return };
    const VOCABULARY: usize = 300;
    let random = &mut SplitMix64::new(5);
    let mut twins = Twins::new(&device, 2, VOCABULARY);
    let params = SamplingParams { repetition_penalty: 1.3, logprobs: Some(2), ..Default::default() };
    let pairs = [1, 2].map(|seed| twins.add(&SamplingParams { seed: Some(seed), ..params.clone() }));
    let rows = (0..2).map(|_| any_row(random, cases::Shape::Zipf, VOCABULARY)).collect();
    let rows = Rows::new(Dtype::F32, rows);
    let uploaded = Uploaded::new(&device, &rows, Lie::default());
    // A step is four launches, of which each fails once: what those before it left behind is nobody's.
    for launch in ["the first pass", "the draw", "sums", "what is told"] {
        let turns = twins.turns(&pairs, &[]);
        let failed = twins.gpu.sample(&turns, &uploaded.matrix(&device));
        assert!(matches!(failed, Err(CudaError::Launch(_))), "{launch}: {failed:?}");
        // After the draw the sequences have a token more, though nobody was told.
        if matches!(launch, "sums" | "what is told") {
            twins.expected(&pairs, |i| rows.row(i), &[]);
        }
        let drawn = twins.step(&pairs, &uploaded.matrix(&device), |i| rows.row(i), &[], "afterwards");
        assert!(drawn.iter().all(Result::is_ok), "{drawn:?}");
    }
}

#[test]
fn a_text_without_memory_stays_as_it_is() {
    if !lacks("memory", "a_text_without_memory_stays_as_it_is") {
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
