//! `/v1/completions`: texts are those of the decode loop with the same parameters.

use onedraw::SamplingParams;
use onedraw_lm::settings::{Layer, Origin, Settings};
use onedraw_lm::words::to_tokens;
use onedraw_lm::{Generated, Generator, stories};
use serde_json::{Value, json};

use crate::support::{models, stories as serve_stories};

/// What the decode loop writes, with what a request does not say as in `onedraw generate`.
fn written(prompt: &str, given: &Value) -> Vec<Generated> {
    let (llama, tokenizer) = (models::llama(), models::tokenizer());
    let config = stories::generation_config().expect("settings");
    let own = Layer::read(Origin::Argument, given.as_object().expect("an object")).expect("parameters");
    let settings = Settings::over(SamplingParams::default()).layer(own).layer(config.layer());
    let mut params = settings.resolve().expect("parameters").params;
    config.end_texts(&mut params);
    to_tokens(&mut params, &tokenizer).expect("words");
    let mut generator = Generator::new(&llama, &tokenizer);
    generator.add(&tokenizer.encode(prompt).expect("tokens"), params).expect("a request");
    generator.finish().expect("texts")
}

#[tokio::test]
async fn texts_are_those_of_the_decode_loop() {
    let server = serve_stories().await;
    let prompt = "Once upon a time";
    for given in [
        json!({"seed": 7}),
        json!({"seed": 7, "max_tokens": 60}),
        json!({"seed": 1, "max_tokens": 40, "temperature": 1.3, "top_k": 0, "top_p": 1.0, "min_p": 0.05}),
        json!({"seed": 2, "max_tokens": 80, "stop": ["."]}),
        json!({"seed": 3, "max_tokens": 300}),
        json!({"seed": 4, "max_tokens": 40, "n": 3, "xtc_probability": 0.5, "top_k": 0}),
        json!({"seed": 5, "max_tokens": 50, "banned_strings": [" the"], "bad_words": ["Lily"]}),
        json!({"seed": 6, "max_tokens": 30, "logit_bias": {"12": -100.0}, "repetition_penalty": 1.2}),
        json!({"seed": 18_446_744_073_709_551_615_u64, "max_tokens": 30, "mirostat": 2, "top_k": 0, "top_p": 1.0}),
        json!({"max_tokens": 0, "seed": 1}),
    ] {
        let mut body = given.clone();
        body["prompt"] = prompt.into();
        body["return_token_ids"] = true.into();
        let answer = server.ask("/v1/completions", body).await;
        let texts = written(prompt, &given);
        let choices = answer["choices"].as_array().expect("choices");
        assert_eq!(choices.len(), texts.len(), "{given}");
        for (choice, text) in choices.iter().zip(&texts) {
            let tokens: Vec<u32> = text.tokens.iter().map(|sampled| sampled.token).collect();
            assert_eq!(
                (&choice["text"], &choice["token_ids"]),
                (&json!(text.text), &json!(tokens)),
                "{given}"
            );
            assert_eq!(choice["index"], text.sample);
            let word = if text.finish == Some(onedraw::FinishReason::Length) { "length" } else { "stop" };
            assert_eq!(choice["finish_reason"], word, "{given}");
        }
        let output: usize = texts.iter().map(|text| text.tokens.len()).sum();
        let usage = json!({"prompt_tokens": 5, "completion_tokens": output, "total_tokens": 5 + output});
        assert_eq!((&answer["usage"], &answer["seed"]), (&usage, &given["seed"]), "{given}");
    }
    server.end().await;
}

/// The story of README.
#[tokio::test]
async fn sixteen_tokens_unless_it_is_said() {
    let server = serve_stories().await;
    let answer = server.ask("/v1/completions", json!({"prompt": "Once upon a time", "seed": 7})).await;
    assert_eq!(
        answer["choices"][0]["text"],
        ", there was a little girl named Lily. She loved to play outside in the"
    );
    assert_eq!(answer["usage"]["completion_tokens"], 16);
    server.end().await;
}

#[tokio::test]
async fn prompts_are_text_or_tokens_one_or_many() {
    let server = serve_stories().await;
    let of = async |prompt: Value| {
        let answer = server.ask("/v1/completions", json!({"prompt": prompt, "seed": 7, "n": 2})).await;
        let choices = answer["choices"].as_array().expect("choices").clone();
        assert!(choices.iter().enumerate().all(|(place, choice)| choice["index"] == place));
        choices.iter().map(|choice| choice["text"].clone()).collect::<Vec<_>>()
    };
    let (once, tom) = (of(json!("Once upon a time")).await, of(json!("Tom saw a big")).await);
    assert_ne!(once[0], once[1]);
    let tokens = server.ask("/tokenize", json!({"prompt": "Tom saw a big"})).await["tokens"].clone();
    assert_eq!(of(tokens.clone()).await, tom);
    assert_eq!(of(json!(["Once upon a time", "Tom saw a big"])).await, [once.clone(), tom.clone()].concat());
    assert_eq!(of(json!([tokens, tokens])).await, [tom.clone(), tom].concat());
    server.end().await;
}

#[tokio::test]
async fn a_seed_that_the_server_chooses_is_told_and_can_be_used() {
    let server = serve_stories().await;
    let body = json!({"prompt": "Once upon a time", "max_tokens": 30, "temperature": 1.0});
    let first = server.ask("/v1/completions", body.clone()).await;
    let seed = first["seed"].as_u64().expect("a seed");
    assert!(seed < 1 << 53, "{seed}");
    let mut again = body.clone();
    again["seed"] = seed.to_string().into();
    let second = server.ask("/v1/completions", again).await;
    assert_eq!(first["choices"], second["choices"]);
    assert_ne!(server.ask("/v1/completions", body).await["seed"], seed);
    server.end().await;
}

#[tokio::test]
async fn stops_are_told_with_what_stopped() {
    let server = serve_stories().await;
    let of = async |given: Value| {
        let mut body = json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": 300});
        body.as_object_mut().expect("an object").extend(given.as_object().expect("an object").clone());
        let choice = server.ask("/v1/completions", body).await["choices"][0].clone();
        (
            choice["text"].as_str().expect("a text").to_owned(),
            choice["finish_reason"].clone(),
            choice["stop_reason"].clone(),
        )
    };
    let (text, finish, cause) = of(json!({"stop": " Lily"})).await;
    assert_eq!(
        (text.as_str(), finish, cause),
        (", there was a little girl named", json!("stop"), json!(" Lily"))
    );
    let (text, _, cause) = of(json!({"stop": ["!", " Lily"], "include_stop_str_in_output": true})).await;
    assert_eq!((text.as_str(), cause), (", there was a little girl named Lily", json!(" Lily")));
    let (_, finish, cause) = of(json!({"stop_token_ids": [372]})).await;
    assert_eq!((finish, cause), (json!("stop"), json!(372)));
    let (story, finish, cause) = of(json!({})).await;
    assert_eq!((finish, cause), (json!("stop"), Value::Null), "{story}");
    server.end().await;
}

#[tokio::test]
async fn texts_keep_to_what_they_must_match() {
    let server = serve_stories().await;
    let of = async |field: &str, value: Value| {
        let mut body = json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": 100});
        body[field] = value;
        server.text(body).await
    };
    let text = of("structured_outputs", json!({"regex": "(yes|no)[0-9]{3}"})).await;
    assert!(
        ["yes", "no"].iter().any(|word| text.strip_prefix(word).is_some_and(|rest| rest.len() == 3)),
        "{text}"
    );
    let text = of("structured_outputs", json!({"choice": ["alpha", "beta"]})).await;
    assert!(["alpha", "beta"].contains(&text.as_str()), "{text}");
    let text = of("structured_outputs", json!({"grammar": "start: \"a\" \"b\"~3"})).await;
    assert_eq!(text, "abbb");
    let schema = json!({
        "type": "object",
        "properties": {"tame": {"type": "boolean"}, "legs": {"enum": [2, 4]}},
        "required": ["tame", "legs"],
        "additionalProperties": false,
    });
    let one = of("structured_outputs", json!({"json": schema})).await;
    let format =
        json!({"type": "json_schema", "json_schema": {"name": "pet", "strict": true, "schema": schema}});
    let text = of("response_format", format).await;
    assert_eq!(one, text);
    let pet: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert!(pet["tame"].is_boolean() && [json!(2), json!(4)].contains(&pet["legs"]), "{text}");
    let body = json!({
        "prompt": "Once", "seed": 1, "max_tokens": 4, "response_format": {"type": "json_object"},
    });
    let text = server.text(body).await;
    assert!(text.starts_with('{'), "{text}");
    // Properties come in the order of the schema.
    let (tame, legs) = (one.find("tame").expect("tame"), one.find("legs").expect("legs"));
    assert!(tame < legs, "{one}");
    let plain = of("response_format", json!({"type": "text"})).await;
    assert!(plain.starts_with(", there was a little girl named Lily"), "{plain}");
    server.end().await;
}

#[tokio::test]
async fn presets_and_parameters_of_ours_are_fields() {
    let server = serve_stories().await;
    let body = |given: Value| {
        let mut body = json!({"prompt": "Once upon a time", "seed": 11, "max_tokens": 60});
        body.as_object_mut().expect("an object").extend(given.as_object().expect("an object").clone());
        body
    };
    let creative = server.text(body(json!({"preset": "creative"}))).await;
    let params = onedraw::presets::creative();
    let named = json!({
        "temperature": params.temperature, "top_p": params.top_p, "top_k": params.top_k,
        "repetition_penalty": params.repetition_penalty,
    });
    assert_eq!(creative, server.text(body(named)).await);
    assert_ne!(creative, server.text(body(json!({"preset": "deterministic"}))).await);
    let likely = server.ask("/v1/completions", body(json!({"probability": true, "max_tokens": 3}))).await;
    let numbers = likely["choices"][0]["probabilities"].as_array().expect("numbers");
    assert!(
        numbers.len() == 3 && numbers.iter().all(|p| p.as_f64().is_some_and(|p| p > 0.0 && p <= 1.0)),
        "{likely}"
    );
    let kept = server.ask("/v1/completions", body(json!({"kept": "ids", "max_tokens": 2, "top_k": 3}))).await;
    let sets = kept["choices"][0]["kept"].as_array().expect("kept sets");
    assert!(
        sets.len() == 2 && sets.iter().all(|set| set["ids"].as_array().is_some_and(|ids| ids.len() <= 3)),
        "{kept}"
    );
    server.end().await;
}

/// A model that limits prompt and text together limits each text by its own prompt.
#[tokio::test]
async fn a_text_has_the_length_that_its_prompt_leaves() {
    let (folder, _) = models::edited(|_, _| {});
    let path = folder.path().join("generation_config.json");
    std::fs::write(&path, r#"{"eos_token_id": 0, "max_length": 12}"#).expect("settings");
    let config = onedraw_lm::GenerationConfig::open(folder.path()).expect("settings");
    let model = onedraw_serve::Model::new("limited", models::llama(), models::tokenizer(), config);
    let server = crate::support::serve(model, crate::support::settings()).await;
    let of = async |prompt: Value| {
        let body = json!({"prompt": prompt, "seed": 7, "ignore_eos": true, "return_token_ids": true});
        server.ask("/v1/completions", body).await["choices"].as_array().expect("choices").clone()
    };
    let (short, long) = ("Once upon a time", "Once upon a time there was a little");
    let lengths = |choices: &[Value]| -> Vec<usize> {
        choices.iter().map(|choice| choice["token_ids"].as_array().expect("tokens").len()).collect()
    };
    let both = of(json!([short, long])).await;
    assert_eq!(lengths(&both), [12 - 5, 12 - 9]);
    assert_eq!(
        (&both[0]["text"], &both[1]["text"]),
        (&of(json!(short)).await[0]["text"], &of(json!(long)).await[0]["text"])
    );
    server.end().await;
}
