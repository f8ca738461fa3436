//! `onedraw sample --kernel cuda`: the lines of the CPU where there is a device, and words where there is
//! none.

use onedraw_cuda::{CudaError, Device};

use crate::support::{Folder, Run, coarse, npy, npy_f16, npy_of, onedraw, safetensors};

/// Where there is no device the test is skipped, and says so, unless `ONEDRAW_CUDA_REQUIRED` names the one
/// that must be there.
fn has_device() -> bool {
    let required = std::env::var("ONEDRAW_CUDA_REQUIRED").ok();
    match (Device::new(0), required) {
        (Ok(device), Some(name)) => {
            assert_eq!(device.context().name(), Ok(name));
            true
        }
        (Ok(_), None) => true,
        (Err(error), Some(_)) => panic!("{error}"),
        (Err(error), None) => {
            println!("skipped: {error}");
            false
        }
    }
}

fn sample(logits: &str, kernel: &str, more: &[&str]) -> Run {
    onedraw(&[&["sample", logits, "--kernel", kernel], more].concat())
}

fn refused(arguments: &[&str]) -> String {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&coarse(50, 1), &coarse(50, 2)]);
    let run = sample(&logits, "cuda", arguments);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    run.stderr
}

#[test]
fn without_a_device_the_error_says_why() {
    match Device::new(0) {
        Ok(_) => println!("skipped: a device is here"),
        Err(error) => {
            assert_eq!(refused(&[]), format!("error: --kernel cuda: {error}\n"));
            assert_eq!(refused(&["--params", r#"{"top_p": 0.9}"#]), refused(&[]));
        }
    }
    let words = "no NVIDIA driver was found (libcuda): install one, or draw on the CPU";
    assert_eq!(CudaError::NoDriver.to_string(), words);
}

#[test]
fn what_is_not_on_the_device_is_named() {
    let words = |what: &str| {
        format!("error: --kernel cuda: {what} is not on the device; draw these rows on the CPU\n")
    };
    for (arguments, what) in [
        (&["--distribution"][..], "--distribution"),
        (&["--explain"], "--explain"),
        (&["--shards", "2"], "--shards"),
    ] {
        assert_eq!(refused(arguments), words(what));
    }
}

/// Of `--kernel cuda` and `--kernel auto`, line by line.
fn same_lines(logits: &str, more: &[&str]) {
    let (ours, theirs) = (sample(logits, "cuda", more), sample(logits, "auto", more));
    assert_eq!((ours.code, &ours.stderr), (theirs.code, &theirs.stderr), "{more:?}");
    for (i, (ours, theirs)) in ours.stdout.lines().zip(theirs.stdout.lines()).enumerate() {
        assert_eq!(ours, theirs, "line {i} of {more:?}");
    }
    assert_eq!(ours.stdout.lines().count(), theirs.stdout.lines().count(), "{more:?}");
}

#[test]
fn the_device_prints_what_the_cpu_prints() {
    if !has_device() {
        return;
    }
    let folder = Folder::new();
    let rows: Vec<_> = (0..70).map(|salt| coarse(1000, salt)).collect();
    let rows: Vec<_> = rows.iter().map(Vec::as_slice).collect();
    let files = [
        folder.npy("f32.npy", &rows),
        folder.file("f16.npy", &npy_f16(&rows)),
        folder.file("bf16.safetensors", &safetensors("logits", "BF16", &rows)),
        folder.npy("one.npy", &rows[..1]),
    ];
    let penalties = r#"{"seed": 3, "repetition_penalty": 1.3, "frequency_penalty": 0.4, "presence_penalty": 0.2,
        "prompt_token_ids": [1, 2, 3], "output_token_ids": [5, 6, 5]}"#;
    let words = r#"{"seed": 4, "bad_words_ids": [[7], [5, 6, 8], [1, 5, 6, 9]], "min_tokens": 3, "eos_token_id": 2,
        "prompt_token_ids": [1], "output_token_ids": [5, 6]}"#;
    let window = r#"{"seed": 3, "n": 2, "presence_penalty": 0.7, "frequency_penalty": 0.4, "penalty_window": 4,
        "prompt_token_ids": [1, 2, 3, 1], "output_token_ids": [5, 6, 5]}"#;
    for logits in &files {
        for more in [
            &["--params", r#"{"seed": 1}"#][..],
            &["--params", r#"{"seed": 1, "temperature": 0}"#, "--draws", "2"],
            &["--params", r#"{"seed": 2, "top_p": 0.9, "top_k": 40, "temperature": 0.8}"#, "--draws", "7"],
            &["--params", r#"{"seed": 2, "n": 3, "min_p": 0.05}"#, "--draws", "3", "--logprobs", "4"],
            &["--params", r#"{"seed": 2}"#, "--logprobs", "0", "--logprobs-mode", "raw_logprobs"],
            &["--params", r#"{"seed": 2, "top_k": 9}"#, "--logprobs", "5", "--logprobs-mode", "raw_logits"],
            &[
                "--params",
                r#"{"seed": 2, "top_k": 9}"#,
                "--logprobs",
                "12",
                "--logprobs-mode",
                "processed_logits",
            ],
            &["--params", penalties, "--draws", "4", "--logprobs", "2"],
            &["--params", words, "--draws", "5"],
            &["--params", window, "--draws", "4"],
            &["--params", window],
            &["--params", r#"{"seed": 6, "logit_bias": {"4": 3.5}, "typical_p": 0.8}"#, "--format", "table"],
        ] {
            same_lines(logits, more);
        }
    }
}

/// Draws of one row have the same text before them, whatever the parameters read of it.
#[test]
fn every_stage_is_on_the_device() {
    if !has_device() {
        return;
    }
    let folder = Folder::new();
    let rows: Vec<_> = (0..5).map(|salt| coarse(1000, salt)).collect();
    let rows: Vec<_> = rows.iter().map(Vec::as_slice).collect();
    let logits = folder.npy("f32.npy", &rows);
    let dry = r#"{"seed": 4, "n": 2, "dry_multiplier": 0.8, "dry_allowed_length": 1, "no_repeat_ngram_size": 3,
        "prompt_token_ids": [1, 2, 3, 4, 1, 2, 3], "output_token_ids": [5, 6, 1, 2]}"#;
    let late = r#"{"seed": 8, "temperature": 0.7, "top_p": 0.95, "repetition_penalty": 1.4, "logit_bias": {"3": 2.5},
        "output_token_ids": [5, 6, 5], "order": "temperature,penalties,top_p,logit_bias"}"#;
    let mixed = r#"[{"seed": 1}, {"seed": 2, "mirostat": 2}, {"seed": 3, "xtc_probability": 1}, {"seed": 4, "n": 3},
        {"seed": 5, "logprobs": -1}]"#;
    for more in [
        &["--params", r#"{"seed": 1, "xtc_probability": 0.7, "xtc_threshold": 0.02}"#, "--draws", "5"][..],
        &[
            "--params",
            r#"{"seed": 2, "mirostat": 1, "mirostat_tau": 3, "output_token_ids": [5]}"#,
            "--draws",
            "3",
        ],
        &["--params", r#"{"seed": 3, "mirostat": 2, "mirostat_eta": 0.5, "n": 2}"#, "--draws", "3"],
        &["--params", dry, "--draws", "4"],
        &["--params", r#"{"seed": 5, "smoothing_factor": 0.3, "smoothing_curve": 1.5}"#, "--draws", "2"],
        &["--params", r#"{"seed": 6, "temperature": 1.2, "dynatemp_range": 0.7}"#, "--draws", "2"],
        &["--params", late, "--draws", "4", "--logprobs", "3"],
        &["--params", r#"{"seed": 9, "top_k": 30, "kept": "ids"}"#, "--draws", "2"],
        &["--params", r#"{"seed": 10, "top_p": 0.8}"#, "--logprobs", "-1", "--draws", "2"],
        &["--params", r#"{"seed": 11}"#, "--logprobs", "-1", "--logprobs-mode", "raw_logprobs"],
        &["--params", mixed, "--draws", "2"],
    ] {
        same_lines(&logits, more);
    }
}

/// More sequences of one row than a launch has places for.
#[test]
fn a_row_may_have_any_number_of_sequences() {
    if !has_device() {
        return;
    }
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&coarse(20, 1)]);
    same_lines(&logits, &["--params", r#"{"seed": 1, "n": 65536}"#]);
    same_lines(&logits, &["--params", r#"{"seed": 1, "n": 1500, "presence_penalty": 1}"#, "--draws", "2"]);
}

#[test]
fn rows_may_have_parameters_of_their_own() {
    if !has_device() {
        return;
    }
    let folder = Folder::new();
    let rows = [coarse(300, 1), coarse(300, 2), coarse(300, 3)];
    let logits = folder.npy("x.npy", &[&rows[0], &rows[1], &rows[2]]);
    let params = r#"[{"seed": 1, "n": 2}, {"seed": 2, "temperature": 0, "logprobs": 3}, {"seed": 3, "presence_penalty": 1.5}]"#;
    same_lines(&logits, &["--params", params, "--draws", "3"]);
    let run = sample(&logits, "cuda", &["--params", r#"{"frequency_penalty": 0.5, "n": 2}"#, "--draws", "3"]);
    let seeds: std::collections::BTreeSet<_> =
        run.lines().iter().map(|line| (line["row"].as_u64(), line["seed"].as_u64())).collect();
    assert_eq!(seeds.len(), 3, "a row has one seed, given or not");
}

#[test]
fn bad_rows_are_the_same_lines() {
    if !has_device() {
        return;
    }
    let folder = Folder::new();
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let rows = [[0.5, 1.0, 2.0], [0.0, nan, 1.0], [1.0, 0.0, inf], [-inf; 3], [2.0, 1.0, 0.5]];
    let rows: Vec<&[f32]> = rows.iter().map(|row| &row[..]).collect();
    let logits = folder.file("bad.npy", &npy(&rows));
    same_lines(&logits, &["--params", r#"{"seed": 1}"#, "--draws", "3"]);
    same_lines(&logits, &["--params", r#"{"seed": 1, "n": 2, "presence_penalty": 1}"#, "--draws", "3"]);
    same_lines(&logits, &["--params", r#"{"seed": 1, "allowed_token_ids": [2]}"#]);
    same_lines(&folder.file("empty.npy", &npy_of("<f4", "(2, 0)", &[])), &[]);
    same_lines(&folder.file("none.npy", &npy_of("<f4", "(0, 7)", &[])), &[]);
}
