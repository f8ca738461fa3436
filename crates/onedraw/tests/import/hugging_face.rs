//! Hugging Face: an example, and one test per rule.

use onedraw::import::Source::HuggingFace;
use serde_json::json;

use super::{assert_beside, assert_import};

#[test]
fn the_example() {
    assert_import(
        HuggingFace,
        example!("generation_config.json"),
        json!({
            "order": "huggingface", "temperature": 0.7, "top_k": 50, "top_p": 0.8, "repetition_penalty": 1.05,
            "no_repeat_ngram_size": 4, "max_tokens": 512, "min_tokens": 4, "eos_token_id": [151_645, 151_643],
            "bad_words_ids": [[7], [9]], "logit_bias": {"15043": 1.5},
        }),
        &[
            "changed: top_k: absent: Hugging Face's default 50",
            "lost: sequence_bias: [13, 198]: only single tokens have a bias here",
            "lost: num_beams: beam search is not set by sampling parameters",
        ],
    );
}

#[test]
fn greedy_drops_what_shapes_a_distribution() {
    let none = |name| format!("changed: {name}: has no effect: do_sample is false");
    assert_import(
        HuggingFace,
        r#"{"do_sample": false, "max_new_tokens": 5, "temperature": 0.7, "top_k": 10, "top_p": 0.5, "min_p": 0.1,
            "typical_p": 0.9, "epsilon_cutoff": 0.01, "eta_cutoff": 0.01, "top_h": 0.5, "repetition_penalty": 1.2}"#,
        json!({"order": "huggingface", "temperature": 0.0, "max_tokens": 5, "repetition_penalty": 1.2}),
        &[
            "changed: do_sample: false is greedy: temperature 0",
            &none("temperature"),
            &none("top_h"),
            &none("top_k"),
            &none("top_p"),
            &none("min_p"),
            &none("typical_p"),
            &none("epsilon_cutoff"),
            &none("eta_cutoff"),
        ],
    );
    // Fields that do nothing, and defaults, which are in every file that was saved with all fields.
    for top_k in [50, 0] {
        let file = json!({
            "do_sample": false, "max_new_tokens": 5, "temperature": 1.0, "top_k": top_k, "top_p": 1.0, "min_p": null,
            "typical_p": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "top_h": null,
        });
        assert_import(
            HuggingFace,
            &file.to_string(),
            json!({"order": "huggingface", "temperature": 0.0, "max_tokens": 5}),
            &["changed: do_sample: false is greedy: temperature 0"],
        );
    }
}

#[test]
fn each_rule() {
    let prompt = "changed: bad_words_ids: a word of several tokens is looked for in the output; Hugging Face looks at the prompt too";
    assert_beside(
        HuggingFace,
        json!({"do_sample": true, "top_k": 0, "max_new_tokens": 9}),
        &[
            (
                json!({"temperature": 1, "top_p": 1.0, "typical_p": 0.9, "epsilon_cutoff": 3e-4, "eta_cutoff": 2e-3}),
                json!({"typical_p": 0.9, "epsilon_cutoff": 3e-4, "eta_cutoff": 2e-3}),
                &[],
            ),
            (
                json!({"temperature": 0, "top_p": 0, "typical_p": 2, "epsilon_cutoff": 1, "eta_cutoff": -1}),
                json!({"temperature": 0.0, "top_p": 0.0}),
                &[
                    "changed: temperature: 0 is greedy; Hugging Face refuses it where do_sample is true",
                    "changed: typical_p: 2 is off, as 1 is",
                    "changed: epsilon_cutoff: 1 is off, as 0 is",
                    "changed: eta_cutoff: -1 is off, as 0 is",
                ],
            ),
            (
                json!({"max_length": 4096}),
                json!({}),
                &["changed: max_length: has no effect: max_new_tokens is set and goes first"],
            ),
            (
                json!({"max_new_tokens": null, "max_length": 4096}),
                json!({"max_tokens": 4096}),
                &[
                    "changed: max_length: counts the prompt too: max_tokens is 4096; take the prompt's length off",
                ],
            ),
            (
                json!({"max_new_tokens": null, "max_length": 20}),
                json!({"max_tokens": 20}),
                &[
                    "changed: max_length: counts the prompt too: max_tokens is 20; take the prompt's length off",
                ],
            ),
            (
                json!({"max_new_tokens": null, "max_length": null}),
                json!({"max_tokens": 20}),
                &["changed: max_new_tokens: absent: Hugging Face's default 20"],
            ),
            (
                json!({"min_new_tokens": 50, "min_length": 5}),
                json!({"min_tokens": 9}),
                &[
                    "changed: min_new_tokens: 50 is past the end; 9 masks EOS up to it",
                    "lost: min_length: counts the prompt, whose length is not known here; give min_tokens",
                ],
            ),
            (json!({"eos_token_id": 2}), json!({"eos_token_id": [2]}), &[]),
            (
                json!({"eos_token_id": [2, -1]}),
                json!({"eos_token_id": [2]}),
                &["changed: eos_token_id: a negative id is no token and ends nothing"],
            ),
            (
                json!({"eos_token_id": 2, "bad_words_ids": [[2], [3], [4, 2]], "suppress_tokens": [2]}),
                json!({"eos_token_id": [2], "bad_words_ids": [[3], [4, 2], [2]]}),
                &[prompt, "changed: bad_words_ids: EOS is not banned, as Hugging Face leaves it"],
            ),
            (
                json!({"sequence_bias": {"(5,)": 1.5, "(5, 6)": 2, "7": -1}}),
                json!({"logit_bias": {"5": 1.5, "7": -1.0}}),
                &[
                    "changed: sequence_bias: Hugging Face refuses this value: it takes a list of [[token ids], number with a point]",
                    "lost: sequence_bias: [5, 6]: only single tokens have a bias here",
                ],
            ),
            (
                json!({"stop_strings": "END", "num_return_sequences": 3}),
                json!({"stop": ["END"], "include_stop_str_in_output": true, "n": 3}),
                &["changed: stop_strings: the stop string stays in the text: include_stop_str_in_output"],
            ),
            (
                json!({"penalty_alpha": 0.6, "guidance_scale": 1.5, "forced_bos_token_id": 0, "renormalize_logits": true}),
                json!({}),
                &[
                    "lost: forced_bos_token_id: tokens are drawn, not forced",
                    "lost: guidance_scale: guidance is not a sampling parameter",
                    "lost: penalty_alpha: contrastive search is not set by sampling parameters",
                    "lost: renormalize_logits: a draw needs no normalised logits, and logprobs always are",
                ],
            ),
            (
                json!({
                    "use_mtp": false, "max_cache_len": 9, "num_beams": 1, "guidance_scale": 1, "length_penalty": 1.0, "num_assistant_tokens": 20, "use_cache": true,
                    "pad_token_id": 0, "_from_model_config": true, "output_scores": true, "cache_implementation": "static",
                }),
                json!({}),
                &[],
            ),
        ],
    );
}
