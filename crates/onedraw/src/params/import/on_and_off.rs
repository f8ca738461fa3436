//! Every known field of every system, on and off: it has an effect, or there is a note. Nothing is dropped in
//! silence.

use serde_json::{Map, Value, json};

use super::known::Known;
use super::off::Off;
use super::{Imported, Source, import};

/// A field that is carried over by some system: a value that does nothing, or is the default, and one that
/// asks for something.
fn off_and_on(name: &str) -> (Value, Value) {
    match name {
        "allowed_token_ids" => (Value::Null, json!([3, 4])),
        "bad_words" => (json!([]), json!(["no"])),
        "bad_words_ids" => (Value::Null, json!([[3]])),
        // Other systems sample, so it is false that asks for something.
        "do_sample" => (json!(true), json!(false)),
        "dry_allowed_length" => (json!(2), json!(5)),
        "dry_base" => (json!(1.75), json!(3.0)),
        "dry_multiplier" | "dynatemp_range" | "frequency_penalty" | "presence_penalty" => {
            (json!(0.0), json!(0.7))
        }
        "dry_penalty_last_n" => (json!(64), json!(32)),
        "dry_sequence_breakers" => (Value::Null, json!(["."])),
        "dynatemp_exponent" | "temperature" => (json!(1.0), json!(1.5)),
        "eos_token_id" => (Value::Null, json!(7)),
        "epsilon_cutoff" | "eta_cutoff" => (json!(0.0), json!(0.01)),
        "ignore_eos" | "include_stop_str_in_output" | "post_sampling_probs" => (json!(false), json!(true)),
        "logit_bias" => (json!({}), json!({"5": 1.5})),
        "logprobs" | "n_probs" | "prompt_logprobs" | "top_logprobs" => (Value::Null, json!(3)),
        "max_completion_tokens"
        | "max_length"
        | "max_new_tokens"
        | "max_output_tokens"
        | "max_tokens"
        | "n_predict" => (Value::Null, json!(9)),
        "min_new_tokens" | "min_tokens" | "no_repeat_ngram_size" => (json!(0), json!(3)),
        "min_p" => (json!(0.0), json!(0.2)),
        "mirostat" => (json!(0), json!(2)),
        "mirostat_eta" => (json!(0.1), json!(0.3)),
        "mirostat_tau" => (json!(5.0), json!(3.0)),
        "n" | "n_cmpl" | "num_return_sequences" => (json!(1), json!(2)),
        "repeat_last_n" => (json!(64), json!(32)),
        "repeat_penalty" | "repetition_penalty" => (json!(1.0), json!(1.3)),
        "samplers" => (Value::Null, json!(["top_k", "temperature"])),
        "seed" => (Value::Null, json!(42)),
        "sequence_bias" => (Value::Null, json!([[[5], 1.5]])),
        "stop" | "stop_strings" => (json!([]), json!(["END"])),
        "stop_token_ids" => (json!([]), json!([7])),
        "suppress_tokens" => (Value::Null, json!([7])),
        "top_k" => (json!(0), json!(7)),
        "top_n_sigma" => (json!(-1.0), json!(1.5)),
        "top_p" | "typical_p" => (json!(1.0), json!(0.8)),
        "xtc_probability" => (json!(0.0), json!(0.5)),
        "xtc_threshold" => (json!(0.1), json!(0.2)),
        other => panic!("{other} has no values here"),
    }
}

/// What must stand beside a field so that it can have an effect.
fn beside(source: Source, name: &str) -> Value {
    match (source, name) {
        (Source::HuggingFace, "do_sample") => json!({ "temperature": 0.7 }),
        (Source::HuggingFace, _) => json!({ "do_sample": true, "max_new_tokens": 20 }),
        (Source::LlamaCpp, "mirostat_eta" | "mirostat_tau") => json!({ "mirostat": 2 }),
        (Source::LlamaCpp, "repeat_last_n") => json!({ "repeat_penalty": 1.2 }),
        (Source::LlamaCpp, "xtc_threshold") => json!({ "xtc_probability": 0.5 }),
        (Source::LlamaCpp, "dynatemp_exponent") => json!({ "dynatemp_range": 0.5 }),
        (Source::LlamaCpp, "post_sampling_probs") => json!({ "n_probs": 3 }),
        (Source::LlamaCpp, name) if name.starts_with("dry_") && name != "dry_multiplier" => {
            json!({ "dry_multiplier": 0.8 })
        }
        (_, "top_logprobs") => json!({ "logprobs": true }),
        _ => json!({}),
    }
}

/// A value that switches a field off, and one that does not.
fn lost_off_and_on(off: &Off) -> Option<(Value, Value)> {
    let is_off = |value: &Value| off.is_met_by(value);
    let candidates = [
        json!(0),
        json!(1.0),
        json!(-1),
        json!(0.4),
        json!(10),
        json!(20),
        json!("text"),
        json!(3.5),
        json!(true),
    ];
    let on = candidates.iter().rev().find(|value| !is_off(value))?.clone();
    Some((candidates.into_iter().find(is_off).unwrap_or(Value::Null), on))
}

fn with(source: Source, base: &Value, name: &str, value: &Value) -> Imported {
    let mut fields: Map<String, Value> = base.as_object().cloned().unwrap_or_default();
    fields.insert(name.to_owned(), value.clone());
    let json = Value::Object(fields).to_string();
    import(&json, Some(source)).unwrap_or_else(|error| panic!("{source}: {json}: {error}"))
}

fn notes(imported: &Imported, name: &str) -> usize {
    imported.notes.iter().filter(|note| note.field == name).count()
}

#[test]
fn a_field_that_is_carried_over_has_an_effect_or_a_note() {
    for source in Source::ALL {
        for name in source.known().carried {
            let (off, on) = off_and_on(name);
            let base = beside(source, name);
            let [off, on] = [off, on].map(|value| with(source, &base, name, &value));
            assert!(on.params != off.params || on.notes != off.notes, "{source}: {name}");
        }
    }
}

#[test]
fn a_field_that_is_lost_has_a_note_where_it_is_on() {
    for source in Source::ALL {
        let Known { lost, .. } = source.known();
        for lost in lost.iter().flat_map(|list| list.iter()) {
            let Some((off, on)) = lost_off_and_on(&lost.off) else { continue };
            let [off, on] = [off, on].map(|value| with(source, &json!({}), lost.field, &value));
            assert_eq!((notes(&off, lost.field), notes(&on, lost.field)), (0, 1), "{source}: {}", lost.field);
        }
    }
}

/// What another system would do with a field is not done here, and that is said.
#[test]
fn a_field_of_another_system_has_a_note_where_it_is_on() {
    for source in Source::ALL {
        let known = source.known();
        for name in Source::ALL.iter().flat_map(|source| source.known().carried) {
            if known.names(name) {
                continue;
            }
            let (_, on) = off_and_on(name);
            let imported = with(source, &json!({}), name, &on);
            assert_eq!(notes(&imported, name), 1, "{source}: {name}");
        }
    }
}

/// Settings for greedy text are never taken for settings of a system that samples.
#[test]
fn greedy_settings_stay_greedy() {
    let json = r#"{"temperature": 1.5, "do_sample": false, "seed": 42}"#;
    let imported = import(json, None).expect("settings of Hugging Face");
    assert_eq!(imported.source, Source::HuggingFace);
    assert_eq!((imported.params.temperature, imported.params.seed), (0.0, Some(42)));
    for source in [Source::OpenAi, Source::Vllm, Source::LlamaCpp] {
        let imported = import(json, Some(source)).expect("settings");
        assert_eq!(imported.params.temperature, 1.5);
        let said: Vec<String> = imported.notes.iter().map(ToString::to_string).collect();
        assert!(said.contains(&format!("lost: do_sample: is not known to {source}")), "{said:?}");
    }
}
