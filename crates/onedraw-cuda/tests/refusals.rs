//! What a machine may lack: an older driver, an older card, a launch that fails. The emulated driver can lack
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
