//! Contract C4: a bad parameter is a clear error that names the field and what is allowed.

use onedraw::{LogprobsMode, Order, PenaltyScope, Sampler, SamplingParams};

fn error(json: &str) -> String {
    SamplingParams::from_json(json).expect_err(json).to_string()
}

#[test]
fn each_rule_names_its_field() {
    for (json, message) in [
        (r#"{"temperature": -0.1}"#, "temperature: must be in [0, 1000000], not -0.1"),
        (r#"{"temperature": 1000001}"#, "temperature: must be in [0, 1000000], not 1000001"),
        (r#"{"top_k": -2}"#, "top_k: must be at least 1, or 0 or -1 for off, not -2"),
        (r#"{"top_p": -0.5}"#, "top_p: must be in [0, 1], not -0.5"),
        (r#"{"top_p": 1.5}"#, "top_p: must be in [0, 1], not 1.5"),
        (r#"{"min_p": -0.5}"#, "min_p: must be in [0, 1], not -0.5"),
        (r#"{"min_p": 1.01}"#, "min_p: must be in [0, 1], not 1.01"),
        (r#"{"repetition_penalty": 0}"#, "repetition_penalty: must be above 0, not 0"),
        (r#"{"repetition_penalty": -1}"#, "repetition_penalty: must be above 0, not -1"),
        (r#"{"repetition_penalty": 1e39}"#, "repetition_penalty: must be a finite 32-bit number, not 1e39"),
        (r#"{"frequency_penalty": 1e300}"#, "frequency_penalty: must be a finite 32-bit number, not 1e300"),
        (r#"{"presence_penalty": -1e300}"#, "presence_penalty: must be a finite 32-bit number, not -1e300"),
        (r#"{"logit_bias": {"7": 1e39}}"#, "logit_bias.7: must be a finite 32-bit number, not 1e39"),
        (r#"{"allowed_token_ids": []}"#, "allowed_token_ids: must not be empty; leave it out to allow all"),
        (r#"{"bad_words_ids": [[1], []]}"#, "bad_words_ids[1]: must hold at least one token id"),
        (r#"{"max_tokens": 0, "min_tokens": 1}"#, "min_tokens: must be at most max_tokens (0), not 1"),
        (r#"{"bad_words": ["a", ""]}"#, "bad_words[1]: must not be an empty string"),
        (r#"{"min_tokens": 17}"#, "min_tokens: must be at most max_tokens (16), not 17"),
        (r#"{"stop": ["a", ""]}"#, "stop[1]: must not be an empty string"),
        (r#"{"stop": ""}"#, "stop[0]: must not be an empty string"),
        (r#"{"banned_strings": [""]}"#, "banned_strings[0]: must not be an empty string"),
        (r#"{"n": 0}"#, "n: must be in [1, 65536], not 0"),
        (r#"{"n": 65537}"#, "n: must be in [1, 65536], not 65537"),
        (r#"{"logprobs": -2}"#, "logprobs: must be at least 0, or -1 for all, not -2"),
        (r#"{"prompt_logprobs": -3}"#, "prompt_logprobs: must be at least 0, or -1 for all, not -3"),
        (r#"{"seed": -2}"#, "seed: must be 0 to 2^64-1, or -1, not -2"),
        (r#"{"seed": 1.5}"#, "seed: expected 0 to 2^64-1, or -1 or null for a seed from the system"),
        (r#"{"temperature": "warm"}"#, "temperature: invalid type: string \"warm\", expected a number"),
        (
            r#"{"penalty_scope": "prompt"}"#,
            "penalty_scope: unknown variant `prompt`, expected `output` or `all`",
        ),
        (
            r#"{"stop_token_ids": [1, -5]}"#,
            "stop_token_ids[1]: invalid value: integer `-5`, expected a whole number from 0 to 4294967295",
        ),
        (r#"{"eos_token_id": -5}"#, "eos_token_id: expected a token id or a list of token ids"),
        (r#"{"stop": [1]}"#, "stop: expected a string or a list of strings"),
        (r#"{"logit_bias": {"-1": 1}}"#, "logit_bias: the key `-1` is not a token id"),
        (
            r#"{"logit_bias": {"1": 1, "01": 1}}"#,
            "logit_bias: the key `1` names a token that another key names too",
        ),
        (r#"{"logit_bias": {"7": "x"}}"#, "logit_bias.7: invalid type: string \"x\", expected a number"),
        (r#"{"typical_p": 0}"#, "typical_p: must be in (0, 1], not 0"),
        (r#"{"typical_p": 1.1}"#, "typical_p: must be in (0, 1], not 1.1"),
        (r#"{"top_n_sigma": -1}"#, "top_n_sigma: must be in [0, 1000000], not -1"),
        (r#"{"epsilon_cutoff": 1.5}"#, "epsilon_cutoff: must be in [0, 1], not 1.5"),
        (r#"{"eta_cutoff": -0.1}"#, "eta_cutoff: must be in [0, 1], not -0.1"),
        (r#"{"top_a": 2}"#, "top_a: must be in [0, 1], not 2"),
        (r#"{"xtc_probability": 1.01}"#, "xtc_probability: must be in [0, 1], not 1.01"),
        (r#"{"xtc_threshold": -1}"#, "xtc_threshold: must be in [0, 1], not -1"),
        (r#"{"mirostat": 3}"#, "mirostat: must be 1 or 2, or 0 for off, not 3"),
        (
            r#"{"mirostat": -1}"#,
            "mirostat: invalid value: integer `-1`, expected a whole number from 0 to 255",
        ),
        (r#"{"mirostat_tau": -5}"#, "mirostat_tau: must be in [0, 1000000], not -5"),
        (r#"{"mirostat_eta": 1e7}"#, "mirostat_eta: must be in [0, 1000000], not 10000000"),
        (r#"{"dynatemp_range": -1}"#, "dynatemp_range: must be in [0, 1000000], not -1"),
        (
            r#"{"temperature": 1000, "dynatemp_range": 999999}"#,
            "dynatemp_range: goes 999999 above the temperature, past 1000000",
        ),
        (r#"{"dynatemp_exponent": -2}"#, "dynatemp_exponent: must be in [0, 1000000], not -2"),
        (r#"{"smoothing_factor": -1}"#, "smoothing_factor: must be in [0, 1000000], not -1"),
        (r#"{"smoothing_curve": 0.9}"#, "smoothing_curve: must be in [1, 3], not 0.9"),
        (r#"{"smoothing_curve": 3.1}"#, "smoothing_curve: must be in [1, 3], not 3.1"),
        (r#"{"dry_multiplier": -1}"#, "dry_multiplier: must be in [0, 1000000], not -1"),
        (r#"{"dry_base": 0.99}"#, "dry_base: must be in [1, 1000000], not 0.99"),
        (
            r#"{"dry_allowed_length": -1}"#,
            "dry_allowed_length: invalid value: integer `-1`, expected a whole number from 0 to 4294967295",
        ),
        (
            r#"{"dry_sequence_breakers": [[1], []]}"#,
            "dry_sequence_breakers[1]: must hold 1 to 20 token ids, not 0",
        ),
        (
            r#"{"dry_sequence_breakers": [[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21]]}"#,
            "dry_sequence_breakers[0]: must hold 1 to 20 token ids, not 21",
        ),
        (
            r#"{"no_repeat_ngram_size": -3}"#,
            "no_repeat_ngram_size: invalid value: integer `-3`, expected a whole number from 0 to 4294967295",
        ),
        (r#"[1]"#, "params: must be a JSON object"),
    ] {
        assert_eq!(error(json), message);
    }
    assert!(error("{").starts_with("params: cannot be read as JSON: EOF"), "{}", error("{"));
    assert_eq!(error(r#"{"top_q": 1}"#), "top_q: unknown field `top_q`; did you mean `top_k`?");
}

#[test]
fn numbers_json_cannot_hold_are_checked_too() {
    for temperature in [f64::NAN, f64::INFINITY, -0.5] {
        assert_eq!(
            SamplingParams::builder().temperature(temperature).build().unwrap_err().field(),
            "temperature"
        );
    }
    for value in [f64::NAN, f64::NEG_INFINITY] {
        assert_eq!(SamplingParams::builder().top_p(value).build().unwrap_err().field(), "top_p");
        assert_eq!(SamplingParams::builder().min_p(value).build().unwrap_err().field(), "min_p");
        assert_eq!(
            SamplingParams::builder().presence_penalty(value).build().unwrap_err().field(),
            "presence_penalty"
        );
        let penalty = SamplingParams::builder().repetition_penalty(value).build().unwrap_err();
        assert_eq!(penalty.field(), "repetition_penalty");
        // A sampler checks parameters that were not checked before.
        let unchecked = SamplingParams { top_p: value, ..SamplingParams::default() };
        assert_eq!(Sampler::new(unchecked).unwrap_err().field(), "top_p");
    }
}

#[test]
fn an_order_must_name_the_stage_of_every_parameter_that_is_set() {
    for (json, message) in [
        (
            r#"{"order": "temperature,top_p", "top_k": 5}"#,
            "top_k: is set, but the order does not name its stage top_k",
        ),
        (
            r#"{"order": ["top_k"], "temperature": 0.5}"#,
            "temperature: is set, but the order does not name its stage temperature",
        ),
        (
            r#"{"order": [], "penalty_window": 5}"#,
            "penalty_window: is set, but the order does not name its stage penalties",
        ),
        (
            r#"{"order": "top_k", "allowed_token_ids": [1]}"#,
            "allowed_token_ids: is set, but the order does not name its stage allowed",
        ),
    ] {
        assert_eq!(error(json), message);
    }
    for (field, value, stage) in [
        ("dry_base", "2", "dry"),
        ("no_repeat_ngram_size", "2", "no_repeat_ngram"),
        ("smoothing_factor", "1", "smoothing"),
        ("dynatemp_range", "1", "temperature"),
        ("typical_p", "0.5", "typical"),
        ("top_n_sigma", "1", "top_n_sigma"),
        ("epsilon_cutoff", "0.1", "epsilon"),
        ("eta_cutoff", "0.1", "eta"),
        ("top_a", "0.1", "top_a"),
        ("xtc_probability", "0.1", "xtc"),
        ("mirostat", "2", "mirostat"),
        ("mirostat_mu", "2", "mirostat"),
    ] {
        let message = error(&format!(r#"{{"order": "min_p", "{field}": {value}}}"#));
        assert_eq!(message, format!("{field}: is set, but the order does not name its stage {stage}"));
    }
    assert!(
        error(r#"{"order": "top_k,top_z"}"#)
            .starts_with("order: `top_z` is not a stage; the stages are allowed,")
    );
    assert!(error(r#"{"order": 5}"#).starts_with("order: expected an order's name or a list of stage names"));
    assert!(SamplingParams::from_json(r#"{"order": ["top_k"], "top_k": 0}"#).is_ok(), "off is not set");
    let seven_times = ["temperature"; 7].join(",");
    for (temperature, is_ok) in [(1e-5, false), (1e6, false), (0.01, true), (1.0, true), (0.0, true)] {
        let params =
            SamplingParams::builder().temperature(temperature).order(seven_times.parse::<Order>().unwrap());
        let expected = "order: names temperature 7 times; together they may divide by 1e-30 to 1e30";
        assert_eq!(
            params.build().map(drop).map_err(|error| error.to_string()),
            if is_ok { Ok(()) } else { Err(expected.to_owned()) }
        );
    }
}

#[test]
fn mirostat_ignores_no_truncation_without_a_word() {
    for (field, value) in [
        ("min_p", "0.1"),
        ("top_k", "5"),
        ("top_p", "0.9"),
        ("typical_p", "0.9"),
        ("top_n_sigma", "1"),
        ("epsilon_cutoff", "0.1"),
        ("eta_cutoff", "0.1"),
        ("top_a", "0.1"),
        ("xtc_probability", "0.5"),
    ] {
        let expected = format!(
            "{field}: is set beside mirostat, which takes the place of every other truncation and would ignore it; unset one of the two, or name an order of your own that says where each stands"
        );
        assert_eq!(error(&format!(r#"{{"mirostat": 2, "{field}": {value}}}"#)), expected);
        assert_eq!(error(&format!(r#"{{"mirostat": 1, "{field}": {value}, "order": "vllm"}}"#)), expected);
        let stage = ["epsilon", "eta", "typical", "xtc"].into_iter().find(|stage| field.starts_with(stage));
        let own = format!(
            r#"{{"mirostat": 2, "{field}": {value}, "order": ["{}", "mirostat"]}}"#,
            stage.unwrap_or(field)
        );
        assert!(SamplingParams::from_json(&own).is_ok(), "{own}");
    }
    assert_eq!(
        error(r#"{"mirostat": 2, "order": "llama.cpp"}"#),
        "mirostat: is set, but the order does not name its stage mirostat"
    );
    let without = r#"{"mirostat": 2, "top_k": -1, "repetition_penalty": 1.1, "xtc_threshold": 0.2}"#;
    assert!(SamplingParams::from_json(without).is_ok());
}

#[test]
fn every_parameter_has_the_documented_default() {
    let written = serde_json::to_value(SamplingParams::default()).unwrap();
    let expected: serde_json::Value = serde_json::from_str(
        r#"{
        "temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0,
        "repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0,
        "penalty_window": 0, "penalty_scope": "output", "logit_bias": {}, "allowed_token_ids": null,
        "bad_words_ids": [], "bad_words": [], "min_tokens": 0, "max_tokens": 16, "stop": [], "stop_token_ids": [],
        "ignore_eos": false, "include_stop_str_in_output": false, "eos_token_id": [], "seed": null, "n": 1,
        "logprobs": null, "logprobs_mode": "raw_logprobs", "probability": false, "kept": "none", "prompt_logprobs": null, "banned_strings": [],
        "prompt_token_ids": [], "output_token_ids": [],
        "typical_p": 1.0, "top_n_sigma": 0.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "top_a": 0.0,
        "xtc_probability": 0.0, "xtc_threshold": 0.1, "xtc_protected_token_ids": [], "mirostat": 0,
        "mirostat_tau": 5.0, "mirostat_eta": 0.1, "mirostat_mu": null, "dynatemp_range": 0.0,
        "dynatemp_exponent": 1.0, "smoothing_factor": 0.0, "smoothing_curve": 1.0, "dry_multiplier": 0.0,
        "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": 0, "dry_sequence_breakers": [],
        "no_repeat_ngram_size": 0}"#,
    )
    .unwrap();
    assert_eq!(written, expected);
    assert_eq!(SamplingParams::from_json("{}"), Ok(SamplingParams::default()));
}

#[test]
fn json_and_builder_say_the_same() {
    let json = r#"{"temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0.05, "repetition_penalty": 1.1,
        "frequency_penalty": 0.2, "presence_penalty": -0.3, "penalty_window": 64, "penalty_scope": "all",
        "logit_bias": {"3": -1.5}, "allowed_token_ids": [1, 3], "bad_words_ids": [[1, 2]], "min_tokens": 2,
        "max_tokens": 99, "stop": "END", "stop_token_ids": [5], "ignore_eos": true,
        "include_stop_str_in_output": true, "eos_token_id": 2, "seed": 18446744073709551615, "n": 3, "logprobs": -1,
        "logprobs_mode": "processed_logits", "prompt_logprobs": 0, "banned_strings": ["x"],
        "prompt_token_ids": [1], "output_token_ids": [2, 3], "typical_p": 0.9, "top_n_sigma": 1.5,
        "epsilon_cutoff": 0.01, "eta_cutoff": 0.02, "top_a": 0.2, "xtc_probability": 0.5, "xtc_threshold": 0.2,
        "xtc_protected_token_ids": [2], "mirostat": 2, "mirostat_tau": 4, "mirostat_eta": 0.2, "mirostat_mu": 7.5,
        "dynatemp_range": 0.3, "dynatemp_exponent": 2, "smoothing_factor": 0.4, "smoothing_curve": 1.5,
        "dry_multiplier": 0.8, "dry_base": 1.9, "dry_allowed_length": 3, "dry_penalty_last_n": 100,
        "dry_sequence_breakers": [[1, 2], [3]], "no_repeat_ngram_size": 3, "order": "allowed,bad_words,min_tokens,logit_bias,penalties,dry,no_repeat_ngram,smoothing,temperature,xtc,typical,epsilon,eta,top_a,top_n_sigma,min_p,top_k,top_p,mirostat"}"#;
    let parsed = SamplingParams::from_json(json).unwrap();
    let order = "allowed,bad_words,min_tokens,logit_bias,penalties,dry,no_repeat_ngram,smoothing,temperature,\
                 xtc,typical,epsilon,eta,top_a,top_n_sigma,min_p,top_k,top_p,mirostat";
    let built = SamplingParams::builder()
        .temperature(0.7)
        .top_k(40)
        .top_p(0.9)
        .min_p(0.05)
        .repetition_penalty(1.1)
        .frequency_penalty(0.2)
        .presence_penalty(-0.3)
        .penalty_window(64u32)
        .penalty_scope(PenaltyScope::All)
        .logit_bias([(3, -1.5)])
        .allowed_token_ids(vec![1, 3])
        .bad_words_ids([vec![1, 2]])
        .min_tokens(2u32)
        .max_tokens(99u32)
        .stop(["END".to_owned()])
        .stop_token_ids([5])
        .ignore_eos(true)
        .include_stop_str_in_output(true)
        .eos_token_id([2])
        .seed(u64::MAX)
        .n(3u32)
        .logprobs(-1)
        .logprobs_mode(LogprobsMode::ProcessedLogits)
        .prompt_logprobs(0)
        .banned_strings(["x".to_owned()])
        .prompt_token_ids([1])
        .output_token_ids([2, 3])
        .typical_p(0.9)
        .top_n_sigma(1.5)
        .epsilon_cutoff(0.01)
        .eta_cutoff(0.02)
        .top_a(0.2)
        .xtc_probability(0.5)
        .xtc_threshold(0.2)
        .xtc_protected_token_ids([2])
        .mirostat(2)
        .mirostat_tau(4.0)
        .mirostat_eta(0.2)
        .mirostat_mu(7.5)
        .dynatemp_range(0.3)
        .dynatemp_exponent(2.0)
        .smoothing_factor(0.4)
        .smoothing_curve(1.5)
        .dry_multiplier(0.8)
        .dry_base(1.9)
        .dry_allowed_length(3u32)
        .dry_penalty_last_n(100u32)
        .dry_sequence_breakers([vec![1, 2], vec![3]])
        .no_repeat_ngram_size(3u32)
        .order(order.parse::<Order>().unwrap())
        .build()
        .unwrap();
    assert_eq!(parsed, built);
    let again = serde_json::to_string(&parsed).unwrap();
    assert_eq!(SamplingParams::from_json(&again), Ok(parsed));
    for none in ["-1", "null"] {
        assert_eq!(SamplingParams::from_json(&format!(r#"{{"seed": {none}}}"#)).unwrap().seed, None);
    }
}
