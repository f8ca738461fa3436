//! `onedraw generate` with beams, constraints and contrast, on the embedded model.

use serde_json::Value;

use crate::support::{Folder, onedraw};

fn json(arguments: &[&str]) -> Vec<Value> {
    onedraw(&[&["generate", "--format", "json"], arguments].concat()).lines()
}

fn text(line: &Value) -> &str {
    line["text"].as_str().expect("a text")
}

fn fails(arguments: &[&str], message: &str) {
    let run = onedraw(&[&["generate"], arguments].concat());
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
    assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains(message), "{}", run.stderr);
}

#[test]
fn beams_find_the_best() {
    let prompt = "Once upon a time";
    let lines = json(&[prompt, "--beams", "4", "-n", "3", "--max-tokens", "20"]);
    let scores: Vec<f64> = lines.iter().map(|line| line["score"].as_f64().expect("a score")).collect();
    assert!(scores.len() == 3 && scores.windows(2).all(|pair| pair[0] >= pair[1]), "{scores:?}");
    // One beam is greedy; the score is the mean logprob.
    let one = json(&[prompt, "--beams", "1", "--max-tokens", "20"]).remove(0);
    let greedy = json(&[prompt, "--temperature", "0", "--max-tokens", "20"]).remove(0);
    assert_eq!((&one["tokens"], &one["finish_reason"]), (&greedy["tokens"], &"length".into()));
    let mean = one["logprob"].as_f64().expect("a number") / 20.0;
    assert!((one["score"].as_f64().expect("a number") - mean).abs() < 1e-12);
    let shown = onedraw(&["generate", prompt, "--beams", "4", "-n", "2", "--max-tokens", "8"]).stdout;
    assert!(shown.starts_with("--- 1: score -") && shown.contains("\n--- 2: score -"), "{shown}");
    let best = onedraw(&["generate", prompt, "--beams", "4", "--max-tokens", "20"]).stdout;
    assert_eq!(best, format!("{prompt}{}\n", text(&lines[0])));
    for style in ["vllm", "gnmt"] {
        assert_eq!(json(&[prompt, "--beams", "3", "--beam-style", style, "--max-tokens", "5"]).len(), 1);
    }
}

#[test]
fn diverse_and_stochastic_beams() {
    let diverse = ["Once upon a time", "--beams", "6", "--diverse", "3", "-n", "6", "--max-tokens", "12"];
    let first = |line: &Value| line["tokens"][1].as_u64().expect("a token");
    let penalised = json(&[&diverse[..], &["--diversity-penalty", "20"]].concat());
    assert_eq!(penalised.len(), 6);
    let mut tokens: Vec<u64> = penalised.iter().map(first).collect();
    tokens.sort_unstable();
    tokens.dedup();
    assert!(tokens.len() >= 3, "{tokens:?}");
    let stochastic =
        ["Once upon a time", "--beams", "5", "--stochastic", "--max-tokens", "12", "--seed", "3"];
    let lines = json(&stochastic);
    assert_eq!(lines.len(), 5);
    let without_time = |lines: Vec<Value>| {
        lines
            .into_iter()
            .map(|mut line| {
                line.as_object_mut().expect("an object").remove("timings").map(|_| line).expect("timings")
            })
            .collect::<Vec<_>>()
    };
    for line in &lines {
        assert_eq!(line["seed"], 3);
        let inclusion = line["inclusion"].as_f64().expect("a number");
        assert!(inclusion > 0.0 && inclusion <= 1.0);
    }
    assert_eq!(without_time(lines), without_time(json(&stochastic)));
}

#[test]
fn constraints_are_kept() {
    let folder = Folder::new();
    let schema = folder.file(
        "schema.json",
        br#"{"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["name", "age"], "additionalProperties": false}"#,
    );
    for seed in ["1", "2", "3"] {
        let line =
            json(&["A dog: ", "--json-schema", &schema, "--seed", seed, "--temperature", "1.5"]).remove(0);
        assert_eq!(line["finish_reason"], "eos");
        let value: Value = serde_json::from_str(text(&line)).expect("JSON");
        assert!(
            value["name"].is_string() && (1..=9).contains(&value["age"].as_i64().expect("an integer")),
            "{value}"
        );
    }
    let line = json(&["Tom has", "--regex", " [0-9]{2} (cats|dogs)", "--seed", "1"]).remove(0);
    assert!(text(&line).ends_with("cats") || text(&line).ends_with("dogs"), "{line}");
    let line =
        json(&["The sky is", "--choice", " blue", "--choice", " green", "--temperature", "0"]).remove(0);
    assert!([" blue", " green"].contains(&text(&line)), "{line}");
    // Every token has an entry of logprobs; what was forced has none.
    let line = json(&["Tom has", "--regex", " [0-9]{2} cats", "--seed", "1", "--logprobs", "0"]).remove(0);
    let entries = line["logprobs"].as_array().expect("logprobs");
    assert_eq!(Some(entries.len()), line["tokens"].as_array().map(Vec::len));
    assert!(entries.iter().any(Value::is_null) && !entries.iter().all(Value::is_null), "{line}");
    let lark = folder.file("greeting.lark", b"start: \"Hello \" NAME \"!\"\nNAME: /[A-Z][a-z]{2,5}/\n");
    let line = json(&["She said: ", "--grammar", &lark, "--seed", "5"]).remove(0);
    assert!(text(&line).starts_with("Hello ") && text(&line).ends_with('!'), "{line}");
    // Beams keep to it too.
    let lines = json(&["The sky is", "--choice", " blue", "--choice", " green", "--beams", "4", "-n", "4"]);
    let mut found: Vec<&str> = lines.iter().map(text).collect();
    found.sort_unstable();
    // A text can be cut into tokens in several ways, each of them a beam.
    found.dedup();
    assert_eq!(found, [" blue", " green"]);
}

#[test]
fn contrast_changes_the_text() {
    let line = ["Once upon a time", "--seed", "4", "--max-tokens", "100"];
    let tokens = |flags: &[&str]| json(&[&line[..], flags].concat()).remove(0)["tokens"].clone();
    let plain = tokens(&[]);
    for flags in [
        &["--contrast"][..],
        &["--contrast", "--beta", "0.5"],
        &["--guidance", "2", "--negative-prompt", "A sad"],
        &["--dola"],
        &["--dola=1,2"],
    ] {
        let found = tokens(flags);
        assert_ne!(found, plain, "{flags:?}");
        assert_eq!(found, tokens(&[flags, &["--threads", "1"]].concat()), "{flags:?}");
    }
    assert_eq!(tokens(&["--guidance", "1", "--negative-prompt", "A sad"]), plain);
    assert_eq!(tokens(&["--contrast", "--alpha", "0", "--beta", "0"]), plain);
    // An expert among what only it finds plausible.
    let drafter = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories-drafters/drafter");
    fails(&["x", &format!("--contrast={drafter}")], "tokenizer.json");
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let folder = Folder::new();
    fails(&["x", "--beams", "0"], "--beams: must be in [1, 4096], not 0");
    fails(&["x", "--beams", "4097"], "--beams: must be at most the vocabulary (4096), not 4097");
    fails(&["x", "--beams", "4", "--diverse", "3"], "--diverse: must divide the beams (4), not 3");
    fails(&["x", "--beams", "2", "-n", "3"], "--n: must be at most the beams (2), not 3");
    fails(&["x", "--stochastic"], "--beams");
    let bad = folder.file("bad.json", b"{\n  \"type\": \"object\",\n}");
    fails(&["x", "--json-schema", &bad], "line 3, column");
    let never = folder.file("never.json", br#"{"type": "integer", "minimum": 5, "maximum": 3}"#);
    fails(&["x", "--json-schema", &never], "--json-schema");
    fails(&["x", "--regex", "(a"], "--regex: ");
    let lark = folder.file("bad.lark", b"start: A\nA: /[/\n");
    fails(&["x", "--grammar", &lark], "--grammar");
    fails(&["x", "--json-schema", "no/such/file"], "no/such/file");
    fails(&["x", "--regex", "a", "--choice", "b"], "cannot be used with");
    fails(&["x", "--alpha", "0.2"], "--contrast");
    fails(&["x", "--contrast", "--alpha", "2"], "--alpha: must be in [0, 1], not 2");
    fails(&["x", "--contrast", "--guidance", "2"], "cannot be used with");
    fails(&["x", "--dola=9"], "layer 9");
    let small = concat!(env!("CARGO_MANIFEST_DIR"), "/../onedraw-lm/tests/transformers/llama-grouped");
    fails(&["x", "--model", small, "--contrast"], "tokenizer");
}

/// What the expert finds implausible can still come where a constraint leaves nothing else.
#[test]
fn a_contrast_goes_with_a_constraint() {
    let choices = ["--choice", " blue", "--choice", " green"];
    for contrast in ["--contrast", "--dola"] {
        for extra in [&[][..], &["--beams", "3"]] {
            let arguments =
                [&["generate", "The sky is", contrast, "--alpha", "0.9", "--seed", "1"], &choices[..], extra];
            let run = onedraw(&arguments.concat());
            assert_eq!(run.code, 0, "{contrast} {extra:?}: {}", run.stderr);
            assert!(
                ["The sky is blue\n", "The sky is green\n"].contains(&run.stdout.as_str()),
                "{}",
                run.stdout
            );
        }
    }
}

#[test]
fn beams_report_no_logprobs_of_tokens() {
    let run = onedraw(&["generate", "Once", "--beams", "2", "--logprobs", "2"]);
    assert_eq!(run.code, 2);
    assert_eq!(run.stderr, "error: --logprobs: beams report the logprob of a whole text alone\n");
}
