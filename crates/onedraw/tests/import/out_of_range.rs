//! Values that the other system refuses but that are valid parameters here: they are carried over with a
//! note.

use onedraw::import::Source::{self, HuggingFace, LlamaCpp, OpenAi, Vllm};
use serde_json::{Value, json};

use super::{assert_beside, imported, notes};

/// Each field is carried over under its name, with a note that gives the reason of the refusal.
fn assert_refused(source: Source, who: &str, base: Value, cases: &[(&str, Value, Value, &str)]) {
    for (field, value, carried, takes) in cases {
        let refused = format!("changed: {field}: {who} refuses this value: it takes {takes}");
        assert_beside(source, base.clone(), &[(json!({ *field: value }), carried.clone(), &[&refused])]);
    }
}

#[test]
fn openai() {
    let base = json!({"max_tokens": 9, "logprobs": true});
    assert_refused(
        OpenAi,
        "OpenAI",
        base.clone(),
        &[
            ("temperature", json!(2.1), json!({"temperature": 2.1}), "0 to 2"),
            ("frequency_penalty", json!(2.5), json!({"frequency_penalty": 2.5}), "-2 to 2"),
            ("presence_penalty", json!(-3), json!({"presence_penalty": -3.0}), "-2 to 2"),
            ("n", json!(129), json!({"n": 129}), "1 to 128"),
            ("logprobs", json!(6), json!({"logprobs": 6}), "0 to 5"),
            ("top_logprobs", json!(21), json!({"logprobs": 21}), "0 to 20"),
            ("top_logprobs", json!(-1), json!({"logprobs": -1}), "0 to 20"),
            (
                "stop",
                json!(["a", "b", "c", "d", "e"]),
                json!({"stop": ["a", "b", "c", "d", "e"]}),
                "at most 4 strings",
            ),
        ],
    );
    assert_beside(
        OpenAi,
        base,
        &[
            (
                json!({
                    "temperature": 2, "top_p": 1, "frequency_penalty": -2, "presence_penalty": 2, "n": 128,
                    "top_logprobs": 20, "stop": ["a", "b", "c", "d"],
                }),
                json!({
                    "temperature": 2.0, "frequency_penalty": -2.0, "presence_penalty": 2.0, "n": 128, "logprobs": 20,
                    "stop": ["a", "b", "c", "d"],
                }),
                &[],
            ),
            (
                json!({"logit_bias": {"7": -101, "8": 5}}),
                json!({"logit_bias": {"7": -101.0, "8": 5.0}}),
                &[
                    "changed: logit_bias: OpenAI refuses this value: it takes -100 to 100",
                    "changed: logit_bias: 100 and -100 are added as they are; bad_words_ids and allowed_token_ids ban for certain",
                ],
            ),
        ],
    );
}

#[test]
fn vllm() {
    assert_refused(
        Vllm,
        "vLLM",
        json!({}),
        &[
            ("top_p", json!(0), json!({"top_p": 0.0}), "a share above 0"),
            ("temperature", json!(2.1), json!({"temperature": 2.1}), "0 to 2"),
            ("frequency_penalty", json!(-2.5), json!({"frequency_penalty": -2.5}), "-2 to 2"),
            ("presence_penalty", json!(3), json!({"presence_penalty": 3.0}), "-2 to 2"),
            ("n", json!(16_385), json!({"n": 16_385}), "1 to 16384"),
        ],
    );
    assert_beside(
        Vllm,
        json!({}),
        &[
            (
                json!({"temperature": 0, "n": 2}),
                json!({"temperature": 0.0, "n": 2}),
                &["changed: n: vLLM refuses this value: with temperature 0 it takes 1"],
            ),
            (json!({"temperature": 0, "n": 1}), json!({"temperature": 0.0}), &[]),
            (
                json!({"temperature": 2, "frequency_penalty": 2, "presence_penalty": -2, "n": 16_384, "logprobs": 0}),
                json!({
                    "temperature": 2.0, "frequency_penalty": 2.0, "presence_penalty": -2.0, "n": 16_384, "logprobs": 0,
                }),
                &[],
            ),
        ],
    );
}

#[test]
fn llama_cpp() {
    let plain = json!({"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0, "n_predict": 9});
    let takes = "a list of at least one string";
    assert_refused(
        LlamaCpp,
        "llama.cpp",
        plain.clone(),
        &[
            ("dry_sequence_breakers", json!([]), json!({}), takes),
            // The form that other servers use.
            ("dry_sequence_breakers", json!("[\"\\n\"]"), json!({}), takes),
        ],
    );
    let mut dry = plain;
    dry["dry_multiplier"] = json!(0.5);
    dry["dry_penalty_last_n"] = json!(64);
    dry["dry_sequence_breakers"] = json!([]);
    let imported = imported(&dry.to_string(), Some(LlamaCpp));
    assert_eq!(
        notes(&imported),
        [
            "changed: dry_sequence_breakers: llama.cpp refuses this value: it takes a list of at least one string"
        ]
    );
    assert_eq!((imported.params.dry_multiplier, imported.params.dry_sequence_breakers), (0.5, vec![]));
}

#[test]
fn hugging_face() {
    let base = json!({"do_sample": true, "top_k": 0, "max_new_tokens": 9});
    assert_refused(
        HuggingFace,
        "Hugging Face",
        base.clone(),
        &[
            ("top_k", json!(-1), json!({"top_k": -1}), "a whole number, at least 0"),
            ("top_k", json!(40.0), json!({"top_k": 40}), "a whole number, at least 0"),
            ("temperature", json!(2), json!({"temperature": 2.0}), "a number with a point"),
            ("repetition_penalty", json!(2), json!({"repetition_penalty": 2.0}), "a number with a point"),
            ("bad_words_ids", json!([]), json!({}), "a list of at least one word"),
            ("sequence_bias", json!([]), json!({}), "a list of [[token ids], number with a point]"),
            (
                "sequence_bias",
                json!([[[5], 1]]),
                json!({"logit_bias": {"5": 1.0}}),
                "a list of [[token ids], number with a point]",
            ),
        ],
    );
    assert_beside(
        HuggingFace,
        base.clone(),
        &[
            (
                json!({"temperature": 2.0, "repetition_penalty": 1, "top_k": 40, "num_return_sequences": 3}),
                json!({"temperature": 2.0, "top_k": 40, "n": 3}),
                &[],
            ),
            (json!({"do_sample": true, "temperature": 1}), json!({}), &[]),
        ],
    );
    let beams = "lost: num_beams: beam search is not set by sampling parameters";
    assert_beside(
        HuggingFace,
        base,
        &[
            (
                json!({"num_beams": 2, "num_return_sequences": 3}),
                json!({"n": 3}),
                &[
                    "changed: num_return_sequences: Hugging Face refuses this value: it takes at most num_beams",
                    beams,
                ],
            ),
            (json!({"num_beams": 3, "num_return_sequences": 3}), json!({"n": 3}), &[beams]),
            (
                json!({"do_sample": false, "num_return_sequences": 2}),
                json!({"temperature": 0.0, "n": 2}),
                &[
                    "changed: do_sample: false is greedy: temperature 0",
                    "changed: num_return_sequences: Hugging Face refuses this value: it takes 1 where do_sample is false",
                ],
            ),
        ],
    );
}
