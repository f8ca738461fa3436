//! Values that are not settings at all are errors.

use onedraw::import::Source::{HuggingFace, LlamaCpp, OpenAi, Vllm};
use onedraw::import::import;

#[test]
fn what_is_no_setting_is_refused_by_its_name_in_the_file() {
    for (source, json, message) in [
        (OpenAi, r#"{"temperature": "warm"}"#, r#"temperature: must be a number, not "warm""#),
        (OpenAi, r#"{"temperature": -1}"#, "temperature: must be in [0, 1000000], not -1"),
        (OpenAi, r#"{"top_p": 1.5}"#, "top_p: must be in [0, 1], not 1.5"),
        (
            OpenAi,
            r#"{"max_completion_tokens": 0}"#,
            "max_completion_tokens: must be a whole number, at least 1, not 0",
        ),
        (OpenAi, r#"{"n": 0}"#, "n: must be a whole number from 1 to 65536, not 0"),
        (OpenAi, r#"{"stop": [1]}"#, "stop: must be a string or a list of strings, not [1]"),
        (OpenAi, r#"{"stop": ["a", ""]}"#, "stop[1]: must not be an empty string"),
        (
            OpenAi,
            r#"{"logit_bias": [[1, 2]]}"#,
            "logit_bias: must be an object of token ids and biases, not [[1,2]]",
        ),
        (OpenAi, r#"{"logit_bias": {"the": 2}}"#, "logit_bias: the key `the` is not a token id"),
        (
            OpenAi,
            r#"{"logit_bias": {"1": 2, "01": 2}}"#,
            "logit_bias: the key `1` names a token that another key names too",
        ),
        (OpenAi, r#"{"logit_bias": {"3": "x"}}"#, r#"logit_bias.3: must be a number, not "x""#),
        (
            OpenAi,
            r#"{"logprobs": true, "top_logprobs": -2}"#,
            "top_logprobs: must be a number of tokens, not -2",
        ),
        (OpenAi, r#"{"seed": 1.5}"#, "seed: must be a whole number, not 1.5"),
        (Vllm, r#"{"top_k": -2}"#, "top_k: must be at least 1, or 0 or -1 for off, not -2"),
        (Vllm, r#"{"top_p": -1}"#, "top_p: must be in [0, 1], not -1"),
        (Vllm, r#"{"min_tokens": 20}"#, "min_tokens: must be at most max_tokens (16), not 20"),
        (
            Vllm,
            r#"{"allowed_token_ids": []}"#,
            "allowed_token_ids: must not be empty; leave it out to allow all",
        ),
        (
            Vllm,
            r#"{"stop_token_ids": [1, -5]}"#,
            "stop_token_ids: must be a token id or a list of token ids, not [1,-5]",
        ),
        (Vllm, r#"{"ignore_eos": 1}"#, "ignore_eos: must be true or false, not 1"),
        (LlamaCpp, r#"{"repeat_penalty": 0}"#, "repeat_penalty: must be above 0, not 0"),
        (
            LlamaCpp,
            r#"{"repeat_penalty": 2, "repeat_last_n": -2}"#,
            "repeat_last_n: must be at least 0, or -1 for all, not -2",
        ),
        (LlamaCpp, r#"{"n_predict": -3}"#, "n_predict: must be at least 0, or -1 for no limit, not -3"),
        (LlamaCpp, r#"{"n": 70000}"#, "n: must be a whole number from 1 to 65536, not 70000"),
        (
            LlamaCpp,
            r#"{"samplers": 7}"#,
            "samplers: must be a list of samplers or a string of letters, not 7",
        ),
        (LlamaCpp, r#"{"logit_bias": 7}"#, "logit_bias: must be a list of [token, bias] or an object, not 7"),
        (
            LlamaCpp,
            r#"{"logit_bias": [[7, 1e300]]}"#,
            "logit_bias.7: must be a finite 32-bit number, not 1e300",
        ),
        (
            LlamaCpp,
            r#"{"temperature": 1e5, "samplers": "ttttttt"}"#,
            "samplers: names temperature 7 times; together they may divide by 1e-30 to 1e30",
        ),
        (HuggingFace, r#"{"do_sample": "yes"}"#, r#"do_sample: must be true or false, not "yes""#),
        (
            HuggingFace,
            r#"{"max_new_tokens": 0}"#,
            "max_new_tokens: must be a whole number, at least 1, not 0",
        ),
        (
            HuggingFace,
            r#"{"num_return_sequences": 0}"#,
            "num_return_sequences: must be a whole number from 1 to 65536, not 0",
        ),
        (
            HuggingFace,
            r#"{"bad_words_ids": [[1], []]}"#,
            "bad_words_ids[1]: must be a list of at least one token id, not []",
        ),
        (
            HuggingFace,
            r#"{"sequence_bias": [[5, 1]]}"#,
            "sequence_bias: must be a list of [[token ids], bias], not [[5,1]]",
        ),
        (
            HuggingFace,
            r#"{"sequence_bias": [[[5], 1e300]]}"#,
            "sequence_bias.5: must be a finite 32-bit number, not 1e300",
        ),
        (HuggingFace, r#"{"stop_strings": ["a", ""]}"#, "stop_strings[1]: must not be an empty string"),
        (
            HuggingFace,
            r#"{"eos_token_id": "</s>"}"#,
            r#"eos_token_id: must be a token id or a list of token ids, not "</s>""#,
        ),
        (HuggingFace, r#"{"do_sample": true, "typical_p": 0}"#, "typical_p: must be in (0, 1], not 0"),
        (OpenAi, "[]", "params: must be a JSON object"),
    ] {
        assert_eq!(import(json, Some(source)).expect_err(json).to_string(), message, "{json}");
    }
    let error = |json: &str| import(json, None).unwrap_err().to_string();
    assert_eq!(
        error(r#"{"top_k": 1, "top_k": 2}"#),
        "params: cannot be read as JSON: the key `top_k` stands twice at line 1 column 24"
    );
    let long = format!(r#"{{"n": {:?}}}"#, "é".repeat(100));
    assert_eq!(error(&long), format!("n: must be a whole number from 1 to 65536, not \"{}…", "é".repeat(59)));
    assert_eq!(error("7"), "params: must be a JSON object");
}
