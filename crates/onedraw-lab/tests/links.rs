//! `share` and `open`.

use onedraw_lab::{Lab, Subject};
use onedraw_lm::{Tokenizer, stories};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

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
    let mut kept = state();
    kept["draft"] = Value::Null;
    kept["beside"]["draft"] = Value::Null;
    assert_eq!(opened["state"], kept);
    assert_eq!(
        opened["warnings"],
        json!([
            "The link was made with another model, stories; here it is small, so the text will be another one.",
            "The link asks for guesses by the drafter ngram, which is not here. The text is the same without it.",
        ])
    );
    // What is left can be written.
    kept.as_object_mut().expect("an object").remove("beside");
    let written = lab.ask("write", kept.to_string().as_bytes());
    assert_eq!(written.last().map(|line| &line["kind"]), Some(&json!("end")), "{written:?}");
}

/// The tokenizer and the model's own settings decide over a text, too.
#[test]
fn another_tokenizer_and_other_settings_are_warnings() {
    let model = Counting::new();
    let state = json!({"state": {"prompt": "Tom", "params": {"seed": "1"}}});
    let link = one(&mut lab(&model, &model.subject()), "share", &state);
    let hash = stories::model().expect("a model").sha256().to_owned();
    let tokenizer = || stories::tokenizer().expect("a tokenizer");
    let settings = || stories::generation_config().expect("settings");
    let warnings = |subject: &Subject| one(&mut lab(&model, subject), "open", &link)["warnings"].clone();
    assert_eq!(warnings(&Subject::new("elsewhere", &model, &hash, tokenizer(), settings())), json!([]));
    let other = stories_tokenizer_with_a_space();
    assert_eq!(
        warnings(&Subject::new("stories", &model, &hash, other, settings())),
        json!(["The tokenizer of the model is another one here, so the text may be another one."])
    );
    let mut warmer = settings();
    warmer.params.insert("temperature".to_owned(), 0.9.into());
    let mut shorter = settings();
    shorter.max_length = Some(20);
    let mut endless = settings();
    endless.eos_token_ids = vec![1];
    for other in [warmer, shorter, endless] {
        assert_eq!(
            warnings(&Subject::new("stories", &model, &hash, tokenizer(), other)),
            json!(["The model's own settings are other ones here, so the text may be another one."])
        );
    }
}

/// Links of other builds and versions have these hashes too, so what is hashed stays as it is.
#[test]
fn settings_are_hashed_as_json_with_sorted_names() {
    let model = Counting::new();
    let hash = stories::model().expect("a model").sha256().to_owned();
    let mut other = stories::generation_config().expect("settings");
    other.max_length = Some(20);
    // By name, 300 comes before 9.
    other.params.insert("logit_bias".to_owned(), json!({"9": 1.5, "300": -2}));
    let tokenizer = stories::tokenizer().expect("a tokenizer");
    let other = Subject::new("stories", &model, &hash, tokenizer, other);
    let order = concat!(
        r#"["logit_bias","penalties","no_repeat_ngram","bad_words","min_tokens","allowed","#,
        r#""temperature","top_k","top_p","min_p","typical","epsilon","eta"]"#,
    );
    let end = format!(r#""max_tokens":256,"order":{order},"temperature":0.7,"top_k":50,"top_p":0.9}}}}"#);
    let own = format!(r#"{{"max_length":null,"params":{{"eos_token_id":[0],{end}"#);
    let changed = format!(
        r#"{{"max_length":20,"params":{{"eos_token_id":[0],"logit_bias":{{"300":-2.0,"9":1.5}},{end}"#
    );
    for (subject, text, expected) in
        [(model.subject(), own, "7795b37b8c4c7271"), (other, changed, "696bbdfa7be571ab")]
    {
        let link = one(&mut lab(&model, &subject), "share", &json!({"state": {"prompt": "Tom"}}));
        let shared = opened_by_hand(link["fragment"].as_str().expect("a fragment"));
        let digest: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!((shared["settings"].as_str(), &digest[..16]), (Some(expected), expected));
    }
}

/// A tokenizer of other bytes, which cuts in the same way.
fn stories_tokenizer_with_a_space() -> Tokenizer {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/stories/tokenizer.json");
    let json = std::fs::read(path).expect("the file");
    Tokenizer::embedded("other", &[&json[..], b" "].concat()).expect("a tokenizer")
}

/// A link with a right check and something else in it: the work of somebody who knows how links are made.
#[test]
fn a_link_that_holds_no_state_is_a_sentence() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    let link = one(&mut lab, "share", &json!({"state": {"prompt": "Tom"}}));
    let shared = opened_by_hand(link["fragment"].as_str().expect("a fragment"));
    for (state, why) in [
        (json!({}), "prompt: is missing; it must be a text"),
        (json!({"prompt": 7}), "prompt: must be a text"),
        (json!({"prompt": "Tom", "params": 7}), "params: must be an object"),
        (json!({"prompt": "Tom", "order": [7]}), "order: must be a list of names of stages"),
        (json!({"prompt": "Tom", "forced": {"0": 1}}), "forced: must be a list of tokens"),
        (json!({"prompt": "Tom", "beside": "B"}), "beside: must be an object"),
        (json!({"prompt": "Tom", "beside": {"params": {}}}), "prompt: is missing"),
        (json!({"prompt": "Tom", "colour": "red"}), "colour: this question has no such field"),
    ] {
        let mut edited = shared.clone();
        edited["state"] = state;
        let line = one(&mut lab, "open", &json!({"fragment": made_by_hand(&edited)}));
        let message = line["error"]["message"].as_str().expect("a sentence");
        assert!(message.starts_with("the link cannot be read by this version of onedraw ("), "{message}");
        assert!(message.contains(why), "{message}");
        assert_eq!(line["error"]["kind"], "link");
    }
    // What a model cannot do is a warning, and the reader can change it.
    let mut edited = shared;
    edited["state"] = json!({"prompt": "Tom", "params": {"top_p": "much"}});
    let line = one(&mut lab, "open", &json!({"fragment": made_by_hand(&edited)}));
    assert_eq!(line["state"], edited["state"]);
    let warning = line["warnings"][0].as_str().expect("a sentence");
    assert!(warning.starts_with("The link asks for something that this model cannot do: top_p"), "{warning}");
}

const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn opened_by_hand(fragment: &str) -> Value {
    let mut bits = String::new();
    for character in fragment.bytes() {
        let place = ALPHABET.iter().position(|&known| known == character).expect("base64url");
        bits += &format!("{place:06b}");
    }
    let bytes: Vec<u8> = bits
        .as_bytes()
        .chunks_exact(8)
        .map(|bits| u8::from_str_radix(str::from_utf8(bits).expect("bits"), 2).expect("a byte"))
        .collect();
    serde_json::from_slice(&bytes[4..]).expect("JSON after four bytes")
}

fn made_by_hand(shared: &Value) -> String {
    let json = shared.to_string().into_bytes();
    let check = Sha256::digest(&json);
    let bits: String = check[..4].iter().chain(&json).map(|byte| format!("{byte:08b}")).collect();
    let six = |bits: &[u8]| {
        let bits = format!("{:0<6}", str::from_utf8(bits).expect("bits"));
        char::from(ALPHABET[usize::from_str_radix(&bits, 2).expect("a number")])
    };
    bits.as_bytes().chunks(6).map(six).collect()
}

#[test]
fn a_state_that_cannot_be_written_is_not_shared() {
    let model = Counting::new();
    let subject = model.subject();
    let mut lab = lab(&model, &subject);
    for (state, message) in [
        (json!({"prompt": "Tom", "params": {"top_p": 2}}), "top_p: must be in [0, 1], not 2"),
        (json!({"params": {}}), "prompt: is missing"),
        (json!({"prompt": "Tom", "other": 1}), "other: this question has no such field"),
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
