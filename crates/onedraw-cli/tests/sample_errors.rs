//! Bad rows, bad parameters, bad arguments: what is said, where, and the exit code.

use std::io::{BufRead, BufReader, Read};

use crate::support::{Folder, PLAIN, command, npy_of, onedraw};

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

/// Every bad argument: nothing on standard output, one line on standard error, exit code 2.
fn refused(arguments: &[&str]) -> String {
    let run = onedraw(arguments);
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
    let message =
        run.stderr.strip_prefix("error: ").and_then(|rest| rest.strip_suffix('\n')).expect(&run.stderr);
    assert!(!message.contains('\n'), "{message}");
    message.to_owned()
}

#[test]
fn a_bad_row_is_reported_once_and_spoils_no_other() {
    let folder = Folder::new();
    let masked = [-INF; 3];
    let logits = folder
        .npy("x.npy", &[&PLAIN, &[0.0, NAN, NAN], &PLAIN, &[0.0, 0.0, INF], &masked, &[-INF, -INF, 0.0]]);
    let run = onedraw(&["sample", &logits, "--params", r#"{"seed": 5, "n": 2}"#, "--draws", "3"]);
    assert_eq!((run.code, run.stderr.as_str()), (1, ""));
    let lines = run.lines_whatever_happened();
    let rows: Vec<_> = lines.iter().map(|line| line["row"].as_u64().expect("a row")).collect();
    assert_eq!(rows, [0, 0, 0, 0, 0, 0, 1, 2, 2, 2, 2, 2, 2, 3, 4, 5, 5, 5, 5, 5, 5]);
    let texts: Vec<_> = run.stdout.lines().collect();
    assert_eq!(
        texts[6],
        r#"{"row":1,"error":{"kind":"nan_logit","message":"the logit of token 1 is NaN; logits are finite or -inf (masked)"}}"#
    );
    assert_eq!(lines[13]["error"]["kind"], "infinite_logit");
    assert_eq!(lines[14]["error"]["kind"], "nothing_left");
    assert_eq!(lines[15]["token"], 2);
    let alone = folder.npy("alone.npy", &[&PLAIN]);
    let good = onedraw(&["sample", &alone, "--params", r#"{"seed": 5, "n": 2}"#, "--draws", "3"]);
    assert_eq!(good.stdout.lines().collect::<Vec<_>>(), texts[..6]);
    let distribution = onedraw(&["sample", &logits, "--distribution"]);
    assert_eq!(distribution.code, 1);
    let failed: Vec<_> =
        distribution.lines_whatever_happened().iter().map(|line| line.get("error").is_some()).collect();
    assert_eq!(failed, [false, true, false, true, true, false]);
}

#[test]
fn a_bad_row_far_down() {
    let folder = Folder::new();
    let mut rows = vec![PLAIN; 200];
    rows[150][2] = NAN;
    let rows: Vec<_> = rows.iter().map(|row| &row[..]).collect();
    let run = onedraw(&["sample", &folder.npy("x.npy", &rows), "--params", r#"{"temperature": 0}"#]);
    assert_eq!(run.code, 1);
    let lines = run.lines_whatever_happened();
    assert_eq!(lines.len(), 200);
    for (row, line) in lines.iter().enumerate() {
        assert_eq!((line["row"].as_u64(), line.get("error").is_some()), (Some(row as u64), row == 150));
    }
}

#[test]
fn rows_without_logits_and_no_rows() {
    let folder = Folder::new();
    for (shape, rows) in [("(3, 0)", 3), ("(0,)", 1)] {
        let logits = folder.file("empty.npy", &npy_of("<f4", shape, &[]));
        let run = onedraw(&["sample", &logits, "--params", r#"{"prompt_token_ids": [4]}"#]);
        assert_eq!((run.code, run.stderr.as_str()), (1, ""));
        let expected = |row| {
            format!(
                r#"{{"row":{row},"error":{{"kind":"empty_row","message":"the row has no logits; at least one is needed"}}}}"#
            )
        };
        assert_eq!(run.stdout.lines().collect::<Vec<_>>(), (0..rows).map(expected).collect::<Vec<_>>());
    }
    let logits = folder.file("none.npy", &npy_of("<f4", "(0, 5)", &[]));
    for flags in [&[][..], &["--distribution"], &["--format", "table"], &["--params", "[]"]] {
        let run = onedraw(&[&["sample", &logits], flags].concat());
        assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "", ""), "{flags:?}");
    }
}

#[test]
fn bad_parameters_are_named() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN[..]; 4]);
    let message = |params: &str| refused(&["sample", &logits, "--params", params]);
    for (params, expected) in [
        (r#"{"top_p": -0.5}"#, "top_p: must be in [0, 1], not -0.5"),
        (r#"[{}, {}, {}, {"top_p": 1.5}]"#, "params[3].top_p: must be in [0, 1], not 1.5"),
        (r#"{"temperature": -1}"#, "temperature: must be in [0, 1000000], not -1"),
        (r#"{"top_k": -2}"#, "top_k: must be at least 1, or 0 or -1 for off, not -2"),
        (r#"{"n": 0}"#, "n: must be in [1, 65536], not 0"),
        (r#"{"n": 70000}"#, "n: must be in [1, 65536], not 70000"),
        (r#"{"logprobs": -2}"#, "logprobs: must be at least 0, or -1 for all, not -2"),
        ("[{}, {}]", "params: an array of 2 for 4 rows; one object a row is needed"),
        ("[]", "params: an array of 0 for 4 rows; one object a row is needed"),
        ("[{}, 5, {}, {}]", "params[1]: must be a JSON object"),
        ("7", "params: must be a JSON object, or an array of one a row"),
        ("", "params: cannot be read as JSON: EOF while parsing a value at line 1 column 0"),
        (
            r#"{"seed": 1, "seed": 2}"#,
            "params: cannot be read as JSON: the key `seed` stands twice at line 1 column 22",
        ),
        (
            r#"{"logit_bias": {"3": 1}}"#,
            "logit_bias: token 3 is outside the vocabulary; ids of this row are 0 to 2",
        ),
        (
            r#"[{}, {"allowed_token_ids": [1, 9]}, {}, {}]"#,
            "params[1].allowed_token_ids: token 9 is outside the vocabulary; ids of this row are 0 to 2",
        ),
        (
            r#"{"output_token_ids": [0, 3]}"#,
            "output_token_ids: token 3 is outside the vocabulary; ids of this row are 0 to 2",
        ),
    ] {
        assert_eq!(message(params), expected, "{params}");
    }
    for (params, parts) in [
        (
            r#"{"topp": 0.5}"#,
            ["topp: ", "unknown field `topp`; did you mean `top_p`? See onedraw sample --help"],
        ),
        (r#"[{}, {}, {"topp": 0.5}, {}]"#, ["params[2]", "unknown field `topp`"]),
        (r#"{"top\np": 0.5}"#, ["top\\np", "unknown field"]),
        (r#"{"top_k": "many"}"#, ["top_k: ", "invalid type"]),
        (r#"{"seed": -5}"#, ["seed: ", "2^64-1"]),
        (r#"{"seed": 18446744073709551616}"#, ["seed: ", "2^64-1"]),
        (r#"{"logprobs_mode": "rough"}"#, ["logprobs_mode: ", "rough"]),
        (r#"{"order": "top_k,nucleus"}"#, ["order: ", "nucleus"]),
    ] {
        let message = message(params);
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
    // A bad parameter stops everything, even if a row is bad as well.
    let bad = folder.npy("bad.npy", &[&[NAN, NAN]]);
    assert_eq!(refused(&["sample", &bad, "--params", r#"{"min_p": 2}"#]), "min_p: must be in [0, 1], not 2");
    let missing = format!("@{}/none.json", folder.path().display());
    assert!(refused(&["sample", &logits, "--params", &missing]).starts_with("params: the file "));
}

#[test]
fn a_vocabulary_too_large() {
    let folder = Folder::new();
    let rows = vec![0.0; (1 << 20) + 1];
    let message = refused(&["sample", &folder.npy("x.npy", &[&rows])]);
    assert_eq!(message, "logits: the row has 1048577 logits; at most 1048576 are allowed");
}

#[test]
fn bad_arguments() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN]);
    let sample = |flags: &[&str]| refused(&[&["sample", logits.as_str()], flags].concat());
    assert!(refused(&[]).starts_with("'onedraw' requires a subcommand but one was not provided"));
    assert!(refused(&["draw"]).starts_with("unrecognized subcommand 'draw'"));
    assert!(refused(&["sample"]).starts_with("the following required arguments were not provided: <LOGITS>"));
    assert_eq!(
        sample(&["--topp", "1"]),
        "unexpected argument '--topp' found; did you mean '--top-p'? See onedraw sample --help"
    );
    for (flags, start) in [
        (["--draws", "0"], "invalid value '0' for '--draws <N>'"),
        (["--draws", "many"], "invalid value 'many' for '--draws <N>'"),
        (["--draws", "4294967296"], "invalid value '4294967296' for '--draws <N>'"),
        (["--logprobs", "-2"], "--logprobs: must be at least 0, or -1 for all, not -2"),
        (
            ["--logprobs-mode", "raw"],
            "invalid value 'raw' for '--logprobs-mode <NAME>' [possible values: raw_logprobs,",
        ),
        (["--order", "nucleus"], "--order: `nucleus` is not a stage"),
        (["--temperature", "warm"], "--temperature: invalid type: string \"warm\", expected a number"),
        (["--top-k", "2.5"], "--top-k: invalid type: floating point `2.5`, expected a whole number"),
        (["--threads", "-1"], "unexpected argument '-1' found"),
        (["--threads", "100000"], "invalid value '100000' for '--threads <N>'"),
        (["--shards", "0"], "invalid value '0' for '--shards <N>'"),
        (["--kernel", "mmx"], "invalid value 'mmx' for '--kernel <KERNEL>'"),
        (["--format", "xml"], "invalid value 'xml' for '--format <FORMAT>' [possible values: json, table]"),
    ] {
        let message = sample(&flags);
        assert!(message.starts_with(start), "{message}");
    }
    let foreign = if cfg!(target_arch = "aarch64") { "avx2" } else { "neon" };
    let message = sample(&["--kernel", foreign]);
    let start = format!("--kernel: this CPU has no {foreign}; supported here are auto, scalar");
    assert!(message.starts_with(&start), "{message}");
    assert_eq!(
        sample(&["--draws", "4294967295", "--params", r#"{"output_token_ids": [1, 2]}"#]),
        "--draws: 4294967295 draws after 2 tokens of output; positions end at 4294967295"
    );
}

#[test]
fn help_names_every_flag() {
    for arguments in [&["--help"][..], &["-h"], &["help"]] {
        let run = onedraw(arguments);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        assert!(run.stdout.contains("sample") && run.stdout.contains("presets"), "{}", run.stdout);
    }
    let help = onedraw(&["sample", "--help"]).stdout;
    for flag in [
        "LOGITS",
        "--params",
        "--draws",
        "--logprobs",
        "--logprobs-mode",
        "--distribution",
        "--order",
        "--threads",
        "--kernel",
        "--shards",
        "--format",
    ] {
        assert!(help.contains(flag), "{flag}");
    }
    assert_eq!(onedraw(&["--version"]).stdout, concat!("onedraw ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN]);
    let full = std::fs::File::create("/dev/full").expect("the device that is always full");
    let output = command(&["sample", &logits]).stdout(full).output().expect("ended");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(
        said.starts_with("error: the results cannot be written: ") && said.lines().count() == 1,
        "{said}"
    );
}

/// As `onedraw sample … | head -n 1`.
#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let folder = Folder::new();
    let logits = folder.npy("x.npy", &[&PLAIN]);
    let mut child = command(&["sample", &logits, "--draws", "20000"]).spawn().expect("started");
    let mut first = String::new();
    BufReader::with_capacity(64, child.stdout.take().expect("piped")).read_line(&mut first).expect("a line");
    assert!(first.starts_with(r#"{"row":0,"draw":0,"#), "{first}");
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("UTF-8");
    assert_eq!((child.wait().expect("ended").code(), said.as_str()), (Some(0), ""));
}
