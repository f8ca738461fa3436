//! `onedraw generate` on a small random model whose tokens are the letters of ASCII.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{onedraw, onedraw_with_input};

/// A folder with weights, letters as tokens, and a chat template.
fn model() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onedraw-lm/tests/transformers/llama-grouped");
    for name in ["config.json", "model.safetensors"] {
        fs::copy(source.join(name), folder.path().join(name)).expect(name);
    }
    // Letters that cannot be printed stand further up in byte-level tokenizers: those below 33 and 127.
    let letter = |byte: u32| match byte {
        33..=126 => byte,
        127 => 256 + 33,
        _ => 256 + byte,
    };
    let vocabulary: serde_json::Map<String, Value> = (0..128)
        .map(|byte| (char::from_u32(letter(byte)).expect("a letter").to_string(), byte.into()))
        .collect();
    let level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let tokenizer = json!({
        "added_tokens": [{"id": 130, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
        "pre_tokenizer": level, "decoder": level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    });
    let write = |name: &str, text: String| fs::write(folder.path().join(name), text).expect(name);
    write("tokenizer.json", tokenizer.to_string());
    let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";
    write("tokenizer_config.json", json!({"chat_template": template}).to_string());
    write(
        "generation_config.json",
        r#"{"eos_token_id": 130, "do_sample": true, "temperature": 0.5, "top_k": 0}"#.to_owned(),
    );
    folder
}

fn name(folder: &TempDir) -> &str {
    folder.path().to_str().expect("a name")
}

#[test]
fn text_is_the_prompt_and_what_follows_it() {
    let folder = model();
    let arguments = ["generate", "--model", name(&folder), "--seed", "7", "--max-tokens", "20"];
    let text = onedraw(&[&arguments[..], &["Hello"]].concat());
    let json = onedraw(&[&arguments[..], &["Hello", "--format", "json"]].concat()).lines().remove(0);
    let expected = format!("Hello{}\n", json["text"].as_str().expect("a text"));
    assert_eq!((text.code, text.stdout, text.stderr.as_str()), (0, expected.clone(), ""));
    assert_eq!(json["seed"], 7);
    assert_eq!(json["tokens"].as_array().map(Vec::len), Some(20));
    assert_eq!(json["finish_reason"], "length");
    assert_eq!(json["timings"]["prompt_tokens"], 5);
    assert_eq!(json["timings"]["output_tokens"], 20);
    // From standard input, without the line end; on any threads and kernel.
    let piped = onedraw_with_input(&arguments, b"Hello\n");
    assert_eq!(piped.stdout, expected);
    for other in [["--threads", "1"], ["--threads", "3"], ["--kernel", "scalar"]] {
        assert_eq!(onedraw(&[&arguments[..], &["Hello"], &other[..]].concat()).stdout, expected, "{other:?}");
    }
}

#[test]
fn several_texts_are_those_of_each_alone_in_the_batch() {
    let folder = model();
    let line = [
        "generate",
        "--model",
        name(&folder),
        "ab",
        "--seed",
        "1",
        "--max-tokens",
        "8",
        "--temperature",
        "1.5",
    ];
    let lines = onedraw(&[&line[..], &["-n", "3", "--format", "json", "--logprobs", "2"]].concat()).lines();
    assert_eq!(lines.len(), 3);
    for (sample, text) in lines.iter().enumerate() {
        assert_eq!(text["sample"], sample);
        let logprobs = text["logprobs"].as_array().expect("logprobs");
        assert_eq!(logprobs.len(), 8);
        assert!(
            logprobs.iter().all(|token| token["logprobs"].as_array().is_some_and(|list| list.len() >= 2))
        );
    }
    assert_ne!(lines[0]["tokens"], lines[1]["tokens"]);
    // The first of several is the only one of one.
    let alone = onedraw(&[&line[..], &["--format", "json"]].concat()).lines().remove(0);
    assert_eq!(alone["tokens"], lines[0]["tokens"]);
    let shown = onedraw(&[&line[..], &["-n", "2"]].concat()).stdout;
    assert!(shown.starts_with("--- 1 ---\nab") && shown.contains("--- 2 ---\nab"), "{shown}");
}

#[test]
fn a_chat_is_written_as_the_template_says() {
    let folder = model();
    let flags = ["--max-tokens", "6", "--temperature", "0", "--format", "json"];
    let chat = ["generate", "--model", name(&folder), "Hi", "--chat", "--system", "Be kind"];
    let plain = ["generate", "--model", name(&folder), "system: Be kind\nuser: Hi\nassistant:"];
    let tokens = |line: &[&str]| onedraw(&[line, &flags[..]].concat()).lines().remove(0)["tokens"].clone();
    assert_eq!(tokens(&chat), tokens(&plain));
}

#[test]
fn what_cannot_be_done_is_said_in_one_line() {
    let folder = model();
    let fails = |arguments: &[&str], message: &str| {
        let run = onedraw(&[&["generate", "--model", name(&folder)], arguments].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        assert!(run.stderr.contains(message), "{}", run.stderr);
    };
    fails(&["x", "--top-p", "2"], "--top-p: must be in [0, 1], not 2");
    fails(&["x", "--preset", "wild"], "invalid value 'wild'");
    fails(&["x", "--kernel", "fast"], "fast");
    fails(&[&"x".repeat(129)], "the prompt has 129 tokens, more than the model's context of 128");
    fails(&[""], "the prompt is empty");
    fails(&["x", "--logit-bias", r#"{"131": 1}"#], "131");
    fs::remove_file(folder.path().join("tokenizer_config.json")).expect("the file");
    fails(&["x", "--chat"], "has no chat template");
    fs::write(folder.path().join("tokenizer.json"), "{").expect("the file");
    fails(&["x"], "tokenizer.json");
    fs::remove_file(folder.path().join("config.json")).expect("the file");
    fails(&["x"], "config.json");
}

/// The model has letters of ASCII alone; `<end>` is the name of a token.
#[test]
fn a_stop_string_that_cannot_match_is_told() {
    let folder = model();
    let line = ["generate", "--model", name(&folder), "ab", "--seed", "1", "--max-tokens", "3"];
    let run = onedraw(&[&line[..], &["--stop", "é", "--stop", "<end>", "--stop", r"\n"]].concat());
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (0, "note: the stop string \"é\" can never match: the model has no token for a part of it\n")
    );
}

/// What of the model's own settings could not be taken over is told, and a length that counts the prompt is
/// counted so.
#[test]
fn the_models_settings_are_told() {
    let folder = model();
    let settings =
        r#"{"eos_token_id": 130, "num_beams": 4, "temperature": 0.6, "top_k": 0, "max_length": 9}"#;
    fs::write(folder.path().join("generation_config.json"), settings).expect("written");
    let run = onedraw(&["generate", "--model", name(&folder), "Hello", "--format", "json", "--ignore-eos"]);
    assert_eq!(run.lines_whatever_happened()[0]["tokens"].as_array().map(Vec::len), Some(4));
    let notes: Vec<&str> = run.stderr.lines().collect();
    assert!(notes.iter().all(|note| note.starts_with("note: generation_config.json: ")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("num_beams")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("do_sample")), "{notes:?}");
    let longer = [
        "generate",
        "--model",
        name(&folder),
        "Hello",
        "--format",
        "json",
        "--ignore-eos",
        "--max-tokens",
        "7",
    ];
    assert_eq!(onedraw(&longer).lines_whatever_happened()[0]["tokens"].as_array().map(Vec::len), Some(7));
}
