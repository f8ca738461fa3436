//! Text to tokens and back, by tokenizers of the two great families, made here.

use std::fs;
use std::path::Path;

use onedraw_lm::{ModelError, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};

/// GPT-2's letter of a byte.
fn letter(byte: u8) -> char {
    let others = (0..byte).filter(|byte| !is_letter(*byte)).count() as u32;
    char::from_u32(if is_letter(byte) { byte.into() } else { 0x100 + others }).unwrap()
}

fn is_letter(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e | 0xa1..=0xac | 0xae..)
}

/// A vocabulary: pieces in order of their ids.
fn vocabulary(pieces: impl IntoIterator<Item = String>) -> Value {
    pieces
        .into_iter()
        .enumerate()
        .map(|(id, piece)| (piece, id.into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn added(id: u32, content: &str, special: bool) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": special})
}

/// What puts a token before a text.
fn beginning(content: &str, id: u32) -> Value {
    json!({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": content, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {content: {"id": content, "ids": [id], "tokens": [content]}}})
}

/// 0 is `<|end|>`, the bytes follow from 1 on, then ` t`, `he`, ` the`, `é`; 261 is `<tool>`, which is text.
fn byte_level() -> Value {
    let letters = (0..=255).map(|byte| letter(byte).to_string());
    let merged = ["Ġt", "he", "Ġthe", "Ã©"].map(str::to_owned);
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(0, "<|end|>", true), added(261, "<tool> é", false)],
        "normalizer": null,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "post_processor": beginning("<|end|>", 0),
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
            "vocab": vocabulary(["<|end|>".to_owned()].into_iter().chain(letters).chain(merged)),
            "merges": ["Ġ t", "h e", "Ġt he", "Ã ©"]}
    })
}

/// 0 to 2 are `<unk>`, `<s>`, `</s>`, the bytes follow from 3 on, then pieces. Llama 2's way, with or without
/// the space that it puts before a text and takes away again.
fn sentence_piece(with_space: bool) -> Value {
    let bytes = (0..=255u8).map(|byte| format!("<0x{byte:02X}>"));
    let pieces = ["▁", "t", "h", "e", "é", "▁t", "he", "▁the", "▁▁"];
    let mut normalizers = vec![json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})];
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if with_space {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let marks = ["<unk>", "<s>", "</s>"];
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added(0, "<unk>", true), added(1, "<s>", true), added(2, "</s>", true)],
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": null,
        "post_processor": beginning("<s>", 1),
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true,
            "vocab": vocabulary(marks.map(str::to_owned).into_iter().chain(bytes).chain(pieces.map(str::to_owned))),
            "merges": ["▁ t", "h e", "▁t he", "▁ ▁"]}
    })
}

/// T5's way: a unigram model over pieces with the metaspace.
fn unigram() -> Value {
    let bytes = (0..=255u8).map(|byte| json!([format!("<0x{byte:02X}>"), -20.0]));
    let pieces =
        ["▁", "t", "h", "e", "▁the", "é"].map(|piece| json!([piece, -(5.0 - piece.len() as f64 / 2.0)]));
    let vocabulary: Vec<Value> = [json!(["<unk>", 0.0])].into_iter().chain(bytes).chain(pieces).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [added(0, "<unk>", true)],
        "normalizer": null,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true},
        "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": true}]},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": true, "vocab": vocabulary}
    })
}

/// Ours, and the library's own.
fn both(json: &Value) -> (Tokenizer, tokenizers::Tokenizer) {
    let text = json.to_string();
    (Tokenizer::embedded("made", text.as_bytes()).unwrap(), tokenizers::Tokenizer::from_bytes(&text).unwrap())
}

fn joined(tokenizer: &Tokenizer, tokens: &[u32]) -> Vec<u8> {
    tokens.iter().flat_map(|&token| tokenizer.bytes(token)).copied().collect()
}

/// Any text but for the metaspace, which stands for a space.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => any::<char>().prop_map(String::from),
        4 => prop::sample::select(vec![
            " ", "  ", "\n", "\r\n", "\n\n\t", "the", " the", "é", "e\u{301}", "👩‍👩‍👧", "🏴󠁧󠁢󠁳󠁣󠁴󠁿", "नि", "\0", "<0x0A>", "Ġ", "ď»¿",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat().replace('▁', ""))
}

proptest! {
    #[test]
    fn bytes_are_the_text(text in any_text()) {
        // A unigram model finds the piece `<0x0A>` where a text has these letters, and then it is the byte.
        let other = text.replace("<0x", "");
        for (json, text) in [(byte_level(), &text), (sentence_piece(false), &text), (unigram(), &other)] {
            let (ours, theirs) = both(&json);
            let tokens = ours.encode_plain(text).unwrap();
            prop_assert_eq!(joined(&ours, &tokens), text.as_bytes());
            prop_assert_eq!(&ours.text(&tokens), text);
            prop_assert_eq!(text, &theirs.decode(&tokens, true).unwrap());
        }
    }

    #[test]
    fn a_space_before_the_text_is_running_text(text in any_text()) {
        let (ours, theirs) = both(&sentence_piece(true));
        let tokens = ours.encode_plain(&text).unwrap();
        let all = ours.text(&tokens);
        prop_assert_eq!(all.strip_prefix(' ').unwrap_or(&all), theirs.decode(&tokens, true).unwrap());
    }

    #[test]
    fn any_ids_have_a_text(ids in prop::collection::vec(0u32..300, 0..20)) {
        for json in [byte_level(), sentence_piece(false)] {
            let (ours, theirs) = both(&json);
            let known: Vec<u32> = ids.iter().copied().filter(|&id| (id as usize) < ours.len()).collect();
            prop_assert_eq!(ours.text(&ids), ours.text(&known));
            // The library shows every byte of a run that is no text, and reads an added `é` as the byte 0xe9.
            let theirs = theirs.decode(&known, true).unwrap();
            if !theirs.contains('\u{fffd}') {
                prop_assert_eq!(ours.text(&known), theirs);
            }
        }
    }
}

#[test]
fn byte_level_tokens_have_their_bytes() {
    let (tokenizer, _) = both(&byte_level());
    assert_eq!(tokenizer.len(), 262);
    assert!(!tokenizer.is_empty());
    for byte in 0..=255 {
        assert_eq!(tokenizer.bytes(u32::from(byte) + 1), [byte]);
    }
    assert_eq!(tokenizer.encode("the the").unwrap(), [0, 117, 258, 259]);
    assert_eq!(tokenizer.encode_plain("the the").unwrap(), [117, 258, 259]);
    assert_eq!(tokenizer.encode_plain("é<|end|>é").unwrap(), [260, 0, 260]);
    assert_eq!(tokenizer.encode_plain("<tool> é").unwrap(), [261]);
    assert_eq!((tokenizer.bytes(259), tokenizer.bytes(261)), (&b" the"[..], "<tool> é".as_bytes()));
    assert_eq!(
        (tokenizer.bytes(0), tokenizer.is_special(0), tokenizer.piece(0)),
        (&b""[..], true, "<|end|>".into())
    );
    assert!(!tokenizer.is_special(261));
    assert_eq!(
        (tokenizer.id("<|end|>"), tokenizer.id("Ġthe"), tokenizer.id("no")),
        (Some(0), Some(259), None)
    );
    for absent in [262, 1 << 20, u32::MAX] {
        assert_eq!((tokenizer.bytes(absent), tokenizer.piece(absent)), (&b""[..], String::new()));
        assert!(!tokenizer.is_special(absent));
    }
    // é is the bytes c3 a9: the first alone is not text.
    assert_eq!(tokenizer.text(&[0xc3 + 1, 0xa9 + 1, 0]), "é");
    assert_eq!(tokenizer.piece(0xc3 + 1), "\u{fffd}");
}

#[test]
fn sentence_piece_tokens_have_their_bytes() {
    let (tokenizer, _) = both(&sentence_piece(true));
    assert_eq!(tokenizer.len(), 268);
    assert_eq!(tokenizer.encode("the").unwrap(), [1, 266]);
    assert_eq!(tokenizer.encode_plain("<s>the\n").unwrap(), [1, 266, 13]);
    assert_eq!(tokenizer.bytes(266), b" the");
    assert_eq!(tokenizer.bytes(13), b"\n");
    assert_eq!(tokenizer.bytes(258), b"\xff");
    assert_eq!(tokenizer.text(&[1, 266, 3 + 0xf0, 3 + 0x9f, 3 + 0x98, 3 + 0x80, 2]), " the😀");
    assert_eq!((tokenizer.piece(2), tokenizer.text(&[2])), ("</s>".to_owned(), String::new()));
}

#[test]
fn word_pieces_are_joined_with_spaces() {
    let json = json!({
        "version": "1.0", "added_tokens": [added(0, "[UNK]", true)], "normalizer": null,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": {"[UNK]": 0, "go": 1, "##ing": 2, ".": 3}}
    });
    let (tokenizer, _) = both(&json);
    assert_eq!(tokenizer.encode("going going .").unwrap(), [1, 2, 1, 2, 3]);
    assert_eq!(tokenizer.text(&[1, 2, 1, 2, 3]), " going going.");
}

#[test]
fn the_same_text_has_the_same_tokens() {
    let mut json = byte_level();
    json["model"]["dropout"] = json!(0.5);
    json["truncation"] =
        json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = json!({"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "<|end|>"});
    let (tokenizer, _) = both(&json);
    for _ in 0..20 {
        assert_eq!(tokenizer.encode(" the the the").unwrap(), [0, 259, 259, 259]);
    }
}

fn message(json: &[u8]) -> String {
    match Tokenizer::embedded("made", json) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("read {}", String::from_utf8_lossy(json)),
    }
}

#[test]
fn bad_files_are_errors_that_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let error = Tokenizer::open(folder.path()).err().unwrap();
    assert!(
        matches!(&error, ModelError::File { path, .. } if path == &folder.path().join("tokenizer.json")),
        "{error}"
    );
    fs::write(folder.path().join("tokenizer.json"), "{]").unwrap();
    let error = Tokenizer::open(folder.path()).err().unwrap();
    assert!(
        matches!(&error, ModelError::Malformed { path, .. } if path.ends_with("tokenizer.json")),
        "{error}"
    );

    type Edit = fn(&mut Value);
    let cases: [(Edit, &str); 10] = [
        (
            |json| json["model"]["type"] = "Letters".into(),
            "`model.type` is `Letters`; those that can be read are BPE",
        ),
        (|json| json["model"] = 3.into(), "invalid type: integer `3`"),
        (|json| json["model"]["merges"] = json!(["q zz"]), "`zz`"),
        (|json| json["decoder"] = Value::Null, "`decoder` is absent"),
        (|json| json["decoder"] = json!({"type": "CTC"}), "`decoder`: unknown variant `CTC`"),
        (|json| json["version"] = "2.0".into(), "Unknown tokenizer version '2.0'"),
        (|json| json["model"]["vocab"]["zz"] = 17.into(), "two tokens of `model.vocab` have the id 17"),
        (
            |json| json["model"]["vocab"]["zz"] = u32::MAX.into(),
            "a token has the id 4294967295; ids must be below 1048576",
        ),
        // The library panics on these.
        (
            |json| json["post_processor"]["special_tokens"] = json!({}),
            "the parts of the file do not fit together",
        ),
        (
            |json| json["post_processor"]["single"] = json!([{"Sequence": {"id": "B", "type_id": 0}}]),
            "the parts of the file do not fit together",
        ),
    ];
    for (edit, expected) in cases {
        let mut json = byte_level();
        edit(&mut json);
        let message = message(json.to_string().as_bytes());
        let path = Path::new("made").join("tokenizer.json");
        assert!(message.starts_with(&format!("{}: ", path.display())), "{message}");
        assert!(message.contains(expected), "{message}");
    }
    for json in
        [&b""[..], b"null", b"[]", b"{}", b"{\"model\": {}, \"decoder\": {\"type\": \"Fuse\"}}", b"\xff\xfe"]
    {
        message(json);
    }
}

/// Files that are cut off anywhere.
#[test]
fn no_cut_file_is_read() {
    let json = unigram().to_string();
    for end in (0..json.len()).step_by(7).filter(|&end| json.is_char_boundary(end)) {
        message(&json.as_bytes()[..end]);
    }
}
