//! `beams`: a search as a tree.

use onedraw::SamplingParams;
use onedraw::beam::BeamParams;
use onedraw_lm::Beams;
use serde_json::{Value, json};

use crate::support::{Counting, TOKENIZER, ask, lab, one};

#[test]
fn the_tree_holds_the_texts_that_a_search_finds() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let question =
        json!({"prompt": "Tom saw a big", "params": {"max_tokens": 8, "seed": "1"}, "beams": {"width": 3}});
    let line = one(&mut lab, "beams", &question);
    let settings = SamplingParams { max_tokens: 8, n: 3, eos_token_id: vec![0], ..SamplingParams::default() };
    let prompt = TOKENIZER.encode("Tom saw a big").expect("tokens");
    let params = BeamParams { width: 3, ..BeamParams::default() };
    let expected = Beams::new(&model, &*TOKENIZER).search(&prompt, settings, params).expect("texts");
    let found = line["found"].as_array().expect("texts");
    assert_eq!(found.len(), 3);
    let nodes = line["nodes"].as_array().expect("nodes");
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(
            (&found["text"], found["score"].as_f64()),
            (&json!(expected.text), Some(expected.hypothesis.score))
        );
        // The way up from its node is its text.
        let mut tokens = Vec::new();
        let mut at = found["node"].as_u64();
        while let Some(node) = at {
            let node = &nodes[node as usize];
            assert_eq!(node["kept"], true);
            tokens.push(node["id"].as_u64().expect("an id") as u32);
            at = node["parent"].as_u64();
        }
        tokens.reverse();
        assert_eq!(tokens, expected.hypothesis.tokens);
    }
    for (place, node) in nodes.iter().enumerate() {
        assert_eq!(node["node"], place);
        assert!(node["parent"].as_u64().is_none_or(|parent| (parent as usize) < place), "{node}");
        let parent = node["parent"]
            .as_u64()
            .map_or(0.0, |parent| nodes[parent as usize]["logprob"].as_f64().expect("a number"));
        assert!(node["logprob"].as_f64().expect("a number") <= parent, "{node}");
    }
    assert!(nodes.iter().any(|node| node["kept"] == false));
}

#[test]
fn a_search_goes_on_pass_by_pass_and_keeps_to_a_schema() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let schema = json!({"enum": ["yes", "no"]}).to_string();
    let question =
        json!({"prompt": "Is it? ", "params": {"max_tokens": 12}, "schema": schema, "beams": {"width": 2}});
    let read = subject.read("beams", question.to_string().as_bytes()).expect("a question");
    let grammar = read.form().map(|form| subject.compile(&form).expect("a grammar"));
    let mut answer = lab.begin(read, grammar);
    let mut lines: Vec<Value> = Vec::new();
    while let Some(more) = {
        let before = model.passes();
        let more = lab.step(&mut answer);
        assert!(model.passes() - before <= 1);
        more
    } {
        lines.extend(more);
    }
    let texts: Vec<&str> = lines[0]["found"]
        .as_array()
        .expect("texts")
        .iter()
        .map(|found| found["text"].as_str().expect("a text"))
        .collect();
    assert!(texts.iter().all(|text| [r#""yes""#, r#""no""#].contains(text)), "{texts:?}");
    for (beams, message) in [
        (json!({"width": 0}), "beams: must be in [1, 4096], not 0"),
        (json!({"width": 3000}), "3000 beams of 256 tokens are too many to show"),
        (json!({"width": 2, "depth": 1}), "depth: this question has no such field"),
        (json!({}), "width: is missing; it must be a whole number"),
    ] {
        let error = ask(&mut lab, "beams", &json!({"prompt": "Tom", "beams": beams})).remove(0);
        let told = error["error"]["message"].as_str().expect("a sentence");
        assert!(told.contains(message), "{told}");
    }
}
