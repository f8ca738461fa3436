//! What `onedraw params import` prints, and where.

use serde_json::{Value, json};

use crate::support::{Folder, npy, onedraw, onedraw_with_input};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/settings");

/// Bad arguments and files: nothing on standard output, one line on standard error, exit code 2.
fn refused(arguments: &[&str], input: &str) -> String {
    let run = onedraw_with_input(arguments, input.as_bytes());
    assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
    let message = run.stderr.strip_prefix("error: ").and_then(|rest| rest.strip_suffix('\n'));
    let message = message.expect(&run.stderr);
    assert!(!message.contains('\n'), "{message}");
    message.to_owned()
}

#[test]
fn parameters_on_standard_output_and_notes_on_standard_error() {
    let run = onedraw(&["params", "import", &format!("{EXAMPLES}/generation_config.json")]);
    assert_eq!(run.code, 0);
    assert_eq!(
        run.lines_whatever_happened(),
        [json!({
            "order": "huggingface", "temperature": 0.7, "top_k": 50, "top_p": 0.8, "repetition_penalty": 1.05,
            "no_repeat_ngram_size": 4, "max_tokens": 512, "min_tokens": 4, "eos_token_id": [151_645, 151_643],
            "bad_words_ids": [[7], [9]], "logit_bias": {"15043": 1.5},
        })]
    );
    assert_eq!(
        run.stderr,
        "\
changed: top_k: absent: Hugging Face's default 50
lost: sequence_bias: [13, 198]: only single tokens have a bias here
lost: num_beams: beam search is not set by sampling parameters
"
    );
}

#[test]
fn what_is_printed_can_be_sampled_with() {
    let folder = Folder::new();
    let logits = folder.file("x.npy", &npy(&[&[3.0, 2.0, 1.0]]));
    let settings =
        r#"{"temperature": 0.5, "top_k": 0, "top_p": 0.8, "min_p": 0, "n_predict": -1, "seed": 3}"#;
    let imported = onedraw_with_input(&["params", "import", "-"], settings.as_bytes());
    assert_eq!(
        (imported.code, imported.stderr.as_str()),
        (0, "changed: n_predict: no limit: max_tokens 4294967295\n")
    );
    let params = format!("@{}", folder.file("params.json", imported.stdout.as_bytes()));
    let run = onedraw(&["sample", &logits, "--params", &params, "--distribution"]);
    // llama.cpp's top-p comes before its temperature.
    assert_eq!(run.lines()[0]["tokens"], json!([0, 1]));
}

#[test]
fn everything_as_one_object() {
    let run = onedraw_with_input(
        &["params", "import", "-", "--from", "vllm", "--format", "json"],
        br#"{"temperature": 0.5, "wild\nness": 2}"#,
    );
    assert_eq!(
        run.lines(),
        [json!({
            "source": "vllm",
            "params": {"temperature": 0.5},
            "notes": [{"field": "wild\nness", "kind": "lost", "message": "is not known to vllm"}],
        })]
    );
}

#[test]
fn everything_as_tables() {
    let import = |settings: &str| {
        let arguments = ["params", "import", "-", "--from", "vllm", "--format", "table"];
        let run = onedraw_with_input(&arguments, settings.as_bytes());
        assert_eq!((run.code, run.stderr.as_str()), (0, ""));
        run.stdout
    };
    assert_eq!(
        import(r#"{"temperature": 0.001, "stop": "END", "wild\nness": 2}"#),
        r#"source: vllm

parameter    value
stop         ["END"]
temperature  0.01

field        note     message
temperature  changed  vLLM raises 0.001 to 0.01
wild\nness   lost     is not known to vllm
"#
    );
    assert_eq!(import("{}"), "source: vllm\n\nparameter  value\n");
}

#[test]
fn a_note_is_one_line() {
    let run = onedraw_with_input(&["params", "import", "-", "--from", "vllm"], br#"{"wild\nness": 2}"#);
    assert_eq!((run.code, run.stdout.as_str()), (0, "{}\n"));
    assert_eq!(run.stderr, "lost: wild\\nness: is not known to vllm\n");
}

#[test]
fn every_example_is_told_and_read() {
    for (file, source) in [
        ("openai.json", "openai"),
        ("vllm.json", "vllm"),
        ("llama.cpp.json", "llama.cpp"),
        ("generation_config.json", "huggingface"),
    ] {
        let path = format!("{EXAMPLES}/{file}");
        let told = onedraw(&["params", "import", &path, "--format", "json"]);
        assert_eq!(told.lines()[0]["source"], source);
        let named = onedraw(&["params", "import", &path, "--from", source]);
        assert_eq!(serde_json::from_str::<Value>(&named.stdout).expect("JSON"), told.lines()[0]["params"]);
    }
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let folder = Folder::new();
    let file = folder.file("x.json", b"\xef\xbb\xbf{\"prompt\": \"x\", \"temperature\": 0.5}");
    let run = onedraw(&["params", "import", &file]);
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (0, "{\"temperature\":0.5}\n", ""));
}

#[test]
fn bad_arguments_and_files() {
    let import = ["params", "import", "-"];
    // Ollama's.
    assert_eq!(
        refused(&import, r#"{"model": "x", "prompt": "y", "stream": false, "options": {"temperature": 1}}"#),
        "standard input: the fields do not tell whose settings these are; name it with --from: openai, vllm, llama.cpp, huggingface"
    );
    assert_eq!(
        refused(&import, r#"{"temperature": 1, "top_k": 5}"#),
        "standard input: the fields do not tell whose settings these are; name it with --from: openai, vllm, llama.cpp, huggingface"
    );
    assert_eq!(
        refused(&import, r#"{"n_predict": "many"}"#),
        "standard input: n_predict: must be a whole number, not \"many\""
    );
    assert_eq!(refused(&import, "[]"), "standard input: must be a JSON object");
    assert!(refused(&import, "{").starts_with("standard input: cannot be read as JSON: EOF"));
    let folder = Folder::new();
    let file = folder.file("x.json", b"\xff");
    assert_eq!(
        refused(&["params", "import", &file], ""),
        format!("{file}: cannot be read: stream did not contain valid UTF-8")
    );
    let missing = folder.path().join("missing.json");
    let message = refused(&["params", "import", missing.to_str().expect("UTF-8")], "");
    assert!(message.starts_with(&format!("{}: cannot be read: ", missing.display())), "{message}");
    assert_eq!(
        refused(&["params", "import", "-", "--from", "ollama"], ""),
        "invalid value 'ollama' for '--from <SOURCE>' [possible values: openai, vllm, llama.cpp, huggingface]; see onedraw params import --help"
    );
    assert_eq!(
        refused(&["params", "import"], ""),
        "the following required arguments were not provided: <FILE>; see onedraw params import --help"
    );
    assert_eq!(
        refused(&["params"], ""),
        "'onedraw params' requires a subcommand but one was not provided [subcommands: import, help]; see onedraw params --help"
    );
}
