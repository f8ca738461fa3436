//! Questions that cannot be answered: each a sentence, and the laboratory goes on.

use serde_json::{Value, json};

use crate::support::{Counting, ask, lab, text};

#[test]
fn what_is_wrong_is_a_sentence_with_its_field() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let long = "big ".repeat(600);
    let cases: [(&str, Value, &str, Option<&str>); 22] = [
        ("sing", json!({}), "`sing` is not a question; there are about, write, look", None),
        ("write", json!([]), "the question must be a JSON object", None),
        ("write", json!({}), "prompt: is missing; it must be a text", Some("prompt")),
        ("write", json!({"prompt": 7}), "prompt: must be a text", Some("prompt")),
        ("write", json!({"prompt": "Tom", "params": []}), "params: must be an object", Some("params")),
        (
            "write",
            json!({"prompt": "Tom", "forced": [{"position": -1, "token": 2}]}),
            "forced: must be a list of tokens such as {\"position\": 3, \"token\": 500}",
            Some("forced"),
        ),
        (
            "write",
            json!({"prompt": "Tom", "tones": 1}),
            "tones: this question has no such field",
            Some("tones"),
        ),
        (
            "look",
            json!({"prompt": "Tom", "tokens": [], "position": 0, "listed": 1001}),
            "listed: 1001 are more than the 1000 that are named at most",
            Some("listed"),
        ),
        (
            "beams",
            json!({"prompt": "Tom", "beams": {"width": "2"}}),
            "width: must be a whole number",
            Some("width"),
        ),
        ("write", json!({"prompt": long}), "and there is room for 512; make it shorter", Some("prompt")),
        (
            "write",
            json!({"prompt": "Tom", "params": {"min_p": 3}}),
            "min_p: must be in [0, 1], not 3",
            Some("min_p"),
        ),
        ("write", json!({"prompt": "Tom", "params": {"min_pp": 0}}), "min_pp", Some("min_pp")),
        (
            "write",
            json!({"prompt": "Tom", "params": {"n": 2}}),
            "n: the laboratory writes one text",
            Some("n"),
        ),
        (
            "write",
            json!({"prompt": "Tom", "params": {"seed": "x"}}),
            "seed: must be a whole number from 0 to 2^64 - 1",
            Some("seed"),
        ),
        (
            "write",
            json!({"prompt": "Tom", "params": {"output_token_ids": [1]}}),
            "output_token_ids: the tokens of the text come",
            Some("output_token_ids"),
        ),
        (
            "write",
            json!({"prompt": "Tom", "params": {"allowed_token_ids": [5000]}}),
            "allowed_token_ids",
            Some("allowed_token_ids"),
        ),
        ("write", json!({"prompt": "Tom", "order": ["top_q"]}), "`top_q` is not a stage", Some("order")),
        (
            "write",
            json!({"prompt": "Tom", "draft": "oracle"}),
            "draft: there is no drafter `oracle` for this model; there is ngram, draft",
            Some("draft"),
        ),
        ("write", json!({"prompt": "Tom", "schema": "{\"type\":"}), "schema: ", Some("schema")),
        (
            "write",
            json!({"prompt": "Tom", "schema": "{\"type\": \"integer\", \"minimum\": 5, \"maximum\": 3}"}),
            "schema: ",
            Some("schema"),
        ),
        (
            "write",
            json!({"prompt": "Tom", "forced": [{"position": 0, "token": 9999}]}),
            "forced: token 9999 is outside the vocabulary of 4096",
            Some("forced"),
        ),
        (
            "look",
            json!({"prompt": "Tom", "tokens": [1], "position": 2}),
            "tokens: there are 1, and position 2 comes after more",
            Some("tokens"),
        ),
    ];
    for (name, question, message, field) in cases {
        let lines = ask(&mut lab, name, &question);
        assert_eq!(lines.len(), 1, "{name} {question}: {lines:?}");
        assert_eq!(lines[0]["kind"], "error", "{name} {question}");
        let error = &lines[0]["error"];
        let told = error["message"].as_str().expect("a sentence");
        assert!(told.contains(message) && !told.contains('\n'), "{told:?} for {question}");
        assert_eq!(error["field"].as_str(), field, "{told}");
    }
    // No JSON at all.
    for body in [&b"{"[..], b"", b"\xff", b"{\"prompt\": \"a\", \"prompt\": \"b\"}"] {
        let lines = lab.ask("write", body);
        assert_eq!((lines.len(), &lines[0]["error"]["kind"]), (1, &json!("question")));
    }
    // It goes on.
    let (tokens, _) =
        text(&ask(&mut lab, "write", &json!({"prompt": "Tom", "params": {"seed": "1", "max_tokens": 3}})));
    assert_eq!(tokens.len(), 3);
}

#[test]
fn a_branch_that_breaks_the_schema_ends_with_a_sentence() {
    let model = Counting::new();
    let subject = model.subject();
    let question = json!({"prompt": "Is it? ", "params": {"seed": "1"}, "schema": "{\"enum\": [\"yes\", \"no\"]}", "forced": [{"position": 0, "token": 300}]});
    let lines = ask(&mut lab(&model, &subject), "write", &question);
    let last = lines.last().expect("lines");
    assert_eq!((&last["kind"], &last["error"]["kind"]), (&json!("error"), &json!("row")));
    assert!(last["error"]["message"].as_str().is_some_and(|message| message.contains("token 300")), "{last}");
}

#[test]
fn limits_are_those_that_were_set() {
    let model = Counting::new();
    let bounds = onedraw_lab::Bounds { prompt: 5, tokens: 4, items: 1, schema: 10, beams: 3 };
    let subject = model.subject().bounded(bounds);
    let mut lab = lab(&model, &subject);
    for (question, message) in [
        (json!({"prompt": "Once upon a time there"}), "the prompt has 6 tokens, and there is room for 5"),
        (
            json!({"prompt": "Tom", "params": {"max_tokens": 5}}),
            "max_tokens: 5 are more than the 4 allowed here",
        ),
        (
            json!({"prompt": "Tom", "params": {"stop": ["a", "b"]}}),
            "stop: 2 are more than the 1 allowed here",
        ),
        (
            json!({"prompt": "Tom", "schema": "{\"type\": \"integer\"}"}),
            "schema: 19 bytes are more than the 10 allowed here",
        ),
    ] {
        let line = ask(&mut lab, "write", &question).remove(0);
        let told = line["error"]["message"].as_str().expect("a sentence");
        assert!(told.contains(message), "{told}");
    }
    let question = json!({"prompt": "Tom", "params": {"max_tokens": 4}, "beams": {"width": 4}});
    let line = ask(&mut lab, "beams", &question).remove(0);
    assert_eq!(line["error"]["message"], "beams: 4 beams are more than the 3 allowed here");
    // Without a length, the text is as long as is allowed.
    let (tokens, _) = text(&ask(&mut lab, "write", &json!({"prompt": "Tom", "params": {"seed": "1"}})));
    assert_eq!(tokens.len(), 4);
}
