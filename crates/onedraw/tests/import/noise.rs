//! Requests as programs write them, with every field they have: only fields with an effect are noted.

use onedraw::import::Source::{self, LlamaCpp};
use serde_json::{Value, json};

use super::{assert_import, imported, notes};

/// The body that SillyTavern sends to llama.cpp for a text completion.
const SILLYTAVERN: &str = r#"{
        "prompt": "[INST] Name three rivers. [/INST]", "model": "mistral-nemo.gguf",
        "max_new_tokens": 350, "max_tokens": 350, "n_predict": 350, "num_predict": 350, "num_ctx": 8192,
        "temperature": 0.9, "top_p": 1, "top_k": 0, "top_a": 0, "tfs": 1, "tfs_z": 1, "typical": 1, "typical_p": 1,
        "min_p": 0.05, "min_tokens": 0, "skew": 0, "nsigma": 0, "top_n_sigma": 0, "min_keep": 0,
        "adaptive_target": -0.01, "adaptive_decay": 0.9, "sampler_seed": -1, "seed": -1,
        "rep_pen": 1.1, "repetition_penalty": 1.1, "repeat_penalty": 1.1, "rep_pen_range": 1024,
        "repetition_penalty_range": 1024, "repeat_last_n": 1024, "frequency_penalty": 0, "presence_penalty": 0,
        "smoothing_factor": 0, "smoothing_curve": 1, "dynatemp_range": 0, "dynatemp_exponent": 1,
        "dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": 0,
        "dry_sequence_breakers": ["\n", ":", "\"", "*"], "xtc_probability": 0, "xtc_threshold": 0.1,
        "mirostat": 0, "mirostat_mode": 0, "mirostat_tau": 5, "mirostat_eta": 0.1,
        "samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "tfs_z", "top_p", "min_p", "adaptive_p", "xtc", "temperature"],
        "guidance_scale": 1, "negative_prompt": "", "grammar": "", "grammar_string": "", "json_schema": null,
        "banned_strings": [], "custom_token_bans": "", "logit_bias": [], "ban_eos_token": false, "ignore_eos": false,
        "stop": ["\n[INST]"], "stopping_strings": ["\n[INST]"], "trim_stop": true,
        "add_bos_token": true, "skip_special_tokens": true, "include_reasoning": true, "truncation_length": 8192,
        "temperature_last": true, "speculative_ngram": false, "max_tokens_second": 0, "n_probs": 10, "logprobs": 10,
        "cache_prompt": true, "stream": true, "api_type": "llamacpp", "api_server": "http://localhost:8080"
}"#;

fn sillytavern() -> Value {
    serde_json::from_str(SILLYTAVERN).unwrap()
}

fn order(stages: &[&str]) -> Value {
    let first = ["allowed", "bad_words", "min_tokens", "logit_bias"];
    json!([&first, stages].concat())
}

#[test]
fn a_body_of_sillytavern() {
    assert_eq!(Source::detect(&sillytavern()), Some(LlamaCpp));
    assert_import(
        LlamaCpp,
        SILLYTAVERN,
        json!({
            "order": "llama.cpp", "temperature": 0.9, "min_p": 0.05, "repetition_penalty": 1.1, "penalty_window": 1024,
            "penalty_scope": "all", "max_tokens": 350, "logprobs": 10, "stop": ["\n[INST]"],
        }),
        &["changed: dry_penalty_last_n: 0 turns DRY off"],
    );
    let mut body = sillytavern();
    body.as_object_mut().unwrap().extend(
        json!({
            "samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"],
            "dry_penalty_last_n": 2048, "smoothing_factor": 0.2, "top_a": 0.1, "min_tokens": 5,
            "banned_strings": ["shivers"], "guidance_scale": 1.5, "adaptive_target": 0.5, "max_new_tokens": 99,
        })
        .as_object()
        .unwrap()
        .clone(),
    );
    assert_import(
        LlamaCpp,
        &body.to_string(),
        json!({
            "order": "llama.cpp", "temperature": 0.9, "min_p": 0.05, "repetition_penalty": 1.1, "penalty_window": 1024,
            "penalty_scope": "all", "max_tokens": 350, "logprobs": 10, "stop": ["\n[INST]"],
            "dry_multiplier": 0.8, "dry_penalty_last_n": 2048,
        }),
        &[
            "lost: dry_sequence_breakers: strings need a tokenizer; give dry_sequence_breakers as token ids",
            "lost: adaptive_target: there is no adaptive-p",
            "lost: banned_strings: is not known to llama.cpp",
            "lost: guidance_scale: is not known to llama.cpp",
            "lost: min_tokens: is not known to llama.cpp",
            "lost: smoothing_factor: is not known to llama.cpp",
            "lost: top_a: is not known to llama.cpp",
        ],
    );
}

/// A name of another server is ignored only if llama.cpp's own name stands beside it.
#[test]
fn an_alias_alone_is_noted() {
    let settings = r#"{"repetition_penalty": 1.2, "max_new_tokens": 5, "n_predict": 5, "top_k": 1, "top_p": 1, "min_p": 0, "temperature": 1}"#;
    assert_eq!(
        notes(&imported(settings, Some(LlamaCpp))),
        ["lost: repetition_penalty: is not known to llama.cpp"]
    );
}

/// The settings that llama.cpp's server reports for a request that had none.
const REPORTED: &str = r#"{
        "seed": 4294967295, "temperature": 0.800000011920929, "dynatemp_range": 0.0, "dynatemp_exponent": 1.0,
        "top_k": 40, "top_p": 0.949999988079071, "min_p": 0.05000000074505806, "top_n_sigma": -1.0,
        "xtc_probability": 0.0, "xtc_threshold": 0.10000000149011612, "typical_p": 1.0, "repeat_last_n": 64,
        "repeat_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "dry_multiplier": 0.0,
        "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": 64,
        "dry_sequence_breakers": ["\n", ":", "\"", "*"], "mirostat": 0, "mirostat_tau": 5.0,
        "mirostat_eta": 0.10000000149011612, "adaptive_target": -1.0, "adaptive_decay": 0.8999999761581421,
        "stop": [], "max_tokens": 128, "n_predict": 128, "n_keep": 0, "n_discard": 0, "ignore_eos": false,
        "stream": false, "logit_bias": [], "n_probs": 0, "min_keep": 0, "grammar": "", "grammar_lazy": true,
        "grammar_triggers": [{"type": 0, "value": "<tool_call>"}], "preserved_tokens": [151657],
        "chat_format": "Content-only", "reasoning_format": "none", "reasoning_in_content": true,
        "thinking_forced_open": true, "generation_prompt": "x",
        "samplers": ["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"],
        "speculative.n_max": 16, "speculative.n_min": 0, "speculative.p_min": 0.75, "speculative.types": "none",
        "timings_per_token": true, "post_sampling_probs": false, "backend_sampling": true,
        "lora": [{"id": 0, "scale": 1.0}]
}"#;

#[test]
fn what_the_server_reports() {
    let mut settings: Value = serde_json::from_str(REPORTED).unwrap();
    assert_eq!(Source::detect(&settings), Some(LlamaCpp));
    assert_import(
        LlamaCpp,
        REPORTED,
        json!({
            "order": "llama.cpp", "temperature": 0.800000011920929, "top_k": 40, "top_p": 0.949999988079071,
            "min_p": 0.05000000074505806, "max_tokens": 128,
        }),
        &[],
    );
    // Defaults that mirostat ignores were not asked for, so they are not noted.
    settings["mirostat"] = json!(2);
    assert_eq!(notes(&imported(&settings.to_string(), Some(LlamaCpp))), Vec::<String>::new());
    // The same holds for the defaults of stages that are left out.
    settings["mirostat"] = json!(0);
    settings["samplers"] = json!(["min_p"]);
    assert_import(
        LlamaCpp,
        &settings.to_string(),
        json!({"order": order(&["min_p"]), "min_p": 0.05000000074505806, "max_tokens": 128}),
        &[],
    );
}
