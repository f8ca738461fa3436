//! generation_config.json of well-known models.

use std::fs;

use onedraw::SamplingParams;
use onedraw_lm::{GenerationConfig, ModelError};
use serde_json::json;
use tempfile::TempDir;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn opened(files: &[(&str, &str)]) -> Result<GenerationConfig, ModelError> {
    GenerationConfig::open(folder(files).path())
}

/// Of a generation_config.json.
fn read(text: &str) -> GenerationConfig {
    let config = opened(&[("generation_config.json", text)]).unwrap();
    // Whatever they are, they are parameters.
    SamplingParams::from_json(&serde_json::to_string(&config.params).unwrap()).unwrap();
    config
}

#[test]
fn llama_3_2_instruct() {
    let config = read(
        r#"{
          "bos_token_id": 128000,
          "do_sample": true,
          "eos_token_id": [128001, 128008, 128009],
          "temperature": 0.6,
          "top_p": 0.9,
          "transformers_version": "4.45.0.dev0"
        }"#,
    );
    assert_eq!(config.eos_token_ids, [128_001, 128_008, 128_009]);
    let params = json!({"order": "huggingface", "temperature": 0.6, "top_k": 50, "top_p": 0.9});
    assert_eq!(json!(config.params), params);
    assert_eq!(config.notes, ["changed: top_k: absent: Hugging Face's default 50"]);
}

#[test]
fn qwen_2_5_instruct() {
    let config = read(
        r#"{
          "bos_token_id": 151643,
          "pad_token_id": 151643,
          "do_sample": true,
          "eos_token_id": [151645, 151643],
          "repetition_penalty": 1.1,
          "temperature": 0.7,
          "top_p": 0.8,
          "top_k": 20,
          "transformers_version": "4.37.0"
        }"#,
    );
    assert_eq!(config.eos_token_ids, [151_645, 151_643]);
    let params = json!({"order": "huggingface", "repetition_penalty": 1.1, "temperature": 0.7, "top_k": 20, "top_p": 0.8});
    assert_eq!(json!(config.params), params);
    assert_eq!(config.notes, [""; 0]);
}

#[test]
fn qwen_2_5_base() {
    let config = read(
        r#"{"bos_token_id": 151643, "do_sample": false, "eos_token_id": 151643, "max_new_tokens": 2048,
            "transformers_version": "4.37.0"}"#,
    );
    assert_eq!(config.eos_token_ids, [151_643]);
    assert_eq!(json!(config.params), json!({"order": "huggingface", "max_tokens": 2048, "temperature": 0.0}));
    assert_eq!(config.notes, ["changed: do_sample: false is greedy: temperature 0"]);
}

#[test]
fn smollm_2_instruct_says_nothing_on_sampling() {
    let config = read(
        r#"{
          "_from_model_config": true,
          "bos_token_id": 1,
          "eos_token_id": 2,
          "pad_token_id": 2,
          "transformers_version": "4.42.3"
        }"#,
    );
    assert_eq!(config, GenerationConfig { eos_token_ids: vec![2], ..GenerationConfig::default() });
}

#[test]
fn a_length_alone_does_not_say_greedy() {
    let config = read(r#"{"eos_token_id": 2, "max_length": 2048, "repetition_penalty": 1.2}"#);
    assert_eq!(json!(config.params), json!({"repetition_penalty": 1.2}));
    assert_eq!((config.max_length, config.notes), (Some(2048), Vec::new()));
    let config = read(r#"{"max_length": 2048, "max_new_tokens": 7}"#);
    assert_eq!((json!(config.params), config.max_length), (json!({"max_tokens": 7}), None));
}

#[test]
fn a_temperature_without_do_sample_is_greedy_and_told() {
    let config = read(r#"{"temperature": 0.6, "num_beams": 4}"#);
    assert_eq!(json!(config.params), json!({"order": "huggingface", "temperature": 0.0}));
    assert_eq!(
        config.notes,
        [
            "changed: do_sample: absent: Hugging Face's default false is greedy: temperature 0",
            "changed: temperature: has no effect: do_sample is false",
            "lost: num_beams: beam search is not set by sampling parameters",
        ]
    );
}

#[test]
fn the_end_may_stand_in_config_json() {
    assert_eq!(opened(&[]).unwrap(), GenerationConfig::default());
    let ids = |files: &[(&str, &str)]| opened(files).unwrap().eos_token_ids;
    assert_eq!(ids(&[("config.json", r#"{"model_type": "llama", "eos_token_id": 2}"#)]), [2]);
    assert_eq!(ids(&[("config.json", r#"{"eos_token_id": [2, 7]}"#)]), [2, 7]);
    assert_eq!(ids(&[("config.json", r#"{"eos_token_id": null}"#)]), [0; 0]);
    assert_eq!(ids(&[("config.json", "{}")]), [0; 0]);
    let config = ("config.json", r#"{"eos_token_id": 2}"#);
    assert_eq!(ids(&[("generation_config.json", r#"{"eos_token_id": 3}"#), config]), [3]);
    assert_eq!(ids(&[("generation_config.json", "\u{feff}{}"), config]), [2]);
}

#[test]
fn bad_files_are_errors_that_name_them() {
    for (file, text, expected) in [
        ("generation_config.json", "{", "EOF while parsing"),
        ("generation_config.json", "[]", "invalid type: sequence"),
        (
            "generation_config.json",
            r#"{"eos_token_id": "two"}"#,
            "eos_token_id: must be a token id or a list of token ids",
        ),
        (
            "generation_config.json",
            r#"{"do_sample": true, "temperature": "hot"}"#,
            "temperature: must be a number",
        ),
        ("generation_config.json", r#"{"do_sample": true, "temperature": -1}"#, "temperature"),
        ("generation_config.json", r#"{"top_k": 1, "top_k": 2}"#, "the key `top_k` stands twice"),
        ("config.json", "nothing", "expected ident"),
        ("config.json", r#"{"eos_token_id": {}}"#, "eos_token_id: must be a token id or a list of token ids"),
    ] {
        let error = opened(&[(file, text)]).unwrap_err();
        assert!(matches!(&error, ModelError::Malformed { path, .. } if path.ends_with(file)), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    // A folder in place of a file.
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("generation_config.json")).unwrap();
    assert!(matches!(GenerationConfig::open(folder.path()), Err(ModelError::File { .. })));
}
