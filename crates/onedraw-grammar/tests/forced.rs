//! Tokens that must come: they are what the tokenizer would write, and change no text.

use onedraw::Constraint;
use onedraw_grammar::{Grammar, Vocabulary};

use crate::chance::Chance;
use crate::vocabularies::{self, ids};

const SCHEMA: &str = r#"{"type": "object", "properties": {
    "the name of the animal": {"type": "string", "maxLength": 12},
    "favourite colour": {"enum": ["bright red", "bright green"]},
    "is it happy": {"type": "boolean"}
  }, "required": ["the name of the animal", "favourite colour", "is it happy"], "additionalProperties": false}"#;

type Cut = fn(&str) -> Option<Vec<u32>>;

/// Writes a text that chooses by `seed`, with forced tokens taken at once or drawn under masks.
fn write(grammar: &Grammar, seed: u64, at_once: bool) -> (Vec<u8>, usize) {
    let vocabulary = grammar.vocabulary();
    let mut matcher = grammar.start();
    let (mut text, mut drawn) = (Vec::new(), 0);
    loop {
        let forced = if at_once { matcher.forced().unwrap() } else { Vec::new() };
        let is_forced = !forced.is_empty();
        let tokens = if is_forced {
            forced
        } else {
            let mask = ids(matcher.mask().unwrap());
            drawn += 1;
            // The choice depends on the text alone, so that both ways choose alike.
            let mut chance = Chance::new(seed ^ (text.len() as u64) << 8);
            vec![*chance.pick(&mask)]
        };
        for token in tokens {
            // A forced token is the whole mask.
            if is_forced {
                assert_eq!(ids(matcher.mask().unwrap()), [token]);
            }
            matcher.accept(token).unwrap();
            if vocabulary.is_eos(token) {
                return (text, drawn);
            }
            text.extend(vocabulary.bytes(token));
        }
    }
}

#[test]
fn taking_what_is_forced_gives_the_text_that_masks_give() {
    let vocabulary = vocabularies::stories();
    let grammars = [
        Grammar::compact_json_schema(&vocabulary, SCHEMA).unwrap(),
        Grammar::choices(
            &vocabulary,
            &["Once upon a time there was a girl.", "Once upon a time there was a boy."],
        )
        .unwrap(),
        Grammar::regex(&vocabulary, "My favourite number is [0-9], and yours is [0-9]\\.").unwrap(),
        Grammar::lark(&vocabulary, "start: \"begin \" /[a-z]{1,3}/ \" and then the end\"\n").unwrap(),
    ];
    let (mut saved, mut all) = (0, 0);
    for grammar in &grammars {
        for seed in 0..25 {
            let (at_once, few) = write(grammar, seed, true);
            let (one_by_one, many) = write(grammar, seed, false);
            assert_eq!(String::from_utf8(at_once).unwrap(), String::from_utf8(one_by_one).unwrap());
            saved += many - few;
            all += many;
        }
    }
    // Most of these texts is forced.
    assert!(saved * 2 > all, "{saved} of {all}");
}

#[test]
fn a_forced_run_is_the_tokenizers_own() {
    let (vocabulary, tokenizer) = (vocabularies::stories(), vocabularies::tokenizer());
    let texts = [
        "Once upon a time, there was a little girl named Lily.",
        "She said: \"It's 42!\"\n\nThen she left.",
        "naïve café — 10 €",
        "   three spaces, and a tab\t.",
        "{\"name\": \"Tom\", \"age\": 3}",
        "zzzzqqqq 日本語 🦊",
    ];
    for text in texts {
        let grammar = Grammar::choices(&vocabulary, &[text]).unwrap();
        let mut matcher = grammar.start();
        let mut tokens = Vec::new();
        let first = matcher.forced().unwrap();
        assert_eq!(first, tokenizer.encode_plain(text).unwrap(), "{text}");
        for token in first {
            assert_eq!(ids(matcher.mask().unwrap()), [token], "{text}");
            matcher.accept(token).unwrap();
            tokens.push(token);
        }
        assert_eq!(matcher.forced().unwrap(), [0]);
        assert_eq!(tokenizer.text(&tokens), text);
    }
}

#[test]
fn the_end_of_a_run_that_may_be_cut_otherwise_is_left_open() {
    let (vocabulary, tokenizer) = (vocabularies::stories(), vocabularies::tokenizer());
    let grammar = Grammar::regex(&vocabulary, "She was hap(py|less)").unwrap();
    let forced = grammar.start().forced().unwrap();
    // "hap" is forced, too, but " happy" is a token.
    assert_eq!(tokenizer.text(&forced), "She was");
    let mut matcher = grammar.start();
    for token in forced {
        matcher.accept(token).unwrap();
    }
    assert!(matcher.forced().unwrap().is_empty());
    let happy = tokenizer.encode_plain(" happy").unwrap();
    assert_eq!(happy.len(), 1);
    assert!(ids(matcher.mask().unwrap()).contains(&happy[0]));
}

#[test]
fn another_cut_of_what_is_forced_is_accepted() {
    let (vocabulary, tokenizer) = (vocabularies::stories(), vocabularies::tokenizer());
    let grammar = Grammar::choices(&vocabulary, &["Once upon a time"]).unwrap();
    let mut matcher = grammar.start();
    let letters: Vec<u32> =
        "Once".chars().map(|c| tokenizer.encode_plain(&c.to_string()).unwrap()[0]).collect();
    assert_ne!(ids(matcher.mask().unwrap()), [letters[0]]);
    for token in letters {
        matcher.accept(token).unwrap();
    }
    assert_eq!(tokenizer.text(&matcher.forced().unwrap()), " upon a time");
}

#[test]
fn nothing_is_forced_without_a_tokenizer_or_with_one_that_cannot_be_trusted() {
    let tokenizer = vocabularies::tokenizer();
    let bytes = |token| tokenizer.bytes(token).to_vec();
    let silent = Vocabulary::builder((0..4096).map(bytes)).eos([0]).build().unwrap();
    let grammar = Grammar::choices(&silent, &["Once upon a time"]).unwrap();
    assert!(grammar.start().forced().unwrap().is_empty());
    // All the ways to begin.
    let mut first: Vec<Vec<u8>> = ids(grammar.start().mask().unwrap()).into_iter().map(bytes).collect();
    first.sort();
    assert_eq!(first, [b"O".to_vec(), b"On".to_vec(), b"Once".to_vec()]);

    // One that adds a space, one that names an end, one that names no token: what is forced is cut here
    // instead.
    let cutters: [Cut; 4] = [
        |text| vocabularies::tokenizer().encode_plain(&format!(" {text}")).ok(),
        |text| vocabularies::tokenizer().encode(text).ok(),
        |_| Some(vec![99_999]),
        |_| None,
    ];
    for cut in cutters {
        let vocabulary = Vocabulary::builder((0..4096).map(bytes)).eos([0]).cut_by(cut).build().unwrap();
        let grammar = Grammar::choices(&vocabulary, &["Once upon a time"]).unwrap();
        assert_eq!(tokenizer.text(&grammar.start().forced().unwrap()), "Once upon a time");
    }

    // A vocabulary that lacks a byte.
    let holes = (0..4096).map(|token| Some(bytes(token)).filter(|bytes| bytes != b"q").unwrap_or_default());
    let vocabulary =
        Vocabulary::builder(holes).eos([0]).cut_by(|text| vocabularies::tokenizer().encode_plain(text).ok());
    let grammar = Grammar::choices(&vocabulary.build().unwrap(), &["Once upon a time"]).unwrap();
    assert!(grammar.start().forced().unwrap().is_empty());
}
