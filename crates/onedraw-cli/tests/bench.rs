//! What `onedraw bench` prints. Nothing here asks how long anything took.

use onedraw_bench::strategies;
use serde_json::Value;

use crate::support::onedraw;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn every_line_has_its_numbers() {
    let run = onedraw(&["bench", "--quick", "--vocabulary", "2000", "--format", "json"]);
    let report = run.lines().remove(0);
    assert!(report["machine"]["cores"].as_u64() > Some(0), "{report}");
    let lines = report["lines"].as_array().expect("lines");
    for line in lines {
        for name in ["mean", "median", "p10", "p90", "floor_mean", "floor_median", "ratio_of_medians"] {
            assert!(number(&line[name]) > 0.0, "{name} of {line}");
        }
        assert!(number(&line["p10"]) <= number(&line["median"]), "{line}");
        assert!(number(&line["median"]) <= number(&line["p90"]), "{line}");
        let ratio = &line["ratio"];
        let [low, value, high] = ["low", "value", "high"].map(|name| number(&ratio[name]));
        assert!(0.0 < low && low <= value && value <= high, "{line}");
        // The ratio of the means over all rounds lies between the rounds' ratios.
        let overall = number(&line["mean"]) / number(&line["floor_mean"]);
        assert!(low * (1.0 - 1e-9) <= overall && overall <= high * (1.0 + 1e-9), "{overall} of {line}");
        let medians = number(&line["median"]) / number(&line["floor_median"]);
        assert!((medians / number(&line["ratio_of_medians"]) - 1.0).abs() < 1e-9, "{line}");
        assert_eq!(ratio.get("target"), None, "targets are for another vocabulary: {line}");
    }
    let count = |rows: &str, cache: &str, batch: u64| {
        let is_one = |line: &&Value| {
            line["rows"] == rows
                && line["cache"] == cache
                && line["batch"] == batch
                && line["vocabulary"] == 2000
        };
        lines.iter().filter(is_one).count()
    };
    let strategies = strategies::ALL.len();
    assert_eq!([count("peaked", "hot", 1), count("flat", "hot", 1)], [strategies; 2]);
    // Four strategies from three types; two on one and on two threads.
    assert_eq!(
        [count("peaked", "cold", 1), count("peaked", "cold", 8), count("peaked", "cold", 64)],
        [12, 4, 4]
    );
    assert_eq!(lines.len(), 2 * strategies + 20);
}

#[test]
fn a_table_of_one_strategy() {
    let run = onedraw(&[
        "bench",
        "--quick",
        "--vocabulary",
        "500",
        "--strategy",
        "mirostat 2",
        "--kernel",
        "scalar",
    ]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert!(lines[0].contains("with scalar on"), "{}", run.stdout);
    assert_eq!(lines.iter().filter(|line| line.starts_with("mirostat 2")).count(), 2, "{}", run.stdout);
    assert!(lines.contains(&"flat rows of 500 f32, hot"), "{}", run.stdout);
    assert_eq!(lines.len(), 10, "{}", run.stdout);
}

#[test]
fn bad_arguments() {
    for (arguments, message) in [
        (&["--strategy", "top-z"][..], "--strategy: no name has `top-z` in it; the strategies are greedy; "),
        (&["--vocabulary", "0"], "invalid value '0' for '--vocabulary <N>'"),
        (&["--vocabulary", "2000000"], "invalid value '2000000' for '--vocabulary <N>'"),
        (&["--kernel", "mmx"], "invalid value 'mmx' for '--kernel <KERNEL>'"),
        (&["--kernel", "cuda"], "--kernel: cuda is for `onedraw sample` alone; supported here are auto"),
        (&["--format", "xml"], "invalid value 'xml' for '--format <FORMAT>'"),
    ] {
        let run = onedraw(&[&["bench"], arguments].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(run.stderr.starts_with(&format!("error: {message}")), "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
}
