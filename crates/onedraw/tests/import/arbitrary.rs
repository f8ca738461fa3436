//! Any JSON object gives valid parameters or an error, and never a panic.

use onedraw::import::Source::{HuggingFace, LlamaCpp, OpenAi, Vllm};
use onedraw::import::import;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::imported;

const NAMES: &[&str] = &[
    "allowed_token_ids",
    "bad_words",
    "bad_words_ids",
    "best_of",
    "do_sample",
    "dry_allowed_length",
    "dry_base",
    "dry_multiplier",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "dynatemp_exponent",
    "dynatemp_range",
    "eos_token_id",
    "epsilon_cutoff",
    "eta_cutoff",
    "frequency_penalty",
    "grammar",
    "ignore_eos",
    "include_stop_str_in_output",
    "input",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_length",
    "max_new_tokens",
    "max_output_tokens",
    "max_tokens",
    "messages",
    "min_new_tokens",
    "min_p",
    "min_tokens",
    "mirostat",
    "mirostat_eta",
    "mirostat_tau",
    "n",
    "n_cmpl",
    "n_predict",
    "n_probs",
    "no_repeat_ngram_size",
    "num_beams",
    "num_return_sequences",
    "post_sampling_probs",
    "presence_penalty",
    "prompt",
    "prompt_logprobs",
    "repeat_last_n",
    "repeat_penalty",
    "repetition_penalty",
    "response_format",
    "samplers",
    "seed",
    "sequence_bias",
    "stop",
    "stop_strings",
    "stop_token_ids",
    "suppress_tokens",
    "temperature",
    "text",
    "top_k",
    "top_logprobs",
    "top_n_sigma",
    "top_p",
    "typical_p",
    "xtc_probability",
    "xtc_threshold",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => (-2.0..2.0_f64).prop_map(Value::from),
        4 => (-3..100_i64).prop_map(Value::from),
        2 => prop::sample::select(vec![
            json!(0), json!(1), json!(0.5), json!(1e300), json!(-1e300), json!(1e-320), json!(u64::MAX), json!(i64::MIN),
            json!(u32::MAX), json!(4_294_967_296_u64), json!(1e30), json!(-0.0),
        ]),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => prop::sample::select(vec!["", "7", "-1", "(1, 2)", "edskypmxt", "tttttttttttttttttttttttttttttttt", "temperature", "text", "é\n"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[0-9]{1,3}|[a-z(,) ]{0,6}", inner, 0..3)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_object_gives_good_parameters_or_an_error(
        fields in prop::collection::btree_map(prop::sample::select(NAMES).prop_map(str::to_owned), any_value(), 0..8),
        source in prop::sample::select(vec![None, Some(OpenAi), Some(Vllm), Some(LlamaCpp), Some(HuggingFace)]),
    ) {
        let names: Vec<_> = fields.keys().cloned().collect();
        let json = Value::Object(fields.into_iter().collect::<Map<_, _>>()).to_string();
        match import(&json, source) {
            Ok(_) => _ = imported(&json, source),
            Err(error) => {
                let field = error.field().split(['[', '.']).next().unwrap_or_default();
                prop_assert!(field == "source" || names.iter().any(|name| name == field), "{json}: {error}");
            }
        }
    }
}
