//! `write`: texts are those of the decode loop, token by token.

use onedraw::SamplingParams;
use onedraw::math::{exp, ln};
use onedraw_lm::{Generator, LanguageModel, stories};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::support::{Counting, TOKENIZER, ask, lab, text};

/// What `onedraw generate` writes with these parameters.
fn generated(params: &Value) -> (Vec<u32>, String) {
    let model = stories::model().expect("a model");
    let settings = stories::generation_config().expect("settings");
    let given = params.as_object().expect("an object");
    let own =
        onedraw_lm::settings::Layer::read(onedraw_lm::settings::Origin::Argument, given).expect("parameters");
    let resolved = onedraw_lm::settings::Settings::default().layer(own).layer(settings.layer()).resolve();
    let mut params: SamplingParams = resolved.expect("parameters").params;
    settings.end_texts(&mut params);
    let mut generator = Generator::new(&model, &*TOKENIZER);
    generator.add(&TOKENIZER.encode("Once upon a time").expect("tokens"), params).expect("a request");
    let text = generator.finish().expect("a text").remove(0);
    (text.tokens.iter().map(|sampled| sampled.token).collect(), text.text)
}

fn written(params: &Value) -> Vec<Value> {
    let model = Counting::new();
    let subject = model.subject();
    ask(&mut lab(&model, &subject), "write", &json!({"prompt": "Once upon a time", "params": params}))
}

#[test]
fn the_story_of_seed_7_is_that_of_the_program() {
    let lines = written(&json!({"seed": "7"}));
    assert_eq!(lines[0]["kind"], "begin");
    assert_eq!(lines[0]["seed"], "7");
    // The token that begins a text, then the prompt.
    let prompt: Vec<&str> = lines[0]["prompt"]
        .as_array()
        .expect("a prompt")
        .iter()
        .map(|piece| piece["text"].as_str().expect("a text"))
        .collect();
    assert_eq!(prompt, ["<|endoftext|>", "Once", " upon", " a", " time"]);
    let (tokens, story) = text(&lines);
    assert_eq!((tokens, story.clone()), generated(&json!({"seed": 7})));
    let readme = include_str!("../../../README.md");
    let first = story.split_once('.').expect("a sentence").0;
    assert!(readme.contains(first), "{first}");
}

/// Parameters that a reader may come to.
fn params() -> impl Strategy<Value = Value> {
    let one = prop_oneof![
        (0.0..2.0_f64).prop_map(|value| json!({"temperature": value})),
        (1..100_i64).prop_map(|value| json!({"top_k": value})),
        (0.05..1.0_f64).prop_map(|value| json!({"top_p": value})),
        (0.0..0.5_f64).prop_map(|value| json!({"min_p": value})),
        (0.1..1.0_f64).prop_map(|value| json!({"typical_p": value})),
        (0.5..3.0_f64).prop_map(|value| json!({"top_n_sigma": value, "order": "vllm"})),
        (0.0..1.0_f64).prop_map(|value| json!({"xtc_probability": value, "order": "llama.cpp"})),
        (0.8..1.5_f64).prop_map(|value| json!({"repetition_penalty": value})),
        (0.0..1.0_f64).prop_map(|value| json!({"frequency_penalty": value, "presence_penalty": value / 2.0})),
        (0.0..2.0_f64).prop_map(|value| json!({"dry_multiplier": value, "order": "vllm"})),
        (2..4_u32).prop_map(|value| json!({"no_repeat_ngram_size": value})),
        (1..3_u8).prop_map(|value| json!({"mirostat": value, "mirostat_tau": 3.0, "order": "vllm"})),
        Just(json!({"banned_strings": [" was", " the"]})),
        Just(json!({"stop": [".", "\n"]})),
        Just(json!({"logit_bias": {"5": 2.0, "17": -3.0}})),
    ];
    (prop::collection::vec(one, 0..3), any::<u64>(), 1..24_u32).prop_map(|(parts, seed, length)| {
        let mut all = json!({"seed": seed, "max_tokens": length});
        let order = all.as_object_mut().expect("an object");
        parts.iter().flat_map(|part| part.as_object()).for_each(|part| order.extend(part.clone()));
        all
    })
}

/// Texts equal those of the program for random parameters, and every look says the token that the text has.
#[test]
fn texts_of_random_parameters_are_those_of_the_program_and_each_look_agrees() {
    let mut runner = TestRunner::deterministic();
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let (mut written, mut looked) = (0, 0);
    for _ in 0..60 {
        let params = params().new_tree(&mut runner).expect("parameters").current();
        let question = json!({"prompt": "Once upon a time", "params": params});
        let lines = ask(&mut lab, "write", &question);
        if lines[0]["kind"] == "error" {
            // Two parameters that refuse each other are refused everywhere.
            assert!(SamplingParams::from_value(params.clone()).is_err(), "{params}: {}", lines[0]);
            continue;
        }
        written += 1;
        let (tokens, words) = text(&lines);
        assert_eq!((tokens.clone(), words), generated(&params), "{params}");
        for (position, &token) in tokens.iter().enumerate() {
            let mut look = question.clone();
            (look["tokens"], look["position"], look["listed"]) = (json!(tokens), position.into(), 3.into());
            let line = ask(&mut lab, "look", &look).remove(0);
            assert_eq!(line["token"]["id"], token, "{params} at {position}: {line}");
            looked += 1;
        }
    }
    assert!(written > 40 && looked > 300, "{written} {looked}");
}

#[test]
fn every_token_tells_what_the_model_thought_of_it() {
    let lines = written(&json!({"seed": "7", "max_tokens": 12, "top_k": 1, "temperature": 1.0}));
    let tokens: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "token").collect();
    assert_eq!(tokens.len(), 12);
    for token in tokens {
        // Only the best is kept.
        assert_eq!(
            (&token["probability"], &token["rank"], &token["forced"]),
            (&json!(1.0), &json!(1), &json!(false))
        );
        let (raw, logprob) = (
            token["raw_probability"].as_f64().expect("a number"),
            token["logprob"].as_f64().expect("a number"),
        );
        assert!((ln(raw) - logprob).abs() < 1e-9 && raw > 0.0 && raw < 1.0, "{token}");
        let entropy = token["entropy"].as_f64().expect("a number");
        assert!(entropy > 0.0 && entropy < 12.0, "{token}");
    }
    // The last entropy is that of the row, by its definition.
    let model = stories::model().expect("a model");
    let (ids, _) = text(&lines);
    let all = [TOKENIZER.encode("Once upon a time").expect("tokens"), ids[..11].to_vec()].concat();
    let mut memory = model.start();
    let row =
        model.forward(&mut [onedraw_lm::Run::line(&mut memory, &all)]).expect("a pass").remove(0).logits;
    let most = row.iter().copied().fold(f32::MIN, f32::max);
    let weights: Vec<f64> = row.iter().map(|&x| exp(f64::from(x - most))).collect();
    let total = weights.iter().fold(0.0, |sum, weight| sum + weight);
    let entropy = weights
        .iter()
        .fold(0.0, |sum, weight| sum - weight / total * ln(weight / total) / std::f64::consts::LN_2);
    let told = lines[lines.len() - 2]["entropy"].as_f64().expect("a number");
    assert!((told - entropy).abs() < 1e-4, "{told} {entropy}");
}

#[test]
fn a_branch_has_its_token_and_goes_on_with_the_same_seed() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let params = json!({"seed": "7", "max_tokens": 20});
    let (plain, _) = text(&ask(&mut lab, "write", &json!({"prompt": "Tom saw a big", "params": params})));
    let truck = TOKENIZER.encode_plain(" truck").expect("tokens")[0];
    let question =
        json!({"prompt": "Tom saw a big", "params": params, "forced": [{"position": 3, "token": truck}]});
    let lines = ask(&mut lab, "write", &question);
    let (branch, _) = text(&lines);
    assert_eq!((&branch[..3], branch[3]), (&plain[..3], truck));
    assert_ne!(plain, branch);
    assert_eq!(lines[4]["forced"], true);
    // Its numbers are those of its place: the stages may have removed it, the model had a probability for it.
    assert!(lines[4]["raw_probability"].as_f64().is_some_and(|raw| raw > 0.0), "{}", lines[4]);
    assert!(lines[4]["probability"].as_f64().is_some_and(|probability| probability < 1.0), "{}", lines[4]);
    // The link that replays it is the same question.
    assert_eq!(text(&ask(&mut lab, "write", &question)).0, branch);
}

#[test]
fn guesses_are_shown_pass_by_pass_and_change_nothing() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let question = |draft: Value| json!({"prompt": "Once upon a time", "params": {"seed": "7", "max_tokens": 80}, "draft": draft});
    let plain = text(&ask(&mut lab, "write", &question(Value::Null)));
    let before = model.passes();
    let lines = ask(&mut lab, "write", &question("draft".into()));
    let passes = model.passes() - before;
    assert_eq!(text(&lines), plain);
    assert!(passes < 60, "{passes} passes for 80 tokens");
    let (mut accepted, mut rejected) = (0, 0);
    for line in lines.iter().filter(|line| line["kind"] == "pass") {
        let position = line["position"].as_u64().expect("a position") as usize;
        let guesses = line["guesses"].as_array().expect("guesses");
        assert!((1..=4).contains(&guesses.len()));
        for (place, guess) in guesses.iter().enumerate() {
            let right = guess["id"] == plain.0[position + place];
            match guess["accepted"].as_bool().expect("a flag") {
                true => accepted += 1,
                false => rejected += 1,
            }
            // The first that is not the text's token ends the path.
            if guess["accepted"] == true {
                assert!(right);
            } else {
                assert!(!right || guesses[..place].iter().any(|before| before["accepted"] == false));
            }
        }
    }
    assert!(accepted > 20 && rejected > 10, "{accepted} {rejected}");
    // A text that is written again shows the same guesses: they do not depend on the time.
    assert_eq!(ask(&mut lab, "write", &question("draft".into())), lines);
}

#[test]
fn a_banned_phrase_is_taken_back_in_the_open() {
    let params = json!({"seed": "7", "max_tokens": 40, "banned_strings": [" there was"]});
    let lines = written(&params);
    let backs = lines.iter().filter(|line| line["kind"] == "back").count();
    assert!(backs > 0);
    let (tokens, story) = text(&lines);
    assert!(!story.contains(" there was"), "{story}");
    assert_eq!(tokens, generated(&params_with_number(&params)).0);
}

fn params_with_number(params: &Value) -> Value {
    let mut params = params.clone();
    params["seed"] = params["seed"].as_str().expect("digits").parse::<u64>().expect("a number").into();
    params
}

#[test]
fn a_schema_is_kept_and_what_it_forces_has_no_row() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let schema = json!({"type": "object", "properties": {"name": {"enum": ["Tom", "Lily"]}}, "required": ["name"], "additionalProperties": false});
    let question = json!({"prompt": "My pet: ", "params": {"seed": "1", "max_tokens": 40}, "schema": schema.to_string()});
    let lines = ask(&mut lab, "write", &question);
    let (tokens, words) = text(&lines);
    assert!([r#"{"name":"Tom"}"#, r#"{"name":"Lily"}"#].contains(&words.as_str()), "{words}");
    let forced: Vec<&Value> = lines.iter().filter(|line| line["forced"] == true).collect();
    assert!(!forced.is_empty());
    assert!(forced.iter().all(|line| line["probability"].is_null() && line["entropy"].is_null()));
    // Where there was a choice, all but few tokens are masked, and the look is at the token of the text.
    let drawn = lines.iter().find(|line| line["forced"] == false).expect("a drawn token");
    let position = drawn["position"].as_u64().expect("a position") as usize;
    let mut look = question.clone();
    (look["tokens"], look["position"]) = (json!(tokens), position.into());
    let line = ask(&mut lab, "look", &look).remove(0);
    assert_eq!(line["token"]["id"], drawn["id"], "{line}");
    let masked = line["masked"].as_u64().expect("a number");
    assert!(masked > 4000 && masked < 4096, "{masked}");
    let allowed = line["stages"].as_array().expect("stages").iter().find(|stage| stage["stage"] == "allowed");
    assert_eq!(allowed.expect("a stage")["gone"], masked);
}
