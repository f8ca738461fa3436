//! vLLM: an example, and one test per rule.

use onedraw::import::Source::Vllm;
use serde_json::json;

use super::{CONSTRAINT, assert_beside, assert_import};

#[test]
fn the_example() {
    assert_import(
        Vllm,
        example!("vllm.json"),
        json!({
            "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.01, "repetition_penalty": 1.05,
            "max_tokens": 1024, "min_tokens": 8, "stop_token_ids": [151_645, 151_643],
            "bad_words": ["lake"],
        }),
        &[&format!("lost: structured_outputs: {CONSTRAINT}")],
    );
}

const ALL: &str = "temperature, top_p, top_k, min_p, repetition_penalty";

fn of_the_model(absent: &str) -> String {
    format!(
        "changed: {absent}: absent: vLLM's server takes what the model's generation_config.json says, where it says anything"
    )
}

#[test]
fn a_request_leaves_to_the_model_what_it_does_not_say() {
    assert_beside(
        Vllm,
        json!({"max_tokens": 9}),
        &[
            (json!({"prompt": "x"}), json!({}), &[&of_the_model(ALL)]),
            (
                json!({"messages": [], "temperature": 0.6, "top_p": 0.95, "top_k": null}),
                json!({"temperature": 0.6, "top_p": 0.95}),
                &[&of_the_model("top_k, min_p, repetition_penalty")],
            ),
            (
                json!({"messages": [], "temperature": 0}),
                json!({"temperature": 0.0}),
                &[&of_the_model("repetition_penalty")],
            ),
            (
                json!({"prompt": "x", "temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1}),
                json!({}),
                &[],
            ),
            // SamplingParams have vLLM's own defaults.
            (json!({"temperature": 0.6}), json!({"temperature": 0.6}), &[]),
        ],
    );
}

#[test]
fn each_rule() {
    let greedy = |name| format!("changed: {name}: has no effect: temperature 0 is greedy");
    let more = |name| {
        format!(
            "changed: {name}: vLLM, unless its --max-logprobs is higher, refuses this value: it takes 0 to 20"
        )
    };
    assert_beside(
        Vllm,
        json!({}),
        &[
            (
                json!({"temperature": 0.001}),
                json!({"temperature": 0.01}),
                &["changed: temperature: vLLM raises 0.001 to 0.01"],
            ),
            (
                json!({"temperature": 0, "top_k": 5, "top_p": 0.5, "min_p": 0.1}),
                json!({"temperature": 0.0}),
                &[&greedy("top_k"), &greedy("top_p"), &greedy("min_p")],
            ),
            (json!({"temperature": 0, "top_k": -1, "top_p": 1}), json!({"temperature": 0.0}), &[]),
            (json!({"top_k": -1}), json!({"top_k": -1}), &[]),
            (
                json!({"messages": []}),
                json!({"max_tokens": u32::MAX}),
                &["changed: max_tokens: absent: no limit but the model's context", &of_the_model(ALL)],
            ),
            (json!({"input": "x", "max_output_tokens": 5}), json!({"max_tokens": 5}), &[&of_the_model(ALL)]),
            (
                json!({"max_tokens": null}),
                json!({"max_tokens": u32::MAX}),
                &["changed: max_tokens: absent: no limit but the model's context"],
            ),
            (
                json!({"logit_bias": {"7": -500, "8": 3}}),
                json!({"logit_bias": {"7": -100.0, "8": 3.0}}),
                &["changed: logit_bias: vLLM's server clamps biases to -100 and 100"],
            ),
            (
                json!({"logprobs": true, "top_logprobs": -1, "prompt_logprobs": true}),
                json!({"logprobs": -1, "prompt_logprobs": 1}),
                &[&more("top_logprobs")],
            ),
            (json!({"prompt_logprobs": 4}), json!({"prompt_logprobs": 4}), &[]),
            (
                json!({"logprobs": 20, "prompt_logprobs": 21}),
                json!({"logprobs": 20, "prompt_logprobs": 21}),
                &[&more("prompt_logprobs")],
            ),
            (
                json!({"allowed_token_ids": [1, 2], "ignore_eos": true, "include_stop_str_in_output": true}),
                json!({"allowed_token_ids": [1, 2], "ignore_eos": true, "include_stop_str_in_output": true}),
                &[],
            ),
            (json!({"seed": -1}), json!({}), &[]),
            (json!({"seed": -2}), json!({}), &["lost: seed: -2 is no seed here; seeds are 0 to 2^64-1"]),
            (
                json!({"use_beam_search": true, "length_penalty": 0.0, "thinking_token_budget": 0}),
                json!({}),
                &[
                    "lost: length_penalty: beam search is not set by sampling parameters",
                    "lost: thinking_token_budget: there is no budget for thinking",
                    "lost: use_beam_search: beam search is not set by sampling parameters",
                ],
            ),
            (
                json!({
                    "use_beam_search": false, "length_penalty": 1.0, "thinking_token_budget": -1, "bad_words": [],
                    "detokenize": true, "output_kind": 2, "flat_logprobs": true, "truncate_prompt_tokens": 100,
                }),
                json!({}),
                &[],
            ),
        ],
    );
}
