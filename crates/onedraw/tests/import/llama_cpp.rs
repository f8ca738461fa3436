//! llama.cpp's server: an example, and one test per rule.

use onedraw::import::Source::LlamaCpp;
use serde_json::{Value, json};

use super::{CONSTRAINT, assert_beside, assert_import, imported, notes};

#[test]
fn the_example() {
    assert_import(
        LlamaCpp,
        example!("llama.cpp.json"),
        json!({
            "order": ["allowed", "bad_words", "min_tokens", "logit_bias", "penalties", "dry", "temperature", "min_p", "xtc"],
            "temperature": 0.8, "min_p": 0.1, "xtc_probability": 0.5, "max_tokens": 128,
            "repetition_penalty": 1.1, "presence_penalty": 0.2, "penalty_window": 64, "penalty_scope": "all",
            "dry_multiplier": 0.8, "bad_words_ids": [[13]], "logit_bias": {"15043": -1.5},
            "logprobs": 5, "logprobs_mode": "processed_logprobs",
        }),
        &[
            "changed: repeat_last_n: absent: llama.cpp's default 64",
            "changed: dry_penalty_last_n: -1 is the whole context, as in older versions of llama.cpp",
            r#"lost: dry_sequence_breakers: absent: llama.cpp's default "\n", ":", "\"", "*": strings need a tokenizer; give dry_sequence_breakers as token ids"#,
            "changed: top_k: has no effect: samplers leaves its stage out",
            "changed: temperature: absent: llama.cpp's default 0.8",
            "lost: logit_bias: \"lake\": strings need a tokenizer; give token ids",
            "changed: logit_bias: false bans a token: bad_words_ids",
            &format!("lost: grammar: {CONSTRAINT}"),
        ],
    );
}

/// A llama.cpp request without truncations and penalties, which sets every field whose absence makes a note.
fn plain_llama_cpp() -> Value {
    json!({"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "n_predict": 9})
}

#[test]
fn penalties() {
    assert_beside(
        LlamaCpp,
        plain_llama_cpp(),
        &[
            (json!({"repeat_last_n": 0, "repeat_penalty": 1.0}), json!({}), &[]),
            (
                json!({"repeat_last_n": 0, "repeat_penalty": 1.2, "frequency_penalty": 0.5}),
                json!({}),
                &["changed: repeat_last_n: 0 turns the penalties off"],
            ),
            (
                json!({"repeat_last_n": -1, "frequency_penalty": 0.5}),
                json!({"frequency_penalty": 0.5, "penalty_scope": "all"}),
                &["changed: repeat_last_n: -1 is the whole context, as in older versions of llama.cpp"],
            ),
            (
                json!({"repeat_last_n": 256, "repeat_penalty": 1.2}),
                json!({"repetition_penalty": 1.2, "penalty_window": 256, "penalty_scope": "all"}),
                &[],
            ),
            (
                json!({"dry_multiplier": 0.5, "dry_penalty_last_n": 0}),
                json!({}),
                &["changed: dry_penalty_last_n: 0 turns DRY off"],
            ),
            (
                json!({
                    "dry_multiplier": 0.5, "dry_base": 0.5, "dry_allowed_length": 3, "dry_penalty_last_n": 100,
                    "dry_sequence_breakers": ["\n"],
                }),
                json!({"dry_multiplier": 0.5, "dry_allowed_length": 3, "dry_penalty_last_n": 100}),
                &[
                    "changed: dry_base: 0.5 is below 1: llama.cpp's default 1.75",
                    "lost: dry_sequence_breakers: strings need a tokenizer; give dry_sequence_breakers as token ids",
                ],
            ),
            (json!({"dry_multiplier": 0, "dry_base": 2, "dry_sequence_breakers": ["\n"]}), json!({}), &[]),
            (json!({"dry_multiplier": 0, "dry_sequence_breakers": null}), json!({}), &[]),
            (
                json!({"dry_multiplier": -1}),
                json!({}),
                &["lost: dry_multiplier: -1 would reward repetitions; DRY is off"],
            ),
        ],
    );
}

#[test]
fn truncations_and_temperature() {
    let first =
        |name| format!("changed: {name}: keeps the first token alone there, as 0.000000001 does here");
    let taken = |name, from, to| format!("changed: {name}: {from} is taken as {to}, as llama.cpp does");
    assert_beside(
        LlamaCpp,
        plain_llama_cpp(),
        &[
            (json!({"top_k": -7, "typical_p": 1.5, "top_n_sigma": -1}), json!({}), &[]),
            (json!({"top_p": 0}), json!({"top_p": 0.0}), &[]),
            (json!({"top_p": 2}), json!({}), &[&taken("top_p", "2", "1")]),
            (json!({"min_p": -1}), json!({}), &[&taken("min_p", "-1", "0")]),
            (json!({"min_p": 1.5}), json!({"min_p": 1.0}), &[&taken("min_p", "1.5", "1")]),
            (json!({"typical_p": -0.5}), json!({"typical_p": 1e-9}), &[&first("typical_p")]),
            (
                json!({"typical_p": 0.9, "top_n_sigma": 1.5}),
                json!({"typical_p": 0.9, "top_n_sigma": 1.5}),
                &[],
            ),
            (
                json!({"xtc_probability": 2, "xtc_threshold": 0.2}),
                json!({"xtc_probability": 1.0, "xtc_threshold": 0.2}),
                &[&taken("xtc_probability", "2", "1")],
            ),
            (
                json!({"xtc_probability": 0.5, "xtc_threshold": 0.6}),
                json!({}),
                &["changed: xtc_threshold: above 0.5 turns XTC off"],
            ),
            (json!({"xtc_probability": 0, "xtc_threshold": 0.6}), json!({}), &[]),
            (json!({"temperature": -1}), json!({"temperature": 0.0}), &[&taken("temperature", "-1", "0")]),
            (
                json!({"dynatemp_range": 0.5, "dynatemp_exponent": 2}),
                json!({"dynatemp_range": 0.5, "dynatemp_exponent": 2.0}),
                &[],
            ),
            (json!({"dynatemp_range": -0.5, "dynatemp_exponent": 2}), json!({}), &[]),
            (json!({"mirostat_tau": 3, "mirostat_eta": 0.2, "mirostat": 0}), json!({}), &[]),
        ],
    );
}

#[test]
fn mirostat_stands_alone() {
    let none = |name| {
        format!(
            "changed: {name}: has no effect: with mirostat, llama.cpp uses logit_bias and temperature alone"
        )
    };
    assert_import(
        LlamaCpp,
        r#"{"mirostat": 2, "mirostat_tau": 4, "temperature": 0.7, "n_predict": 5, "top_k": 20, "repeat_penalty": 1.1,
            "dynatemp_range": 0.3, "dynatemp_exponent": 2, "samplers": "kt", "logit_bias": {"5": 1}, "top_p": 0.95,
            "min_p": 0, "typical_p": 1, "xtc_probability": 0, "xtc_threshold": 0.2, "dry_multiplier": 0, "dry_base": 2,
            "repeat_last_n": 128, "top_n_sigma": -1}"#,
        json!({
            "order": ["allowed", "bad_words", "min_tokens", "logit_bias", "temperature", "mirostat"],
            "mirostat": 2, "mirostat_tau": 4.0, "temperature": 0.7, "max_tokens": 5, "logit_bias": {"5": 1.0},
        }),
        &[&none("samplers"), &none("dynatemp_range"), &none("repeat_penalty"), &none("top_k")],
    );
    let imported = imported(r#"{"mirostat": 3, "temperature": 1, "n_predict": 5}"#, Some(LlamaCpp));
    assert_eq!(imported.params.mirostat, 2);
    assert_eq!(notes(&imported), ["changed: mirostat: 3 is taken as 2, as llama.cpp does"]);
}

#[test]
fn samplers() {
    let order = |samplers: Value| {
        let mut json = plain_llama_cpp();
        json["samplers"] = samplers;
        let imported = imported(&json.to_string(), Some(LlamaCpp));
        let lost: Vec<_> = notes(&imported).into_iter().filter(|note| note.starts_with("lost")).collect();
        (
            imported
                .params
                .order
                .unwrap()
                .to_string()
                .replace("allowed,bad_words,min_tokens,logit_bias", "…"),
            lost,
        )
    };
    let known = "…,penalties,dry,top_n_sigma,top_k,typical,top_p,min_p,xtc,temperature";
    assert_eq!(order(json!("edskypmxt")), (known.to_owned(), vec![]));
    let names =
        json!(["penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"]);
    assert_eq!(order(names), (known.to_owned(), vec![]));
    assert_eq!(
        order(json!(["typical_p", "temp", "temperature"])),
        ("…,typical,temperature,temperature".to_owned(), vec![])
    );
    assert_eq!(order(json!([])), ("…".to_owned(), vec![]));
    assert_eq!(
        order(json!(["top_k", "adaptive_p", "nonsense", "k"])),
        (
            "…,top_k".to_owned(),
            vec![
                "lost: samplers: `nonsense` is no sampler of llama.cpp's".to_owned(),
                "lost: samplers: `k` is no sampler of llama.cpp's".to_owned(),
            ]
        )
    );
    assert_eq!(
        order(json!("ki?")),
        (
            "…,top_k".to_owned(),
            vec![
                "lost: samplers: there is no infill".to_owned(),
                "lost: samplers: `?` is no sampler of llama.cpp's".to_owned(),
            ]
        )
    );
    // Without its stage the temperature is 1, and there is no note about its default.
    assert_import(
        LlamaCpp,
        r#"{"samplers": ["top_k"], "top_k": 3, "n_predict": 1}"#,
        json!({"order": ["allowed", "bad_words", "min_tokens", "logit_bias", "top_k"], "top_k": 3, "max_tokens": 1}),
        &[],
    );
}

#[test]
fn lengths_seeds_and_reports() {
    let unlimited = "changed: n_predict: no limit: max_tokens 4294967295";
    assert_beside(
        LlamaCpp,
        plain_llama_cpp(),
        &[
            (json!({"n_predict": -1}), json!({"max_tokens": u32::MAX}), &[unlimited]),
            (json!({"n_predict": -2}), json!({"max_tokens": u32::MAX}), &[unlimited]),
            (json!({"n_predict": 0}), json!({"max_tokens": 0}), &[]),
            (
                json!({"max_tokens": 5}),
                json!({}),
                &["changed: max_tokens: has no effect: n_predict is set and goes first"],
            ),
            (json!({"max_tokens": 9}), json!({}), &[]),
            (json!({"n_predict": null, "max_tokens": 5}), json!({"max_tokens": 5}), &[]),
            (json!({"n_predict": null, "max_output_tokens": 5}), json!({"max_tokens": 5}), &[]),
            (json!({"n_cmpl": 4}), json!({"n": 4}), &[]),
            (json!({"seed": -1}), json!({}), &[]),
            (json!({"seed": 4_294_967_295_u32}), json!({}), &[]),
            (json!({"seed": 7}), json!({"seed": 7}), &[]),
            (
                json!({"seed": -2}),
                json!({"seed": 4_294_967_294_u32}),
                &["changed: seed: -2 is taken as 4294967294: llama.cpp's seeds have 32 bits"],
            ),
            (json!({"n_probs": 0, "post_sampling_probs": true}), json!({}), &[]),
            (json!({"n_probs": 3}), json!({"logprobs": 3}), &[]),
            (json!({"n_probs": 3, "logprobs": 3}), json!({"logprobs": 3}), &[]),
            (json!({"n_probs": 3, "logprobs": false}), json!({"logprobs": 3}), &[]),
            (
                json!({"n_probs": 3, "logprobs": true, "top_logprobs": 5}),
                json!({"logprobs": 3}),
                &[
                    "changed: logprobs: has no effect: n_probs is set and goes first",
                    "changed: top_logprobs: has no effect: n_probs is set and goes first",
                ],
            ),
            (json!({"logprobs": true}), json!({"logprobs": 20}), &[]),
            (json!({"logprobs": true, "top_logprobs": 2}), json!({"logprobs": 2}), &[]),
            (
                json!({"stop": ["a", ""]}),
                json!({"stop": ["a"]}),
                &["changed: stop: an empty string stops nothing"],
            ),
            (
                json!({"ignore_eos": true}),
                json!({"ignore_eos": true}),
                &[
                    "changed: ignore_eos: llama.cpp bans the ids that end a text; here generation goes on after them, so ban them with bad_words_ids",
                ],
            ),
            (
                json!({"min_keep": 2, "adaptive_target": 0, "t_max_predict_ms": 500, "tfs_z": 0.9}),
                json!({}),
                &[
                    "lost: adaptive_target: there is no adaptive-p",
                    "lost: min_keep: a truncation may leave a single token",
                    "lost: t_max_predict_ms: there is no limit of time",
                    "lost: tfs_z: a field of older versions of llama.cpp",
                ],
            ),
            (
                json!({"min_keep": 0, "adaptive_target": -1, "adaptive_decay": 0.5, "t_max_predict_ms": -1, "grammar": ""}),
                json!({}),
                &[],
            ),
        ],
    );
}

#[test]
fn biases() {
    assert_beside(
        LlamaCpp,
        plain_llama_cpp(),
        &[
            (
                json!({"logit_bias": {"5": 1.5, "6": false, " hi": 1}}),
                json!({"logit_bias": {"5": 1.5}, "bad_words_ids": [[6]]}),
                &[
                    "lost: logit_bias: \" hi\": strings need a tokenizer; give token ids",
                    "changed: logit_bias: false bans a token: bad_words_ids",
                ],
            ),
            (
                json!({"logit_bias": [[5, 1], [5, 2], [6, true], [-1, 1], 7, [8]]}),
                json!({"logit_bias": {"5": 3.0}}),
                &[
                    "lost: logit_bias: what is not a pair of a token and a bias, as llama.cpp skips it",
                    "lost: logit_bias: 6: true is no bias, and llama.cpp skips it",
                    "lost: logit_bias: -1 is no token id, and llama.cpp skips it",
                ],
            ),
        ],
    );
}
