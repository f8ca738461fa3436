//! `share` and `open`.

use onedraw_lab::{Lab, Subject};
use onedraw_lm::stories;
use serde_json::{Value, json};

use crate::support::{Counting, ask, lab, one, text};

fn state() -> Value {
    json!({
        "prompt": "Tom saw a big „Bär“",
        "params": {"seed": "18446744073709551615", "min_p": 0.1, "max_tokens": 20},
        "forced": [{"position": 2, "token": 300}],
        "draft": "ngram",
        "schema": null,
        "beside": {"prompt": "Tom saw a big „Bär“", "params": {"seed": "18446744073709551615", "top_k": 5}},
    })
}

#[test]
fn a_link_replays_the_text() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let link = one(&mut lab, "share", &json!({"state": state()}));
    let fragment = link["fragment"].as_str().expect("a fragment");
    assert!(fragment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{fragment}");
    for fragment in [fragment.to_owned(), format!("#{fragment}")] {
        let opened = one(&mut lab, "open", &json!({"fragment": fragment}));
        assert_eq!(opened, json!({"state": state(), "warnings": []}));
    }
    let mut question = state();
    question.as_object_mut().expect("an object").remove("beside");
    let written = text(&ask(&mut lab, "write", &question));
    assert_eq!(written.0[2], 300);
    // On another machine, that is, in another laboratory.
    let mut opened = one(&mut lab, "open", &link)["state"].clone();
    opened.as_object_mut().expect("an object").remove("beside");
    let (elsewhere, its) = (Counting::new(), model.subject());
    assert_eq!(text(&ask(&mut crate::support::lab(&elsewhere, &its), "write", &opened)), written);
}

#[test]
fn an_edited_link_is_a_sentence_wherever_it_was_edited() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let link = one(&mut lab, "share", &json!({"state": state()}));
    let fragment = link["fragment"].as_str().expect("a fragment").to_owned();
    let changed = "the link is not whole: it was cut or changed on its way; ask for it again";
    let mut wrong: Vec<String> =
        (0..fragment.len()).step_by(7).map(|length| fragment[..length].to_owned()).collect();
    for place in (0..fragment.len()).step_by(5) {
        let mut bytes = fragment.clone().into_bytes();
        bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
        wrong.push(String::from_utf8(bytes).expect("text"));
    }
    wrong.extend(["%F0%9F".to_owned(), "ä".to_owned(), "A".repeat(100_000)]);
    for fragment in wrong {
        let line = one(&mut lab, "open", &json!({"fragment": fragment}));
        assert_eq!(line["error"], json!({"kind": "link", "message": changed, "field": null}), "{fragment}");
    }
}

#[test]
fn another_model_and_what_it_cannot_do_are_warnings() {
    let model = Counting::new();
    let subject = model.subject();
    let link = one(&mut lab(&model, &subject), "share", &json!({"state": state()}));
    let drafter = stories::drafter().expect("a model");
    let settings = stories::generation_config().expect("settings");
    let tokenizer = stories::tokenizer().expect("a tokenizer");
    let other = Subject::new("small", &drafter, drafter.sha256(), tokenizer, settings);
    let mut lab = Lab::new(&drafter, &other);
    let opened = lab.ask("open", link.to_string().as_bytes()).remove(0);
    assert_eq!(opened["state"], state());
    assert_eq!(
        opened["warnings"],
        json!([
            "The link was made with another model, stories; here it is small, so the text will be another one."
        ])
    );
}

#[test]
fn a_state_that_cannot_be_written_is_not_shared() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    for (state, message) in [
        (json!({"prompt": "Tom", "params": {"top_p": 2}}), "top_p: must be in [0, 1], not 2"),
        (json!({"params": {}}), "missing field `prompt`"),
        (json!({"prompt": "Tom", "other": 1}), "unknown field `other`"),
        (
            json!({"prompt": "Tom", "beside": {"prompt": "Tom", "params": {"top_k": -7}}}),
            "top_k: must be at least 1",
        ),
        (
            json!({"prompt": "Tom", "beside": {"prompt": "Tom", "beside": {"prompt": "Tom"}}}),
            "two texts stand side by side, not three",
        ),
        (json!("Tom"), "state: must be an object"),
    ] {
        let line = one(&mut lab, "share", &json!({"state": state}));
        let told = line["error"]["message"].as_str().expect("a sentence");
        assert!(told.contains(message), "{told}");
    }
}
