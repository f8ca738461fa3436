//! `look`: frozen logits.

use serde_json::{Value, json};

use crate::support::{Counting, TOKENIZER, ask, lab, one, text};

fn look(params: Value, tokens: &[u32], position: usize) -> Value {
    json!({"prompt": "Tom saw a big", "params": params, "tokens": tokens, "position": position})
}

#[test]
fn a_second_look_with_other_parameters_makes_no_pass() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let params = json!({"seed": "7", "max_tokens": 30});
    let (tokens, _) = text(&ask(&mut lab, "write", &json!({"prompt": "Tom saw a big", "params": params})));
    let after_text = model.passes();
    let mut drawn = std::collections::BTreeSet::new();
    for position in 0..tokens.len() {
        for min_p in [0.0, 0.05, 0.3, 1.0] {
            let params = json!({"seed": "7", "min_p": min_p, "temperature": 1.5});
            drawn.insert(one(&mut lab, "look", &look(params, &tokens, position))["token"]["id"].to_string());
        }
    }
    assert!(drawn.len() > 20, "other parameters draw other tokens: {}", drawn.len());
    assert_eq!(model.passes(), after_text);
    // A position that nobody has written takes one pass, the first time.
    let elsewhere = TOKENIZER.encode_plain(" dragon and a cat").expect("tokens");
    for (seed, passes) in [("1", 1), ("2", 1), ("3", 1)] {
        one(&mut lab, "look", &look(json!({"seed": seed}), &elsewhere, elsewhere.len()));
        assert_eq!(model.passes(), after_text + passes);
    }
}

#[test]
fn min_p_says_what_it_removes_and_by_how_little() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let params =
        json!({"seed": "5", "min_p": 0.1, "temperature": 1.0, "top_p": 1.0, "top_k": 0, "order": "vllm"});
    let mut question = look(params, &[], 0);
    question["listed"] = 1000.into();
    let line = one(&mut lab, "look", &question);
    let stages = line["stages"].as_array().expect("stages");
    let names: Vec<&str> = stages.iter().map(|stage| stage["stage"].as_str().expect("a name")).collect();
    // A temperature of 1 is idle.
    assert_eq!(names, ["row", "min_p"]);
    let (row, min_p) = (&stages[0], &stages[1]);
    let best = row["leading"][0]["probability"].as_f64().expect("a number");
    assert_eq!(row["leading"][0]["text"], " truck");
    let removed = min_p["removed"].as_array().expect("tokens");
    assert_eq!(removed.len(), 1000);
    let tokens = min_p["tokens"].as_u64().expect("a number");
    assert_eq!(min_p["gone"].as_u64(), Some(4096 - tokens));
    let last_kept = min_p["leading"].as_array().and_then(|left| left.last()).expect("a token");
    let mass = min_p["mass"].as_f64().expect("a number");
    let border = last_kept["probability"].as_f64().expect("a number") * mass;
    assert!(border >= 0.1 * best * 0.9999);
    for token in removed {
        let probability = token["probability"].as_f64().expect("a number");
        assert!(probability < 0.1 * best, "{token}");
        let short = token["short"].as_f64().expect("a number");
        assert!((short - (border - probability)).abs() < 1e-9 && short >= 0.0, "{token}");
    }
    // The texts of the tokens are theirs.
    for token in removed.iter().take(20) {
        let id = token["id"].as_u64().expect("an id") as u32;
        assert_eq!(token["text"], TOKENIZER.piece(id));
    }
    assert_eq!(line["masked"], 0);
    assert_eq!(line["seed"], "5");
}

#[test]
fn a_stage_that_cuts_in_the_middle_has_no_border() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let best =
        one(&mut lab, "look", &look(json!({"seed": "1"}), &[], 0))["stages"][0]["leading"][0]["id"].clone();
    let params = json!({"seed": "1", "bad_words_ids": [[best]], "order": "vllm"});
    let line = one(&mut lab, "look", &look(params, &[], 0));
    let stage = line["stages"].as_array().expect("stages").iter().find(|stage| stage["stage"] == "bad_words");
    let stage = stage.expect("a stage");
    assert_eq!((&stage["gone"], &stage["removed"][0]["id"]), (&json!(1), &best));
    assert_eq!(stage["removed"][0]["short"], Value::Null);
}

/// A text whose draws depend on more than its tokens is written again by a laboratory that has not seen it, and the
/// look is the same.
#[test]
fn a_look_depends_on_the_question_alone() {
    for params in [
        json!({"seed": "7", "max_tokens": 30, "banned_strings": [" was", " a"]}),
        json!({"seed": "7", "max_tokens": 30, "mirostat": 2, "mirostat_tau": 2.0, "order": "vllm"}),
        json!({"seed": "7", "max_tokens": 30, "repetition_penalty": 1.4}),
    ] {
        let model = Counting::new();
        let subject = model.subject();
        let mut seen = lab(&model, &subject);
        let (tokens, _) =
            text(&ask(&mut seen, "write", &json!({"prompt": "Tom saw a big", "params": params})));
        for position in [0, 3, 11, tokens.len() - 1] {
            let question = look(params.clone(), &tokens, position);
            let known = one(&mut seen, "look", &question);
            assert_eq!(known["token"]["id"], tokens[position], "{params} {position}");
            // One that never saw the text, and one that saw another text with the same tokens.
            assert_eq!(one(&mut lab(&model, &subject), "look", &question), known, "{params} {position}");
            let mut other = lab(&model, &subject);
            let mut plain = look(json!({"seed": "9"}), &tokens, position);
            plain["listed"] = 1.into();
            one(&mut other, "look", &plain);
            assert_eq!(one(&mut other, "look", &question), known, "{params} {position}");
        }
    }
}

/// Also where the rows of the text that is written again are not kept.
#[test]
fn a_look_does_not_depend_on_the_memory_for_rows() {
    for params in [
        json!({"seed": "7", "max_tokens": 30, "banned_strings": [" was", " a"]}),
        json!({"seed": "7", "max_tokens": 30, "mirostat": 2, "mirostat_tau": 2.0, "order": "vllm"}),
        json!({"seed": "7", "max_tokens": 30, "repetition_penalty": 1.4}),
    ] {
        let model = Counting::new();
        let subject = model.subject();
        let mut seen = lab(&model, &subject);
        let (tokens, _) =
            text(&ask(&mut seen, "write", &json!({"prompt": "Tom saw a big", "params": params})));
        for position in 0..tokens.len() {
            let question = look(params.clone(), &tokens, position);
            let known = one(&mut seen, "look", &question);
            let mut forgetful = lab(&model, &subject).memory(0);
            assert_eq!(one(&mut forgetful, "look", &question), known, "{params} {position}");
        }
    }
}

/// Nothing is taken back with mirostat, so the text is written again only as far as the draw.
#[test]
fn a_look_at_the_beginning_does_not_write_the_whole_text_again() {
    let model = Counting::new();
    let subject = model.subject();
    let params = json!({"seed": "7", "max_tokens": 30, "mirostat": 2, "mirostat_tau": 2.0, "order": "vllm"});
    let question = look(params, &[], 0);
    one(&mut lab(&model, &subject), "look", &question);
    assert_eq!(model.passes(), 1);
}

#[test]
fn a_long_prompt_is_read_in_parts() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let prompt = "Tom saw a big dog. ".repeat(60);
    let length = TOKENIZER.encode(&prompt).expect("tokens").len();
    assert!(length > 300 && length <= 512, "{length}");
    let body = json!({"prompt": prompt, "params": {"seed": "1"}, "tokens": [], "position": 0}).to_string();
    let question = subject.read("look", body.as_bytes()).expect("a question");
    let mut answer = lab.begin(question, None);
    let (mut steps, mut lines) = (0, Vec::new());
    while let Some(more) = lab.step(&mut answer) {
        let before = model.passes();
        steps += 1;
        lines.extend(more);
        assert!(model.passes() - before <= 1);
    }
    assert_eq!((lines.len(), model.passes()), (1, length.div_ceil(128)));
    assert!(steps >= length.div_ceil(128));
}
