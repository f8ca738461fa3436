//! `onedraw generate --trace` and `onedraw audit`.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Folder, onedraw, repository};

/// The trace that `generate` writes with these arguments.
fn trace(folder: &Folder, arguments: &[&str]) -> String {
    let path = folder.path().join("t.jsonl");
    let path = path.to_str().expect("a name").to_owned();
    let line = [&["generate", "Once upon a time", "--trace", &path][..], arguments].concat();
    let run = onedraw(&line);
    assert_eq!(run.code, 0, "{}", run.stderr);
    path
}

/// The lines of JSON that an audit gives, and the exit code.
fn audit(path: &str, arguments: &[&str]) -> (Vec<Value>, i32) {
    let run = onedraw(&[&["audit", path, "--format", "json"][..], arguments].concat());
    let lines = run.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    (lines, run.code)
}

fn lines(path: &str) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("the trace");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn write(folder: &Folder, lines: &[Value]) -> String {
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    folder.file("changed.jsonl", text.join("\n").as_bytes())
}

#[test]
fn a_text_passes_its_audit_and_a_changed_temperature_does_not() {
    let folder = Folder::new();
    let path = trace(&folder, &["--seed", "7"]);
    let run = onedraw(&["audit", &path]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(
        run.stdout.starts_with("line 1: same model and sampler; 159 of 159 tokens equal\n"),
        "{}",
        run.stdout
    );
    let (out, code) = audit(&path, &[]);
    assert_eq!(code, 0);
    assert_eq!(
        out,
        [json!({
            "line": 1, "tokens": 159, "equal": 159, "verdict": "same", "positions": [], "chance": 1.0,
            "false_alarms": 0.01, "gaps": [], "outside": 0, "forced": 0,
        })]
    );

    let mut line = lines(&path).remove(0);
    line["params"]["temperature"] = json!(0.8);
    let path = write(&folder, &[line]);
    let page = folder.path().join("page.html");
    let run = onedraw(&["audit", &path, "--html", page.to_str().expect("a name")]);
    assert_eq!(run.code, 1);
    let expected = "line 1: something else; 153 of 159 tokens equal; the others are away, in logits, below 0.01: 1, below 0.1: 4, below 0.5: 1\n";
    assert!(run.stdout.starts_with(expected), "{}", run.stdout);
    assert!(run.stdout.contains("with temperature 0.7, 159 of 159 tokens are equal"), "{}", run.stdout);
    let (out, code) = audit(&path, &[]);
    assert_eq!((code, &out[0]["verdict"], &out[0]["equal"]), (1, &json!("other"), &json!(153)));
    let positions = out[0]["positions"].as_array().expect("positions");
    assert!(!positions.is_empty());
    let differ: Vec<&Value> =
        out[0]["gaps"].as_array().expect("gaps").iter().map(|gap| &gap["position"]).collect();
    assert!(positions.iter().all(|position| differ.contains(&position)));
    let diagnosis = &out[0]["diagnosis"];
    assert_eq!((&diagnosis["parameter"], &diagnosis["value"]), (&json!("temperature"), &json!(0.7)));
    assert_eq!(diagnosis["equal"], 159);
    let page = fs::read_to_string(page).expect("a page");
    assert_eq!(page.matches("is drawn, ahead by").count(), 6);
    assert!(page.contains("Line 1: something else; 153 of 159 tokens equal"));
    assert!(page.contains("at most 5 of 100 tokens differ at all, and 0.7 of 100 by 0.1 or more"));
}

#[test]
fn lines_are_appended_one_for_each_text() {
    let folder = Folder::new();
    trace(&folder, &["--seed", "1", "--n", "3", "--max-tokens", "20"]);
    let path =
        trace(&folder, &["--max-tokens", "5", "--kept", "summary", "--logprobs", "1", "--format", "json"]);
    let lines = lines(&path);
    let sequences: Vec<&Value> = lines.iter().map(|line| &line["sequence"]).collect();
    assert_eq!(sequences, [0, 1, 2, 0]);
    assert!(lines[3]["params"]["seed"].is_u64(), "a seed of the system is in the trace");
    assert_eq!(lines[3]["kept"].as_array().map(Vec::len), Some(5));
    assert_eq!(lines[3]["logprobs"].as_array().map(Vec::len), Some(5));
    let (out, code) = audit(&path, &[]);
    assert_eq!((out.len(), code), (4, 0));
    assert!(out.iter().all(|line| line["verdict"] == "same"));
}

#[test]
fn what_else_tokens_depend_on_is_in_the_trace() {
    let ways: [&[&str]; 8] = [
        &["--regex", "[A-Z][a-z ]{10,40}\\. The end\\.", "--seed", "3"],
        &["--choice", " a cat", "--choice", " a dog and a bird", "--seed", "2"],
        &["--regex", "( [a-z]{1,9}){20}", "--banned-strings", " the", "--banned-strings", "a", "--seed", "5"],
        &["--banned-strings", " was", "--banned-strings", " little", "--seed", "4", "--temperature", "1.5"],
        &["--guidance", "1.5", "--negative-prompt", "The dog", "--seed", "6", "--max-tokens", "40"],
        &["--dola=2,3", "--seed", "6", "--max-tokens", "40"],
        &["--contrast", "--alpha", "0.2", "--seed", "6", "--max-tokens", "40"],
        &["--contrast", "--beta", "0.5", "--seed", "8", "--max-tokens", "40"],
    ];
    for arguments in ways {
        let folder = Folder::new();
        let path = trace(&folder, arguments);
        let (out, code) = audit(&path, &[]);
        assert_eq!((code, &out[0]["verdict"]), (0, &json!("same")), "{arguments:?}: {}", out[0]);
        assert!(out[0]["tokens"].as_u64() > Some(0), "{arguments:?}");
    }
    let folder = Folder::new();
    let path = trace(&folder, ways[0]);
    let mut line = lines(&path).remove(0);
    assert!(line["forced"].as_array().is_some_and(|forced| forced.len() >= 3), "{line}");
    let (out, _) = audit(&path, &[]);
    assert_eq!(out[0]["forced"], line["forced"].as_array().expect("places").len());
    // A token that was drawn cannot be passed off as forced.
    let mut hidden = line.clone();
    let drawn =
        (0..).find(|place| !line["forced"].as_array().is_some_and(|forced| forced.contains(&json!(place))));
    let place = drawn.expect("one was drawn");
    hidden["forced"].as_array_mut().expect("places").push(json!(place));
    let (out, code) = audit(&write(&folder, &[hidden]), &[]);
    let expected = format!("output token {place} is marked as forced, and the constraint does not force it");
    assert_eq!((code, &out[0]["error"]), (1, &json!(expected)));
    // Another grammar: the text leaves it.
    line["constraint"] = json!({"kind": "regex", "text": "[0-9]+", "eos_token_ids": [0]});
    let (out, code) = audit(&write(&folder, &[line.clone()]), &[]);
    assert_eq!((code, &out[0]["verdict"], out[0]["left_constraint"].is_u64()), (1, &json!("other"), true));
    line["constraint"] = json!({"kind": "regex", "text": "[", "eos_token_ids": [0]});
    let (out, code) = audit(&write(&folder, &[line]), &[]);
    assert_eq!(code, 1);
    assert!(out[0]["error"].as_str().is_some_and(|error| error.starts_with("`constraint`: ")), "{}", out[0]);
}

#[test]
fn texts_that_cannot_be_drawn_again_are_marked() {
    let schema = fs::read_to_string(repository().join("docs/src/trace.schema.json")).expect("the schema");
    let schema = serde_json::from_str(&schema).expect("JSON");
    let schema = jsonschema::validator_for(&schema).expect("a schema");
    for (arguments, why) in [
        (&["--beams", "2", "--max-tokens", "8"][..], "beams"),
        (&["--beams", "2", "--max-tokens", "8", "--regex", " [a-z ]+"], "beams"),
        (&["--draft", "--verify", "rejection", "--seed", "1", "--max-tokens", "20"], "rejection"),
        (&["--draft", "--verify", "typical", "--seed", "1", "--max-tokens", "20"], "typical"),
    ] {
        let folder = Folder::new();
        let path = trace(&folder, arguments);
        let (out, code) = audit(&path, &[]);
        assert_eq!((code, &out[0]["verdict"], &out[0]["not_replayable"]), (0, &Value::Null, &json!(why)));
        let run = onedraw(&["audit", &path]);
        let expected = format!("line 1: not checked: cannot be drawn again ({why}); ");
        assert!(run.stdout.starts_with(&expected), "{}", run.stdout);
        assert_eq!((&out[0]["equal"], &out[0]["positions"]), (&Value::Null, &json!([])));
        schema.validate(&lines(&path)[0]).expect("the line keeps to the schema");
        let counted = "1 line: 0 same, 0 arithmetic, 0 other, 1 not checked, 0 bad; false-alarm rate 0.01\n";
        assert!(run.stdout.contains(counted), "{}", run.stdout);
    }
    // Nor is a text without tokens the same as anything.
    let folder = Folder::new();
    let path = trace(&folder, &["--seed", "1", "--max-tokens", "0"]);
    let (out, code) = audit(&path, &[]);
    assert_eq!((code, &out[0]["verdict"], &out[0]["tokens"]), (0, &Value::Null, &json!(0)));
    let run = onedraw(&["audit", &path]);
    assert!(run.stdout.starts_with("line 1: not checked: no token was drawn; 0 of 0"), "{}", run.stdout);
}

#[test]
fn bad_lines_are_named_and_good_ones_audited() {
    let folder = Folder::new();
    let path = trace(&folder, &["--seed", "7", "--max-tokens", "12"]);
    let good = lines(&path).remove(0);
    let with = |pointer: &str, value: Value| {
        let mut line = good.clone();
        match line.pointer_mut(pointer) {
            Some(place) => *place = value,
            None => panic!("{pointer}"),
        }
        line
    };
    let mut unknown = good.clone();
    unknown["params"]["temprature"] = json!(1.0);
    let cases = [
        (with("/stream_version", json!(2)), "`stream_version` is 2; this program knows 1"),
        (with("/version", json!(9)), "`version` is 9; this program knows 1"),
        (
            with("/model", json!("0".repeat(64))),
            "was written with another model: its weights have the SHA-256 000000000000…",
        ),
        (
            with("/tokenizer", json!("1".repeat(64))),
            "was written with another tokenizer: its SHA-256 is 111111111111…",
        ),
        (with("/output_token_ids/3", json!(99999)), "token 99999 is outside the vocabulary of 4096"),
        (with("/prompt_token_ids/0", json!(4096)), "token 4096 is outside the vocabulary of 4096"),
        (unknown, "`params`: temprature: unknown field `temprature`; did you mean `temperature`?"),
        (with("/params/top_p", json!(3)), "`params`: top_p: "),
        (with("/params/logit_bias", json!({"9999": 1.0})), "output token 0: logit_bias"),
        (with("/finish_reason", json!("eos")), "`finish_reason` is `eos`, and the text ends by `length`"),
    ];
    let mut text = String::new();
    for (line, _) in &cases {
        text += &format!("{line}\n");
    }
    // Cut in the middle, no JSON at all, and a good one at the end.
    text += &good.to_string()[..200];
    text += &format!("\nhello\n{good}\n");
    let path = folder.file("bad.jsonl", text.as_bytes());
    let (out, code) = audit(&path, &[]);
    assert_eq!((code, out.len()), (1, cases.len() + 3));
    for (number, (line, (_, expected))) in out.iter().zip(&cases).enumerate() {
        let error = line["error"].as_str().unwrap_or_default();
        assert_eq!(line["line"], number + 1);
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(out[cases.len()]["error"].as_str().is_some_and(|error| error.starts_with("is not JSON: EOF")));
    assert!(
        out[cases.len() + 1]["error"]
            .as_str()
            .is_some_and(|error| error.starts_with("is not JSON: expected"))
    );
    assert_eq!(out[cases.len() + 2]["verdict"], "same");
    // Weights of any hash are audited where that is asked for.
    let (out, code) = audit(&write(&folder, &[with("/model", json!("0".repeat(64)))]), &["--any-model"]);
    assert_eq!((code, &out[0]["verdict"]), (0, &json!("same")));
}

#[test]
fn files_that_cannot_be_read_are_bad_input() {
    let folder = Folder::new();
    let name = folder.path().to_str().expect("a name");
    for (arguments, expected) in [
        (vec!["audit", "nowhere.jsonl"], "error: nowhere.jsonl: No such file"),
        (vec!["audit", name], "cannot be read"),
        (vec!["audit", "-", "--model", name], "error: "),
        (vec!["audit", "-", "--false-alarms", "2"], "must be above 0 and below 1, not 2"),
        (vec!["audit", "-", "--false-alarms", "x"], "invalid float literal"),
        (vec!["generate", "x", "--trace", name], "--trace "),
    ] {
        let run = onedraw(&arguments);
        assert_eq!(run.code, 2, "{arguments:?}");
        assert!(run.stderr.contains(expected) && run.stderr.lines().count() == 1, "{}", run.stderr);
    }
    let empty = folder.file("empty.jsonl", b"");
    let run = onedraw(&["audit", &empty]);
    assert_eq!(
        (run.code, run.stdout.lines().next()),
        (0, Some("0 lines: 0 same, 0 arithmetic, 0 other, 0 not checked, 0 bad; false-alarm rate 0.01"))
    );
}

/// What the page of the book shows is what the program prints.
#[test]
fn the_page_shows_what_the_program_prints() {
    let page = fs::read_to_string(repository().join("docs/src/audit.md")).expect("the page");
    let shown: Vec<&str> =
        page.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let folder = Folder::new();
    let path = trace(&folder, &["--seed", "7"]);
    assert_eq!(onedraw(&["audit", &path]).stdout, shown[0]);
    let mut line = lines(&path).remove(0);
    line["params"]["temperature"] = json!(0.8);
    assert_eq!(onedraw(&["audit", &write(&folder, &[line])]).stdout, shown[1]);
}
