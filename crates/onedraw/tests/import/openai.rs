//! OpenAI: an example, and one test per rule.

use onedraw::import::Source::OpenAi;
use serde_json::json;

use super::{CONSTRAINT, assert_beside, assert_import};

#[test]
fn the_example() {
    assert_import(
        OpenAi,
        example!("openai.json"),
        json!({
            "temperature": 0.7, "top_p": 0.9, "max_tokens": 256, "presence_penalty": 0.5,
            "logit_bias": {"50256": -100.0, "1734": 2.5}, "logprobs": 3, "seed": 42, "stop": ["\n\n"],
        }),
        &[
            "changed: logit_bias: 100 and -100 are added as they are; bad_words_ids and allowed_token_ids ban for certain",
            &format!("lost: response_format: {CONSTRAINT}"),
        ],
    );
}

#[test]
fn each_rule() {
    let unseeded = "lost: seed: -5 is no seed here; seeds are 0 to 2^64-1";
    assert_beside(
        OpenAi,
        json!({"max_tokens": 9}),
        &[
            (json!({"temperature": 0, "top_p": 1}), json!({"temperature": 0.0}), &[]),
            (json!({"top_p": 0}), json!({"top_p": 0.0}), &[]),
            (
                json!({"max_completion_tokens": 7}),
                json!({"max_tokens": 7}),
                &["changed: max_tokens: has no effect: max_completion_tokens is set and goes first"],
            ),
            (json!({"stop": "END"}), json!({"stop": ["END"]}), &[]),
            (json!({"stop": null, "seed": null, "logit_bias": null}), json!({}), &[]),
            (json!({"logprobs": true}), json!({"logprobs": 0}), &[]),
            (json!({"logprobs": 5}), json!({"logprobs": 5}), &[]),
            (
                json!({"logprobs": false, "top_logprobs": 5}),
                json!({}),
                &["changed: top_logprobs: has no effect: logprobs is not true"],
            ),
            (json!({"logprobs": false, "top_logprobs": 0}), json!({}), &[]),
            (json!({"seed": -5}), json!({}), &[unseeded]),
            (json!({"seed": u64::MAX}), json!({"seed": u64::MAX}), &[]),
            (
                json!({"n": 3, "best_of": 4}),
                json!({"n": 3}),
                &["lost: best_of: all of the n sequences are given, not the best"],
            ),
            (
                json!({"response_format": {"type": "text"}, "tool_choice": "auto", "best_of": 1}),
                json!({}),
                &[],
            ),
            (json!({"user": "x", "stream": true, "tools": [{}], "reasoning_effort": "low"}), json!({}), &[]),
            (json!({"top_k": 5}), json!({}), &["lost: top_k: is not known to openai"]),
            (json!({"a": null, "b": false, "c": "", "d": [], "e": {}}), json!({}), &[]),
            (json!({"a": 0}), json!({}), &["lost: a: is not known to openai"]),
        ],
    );
    // The older completions end after 16 tokens, which is the default here too.
    assert_import(OpenAi, r#"{"prompt": "x"}"#, json!({}), &[]);
    assert_import(OpenAi, r#"{"prompt": ["x"]}"#, json!({}), &[]);
}

#[test]
fn responses() {
    assert_import(
        OpenAi,
        r#"{"model": "gpt-5", "input": "Name three rivers.", "instructions": "Be brief.", "max_output_tokens": 64,
            "temperature": 0.7, "top_p": 0.9, "top_logprobs": 4, "reasoning": {"effort": "low"}, "store": false,
            "text": {"format": {"type": "text"}, "verbosity": "low"}, "truncation": "auto", "background": true,
            "include": ["message.output_text.logprobs"], "previous_response_id": "r", "max_tool_calls": 3}"#,
        json!({"temperature": 0.7, "top_p": 0.9, "max_tokens": 64, "logprobs": 4}),
        &[],
    );
    // Their prompt is the name of a template, and a missing limit means no limit.
    assert_import(
        OpenAi,
        r#"{"prompt": {"id": "p"}, "text": {"format": {"type": "json_schema", "schema": {}}}}"#,
        json!({"max_tokens": u32::MAX}),
        &[
            "changed: max_tokens: absent: no limit but the model's context",
            &format!("lost: text: {CONSTRAINT}"),
        ],
    );
    assert_import(
        OpenAi,
        r#"{"max_completion_tokens": 7, "max_output_tokens": 8, "max_tokens": 7}"#,
        json!({"max_tokens": 7}),
        &["changed: max_output_tokens: has no effect: max_completion_tokens is set and goes first"],
    );
}
