//! Settings of other systems: what becomes of each, what is noted, what is refused.

macro_rules! example {
    ($name:literal) => {
        include_str!(concat!("../../../../examples/settings/", $name))
    };
}

mod arbitrary;
mod hugging_face;
mod llama_cpp;
mod noise;
mod openai;
mod out_of_range;
mod refused;
mod vllm;

use onedraw::import::{Imported, Source, import};
use onedraw::{Sampler, SamplingParams};
use serde_json::{Value, json};

use Source::{HuggingFace, LlamaCpp, OpenAi, Vllm};

/// Imports, and checks what must hold for every import.
fn imported(json: &str, source: Option<Source>) -> Imported {
    let imported = import(json, source).unwrap_or_else(|error| panic!("{json}: {error}"));
    assert_eq!(imported.params.validate(), Ok(()), "{json}");
    let text = serde_json::to_string(&imported.changed()).unwrap();
    assert_eq!(SamplingParams::from_json(&text).as_ref(), Ok(&imported.params), "{text}");
    imported
}

fn notes(imported: &Imported) -> Vec<String> {
    imported.notes.iter().map(ToString::to_string).collect()
}

/// Every parameter that differs from the defaults, and every note.
#[track_caller]
fn assert_import(source: Source, json: &str, params: Value, expected: &[&str]) {
    let imported = imported(json, Some(source));
    assert_eq!(Value::Object(imported.changed()), params, "{json}");
    assert_eq!(notes(&imported), expected, "{json}");
}

/// Like [`assert_import`], without what a base request already says. The base sets every field whose absence
/// makes a note.
#[track_caller]
fn assert_beside(source: Source, base: Value, cases: &[(Value, Value, &[&str])]) {
    let beside = imported(&base.to_string(), Some(source)).changed();
    for (fields, params, expected) in cases {
        let mut json = base.clone();
        json.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let json = json.to_string();
        let imported = imported(&json, Some(source));
        let mut changed = imported.changed();
        changed.retain(|name, value| beside.get(name) != Some(value));
        assert_eq!(Value::Object(changed), *params, "{json}");
        assert_eq!(notes(&imported), *expected, "{json}");
    }
}

const CONSTRAINT: &str = "a constraint on the text is not a sampling parameter; give a mask with each draw";

#[test]
fn an_empty_object_is_the_systems_defaults() {
    assert_import(
        OpenAi,
        "{}",
        json!({"max_tokens": u32::MAX}),
        &["changed: max_tokens: absent: no limit but the model's context"],
    );
    assert_import(Vllm, "{}", json!({}), &[]);
    assert_import(
        LlamaCpp,
        "{}",
        json!({
            "order": "llama.cpp", "temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "max_tokens": u32::MAX,
        }),
        &[
            "changed: top_k: absent: llama.cpp's default 40",
            "changed: top_p: absent: llama.cpp's default 0.95",
            "changed: min_p: absent: llama.cpp's default 0.05",
            "changed: temperature: absent: llama.cpp's default 0.8",
            "changed: n_predict: absent: llama.cpp's default -1, no limit",
        ],
    );
    assert_import(
        HuggingFace,
        "{}",
        json!({"order": "huggingface", "temperature": 0.0, "max_tokens": 20}),
        &[
            "changed: do_sample: absent: Hugging Face's default false is greedy: temperature 0",
            "changed: max_new_tokens: absent: Hugging Face's default 20",
        ],
    );
}

#[test]
fn the_fields_tell_the_source() {
    for (json, source) in [
        (example!("openai.json"), Some(OpenAi)),
        (example!("vllm.json"), Some(Vllm)),
        (example!("llama.cpp.json"), Some(LlamaCpp)),
        (example!("generation_config.json"), Some(HuggingFace)),
        (r#"{"temperature": 0.7, "top_p": 0.9}"#, Some(OpenAi)),
        (r#"{"model": "x", "messages": [], "temperature": 0.7}"#, Some(OpenAi)),
        (
            r#"{"model": "x", "input": "y", "max_output_tokens": 9, "temperature": 0.7, "text": {"verbosity": "low"}}"#,
            Some(OpenAi),
        ),
        (r#"{"temperature": 0.7, "top_p": 0.9, "max_tokens": 5, "foo": 1}"#, Some(OpenAi)),
        (r#"{"temperature": 0.7, "stop_token_ids": [1]}"#, Some(Vllm)),
        (r#"{"temperature": 0.7, "n_predict": 5}"#, Some(LlamaCpp)),
        (r#"{"temperature": 0.7, "eos_token_id": 5}"#, Some(HuggingFace)),
        (r#"{"n_predict": 5, "repeat_penalty": 1.1, "do_sample": true}"#, Some(LlamaCpp)),
        (r#"{"temperature": 0.7, "top_k": 5, "transformers_version": "5.22.2"}"#, Some(HuggingFace)),
        (r#"{"temperature": 0.7, "top_p": 0.9, "pad_token_id": 0}"#, Some(HuggingFace)),
        (r#"{"prompt": "x", "temperature": 0.7, "top_k": 5, "cache_prompt": true}"#, Some(LlamaCpp)),
        (r#"{"temperature": 0.7, "top_k": 5}"#, None),
        (r#"{"model": "x", "prompt": "y", "temperature": 0.7, "top_k": 5}"#, None),
        // Ollama's settings are nested one level deeper.
        (
            r#"{"model": "x", "prompt": "y", "stream": false, "options": {"temperature": 0.7, "num_ctx": 9}}"#,
            None,
        ),
        (
            r#"{"model": "x", "messages": [], "stream": true, "options": {"top_k": 5}, "keep_alive": "5m"}"#,
            None,
        ),
        (r#"{"model": "x", "messages": [], "response_format": {"type": "json_object"}}"#, None),
        (r#"{"grammar": "root ::= x", "cache_prompt": true}"#, None),
        (r#"{"n_predict": 5, "do_sample": true}"#, None),
        (r#"{"foo": 5}"#, None),
        ("{}", None),
        ("7", None),
    ] {
        assert_eq!(Source::detect(&serde_json::from_str(json).unwrap()), source, "{json}");
        if let Some(source) = source {
            assert_eq!(imported(json, None), imported(json, Some(source)));
        }
    }
    let error = import(r#"{"temperature": 0.7, "top_k": 5}"#, None).unwrap_err().to_string();
    assert_eq!(
        error,
        "source: cannot be told from the fields; name it, one of openai, vllm, llama.cpp, huggingface"
    );
    for source in Source::ALL {
        assert_eq!(source.name().parse(), Ok(source));
    }
    let error = "ollama".parse::<Source>().unwrap_err().to_string();
    assert_eq!(error, "source: `ollama` is not known; the sources are openai, vllm, llama.cpp, huggingface");
}

#[test]
fn a_byte_order_mark_is_skipped() {
    let marked = imported("\u{feff}{\"temperature\": 0.5, \"n_predict\": 5}", None);
    assert_eq!(marked, imported(r#"{"temperature": 0.5, "n_predict": 5}"#, None));
    assert_eq!((marked.source, marked.params.temperature, marked.params.max_tokens), (LlamaCpp, 0.5, 5));
    let error = import("\u{feff}\u{feff}{}", None).unwrap_err().to_string();
    assert_eq!(error, "params: cannot be read as JSON: expected value at line 1 column 1");
}

#[test]
fn whole_numbers_may_have_a_point() {
    let params = imported(r#"{"top_k": 20.0, "max_tokens": 1e30, "min_tokens": 2.0}"#, Some(Vllm)).params;
    assert_eq!((params.top_k, params.max_tokens, params.min_tokens), (20, u32::MAX, 2));
}

#[test]
fn the_order_decides_what_is_kept() {
    // After the temperature 0.5 token 0 has 0.87 of the mass, before it 0.67.
    let settings = r#"{"temperature": 0.5, "top_k": 0, "top_p": 0.8, "min_p": 0}"#;
    let kept = |source| {
        let mut sampler = Sampler::new(imported(settings, Some(source)).params).unwrap();
        sampler.distribution(&[3.0_f32, 2.0, 1.0]).unwrap().tokens
    };
    assert_eq!(kept(LlamaCpp), [0, 1]);
    assert_eq!(kept(Vllm), [0]);
}

#[test]
fn json_has_source_parameters_and_notes() {
    let imported = imported(r#"{"prompt": "x", "temperature": 0.5, "top_q": 1}"#, Some(OpenAi));
    assert_eq!(
        serde_json::to_string(&imported).unwrap(),
        r#"{"source":"openai","params":{"temperature":0.5},"notes":[{"field":"top_q","kind":"lost","message":"is not known to openai"}]}"#
    );
}
