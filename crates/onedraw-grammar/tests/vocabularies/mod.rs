//! Vocabularies to test with.

use std::sync::{Arc, OnceLock};

use onedraw_grammar::Vocabulary;
use onedraw_lm::{Tokenizer, stories};

/// What ends a text in the small vocabularies; 1 is a special token.
pub const END: u32 = 0;

/// Pieces that cross the borders of words, quotes and characters, some of them twice or not text at all.
const PIECES: [&[u8]; 60] = [
    b"ab",
    b"abc",
    b"ba",
    b"aa",
    b"aaa",
    b"bc",
    b"cab",
    b"true",
    b"tru",
    b"rue",
    b"false",
    b"fal",
    b"se",
    b"null",
    b"nul",
    b"\"a\"",
    b"\"a",
    b"\":",
    b"\",",
    b"{\"",
    b"\"}",
    b"\"b\"",
    b"},",
    b"[{",
    b"]}",
    b"[]",
    b"{}",
    b"10",
    b"12",
    b"123",
    b"00",
    b"-1",
    b"1.",
    b".5",
    b"99",
    b", ",
    b": ",
    b" {",
    b"\n\n",
    b"  ",
    b"true,",
    b",false",
    b"yes",
    b"no",
    b"maybe",
    b"e\"",
    b"\xC3",
    b"\xC3\xA9",
    b"\xA9",
    b"\xC3\xA9a",
    b"\xE2\x82",
    b"\xAC",
    b"\xE2\x82\xAC",
    b"\xF0\x9F",
    b"\xFF",
    b"a\xFF",
    b"abab",
    b"ab",
    b"\x80\x80",
    b"-",
];

/// Bytes of tokens: an end, a special token, and text.
fn small(singles: impl Iterator<Item = u8>) -> Vec<Vec<u8>> {
    let mut tokens = vec![b"<end>".to_vec(), b"a".to_vec()];
    tokens.extend(singles.map(|byte| vec![byte]));
    tokens.extend(PIECES.map(<[u8]>::to_vec));
    tokens
}

/// Printable ASCII and the pieces; no cut, so that nothing is forced.
pub fn plain() -> (Vocabulary, Vec<Vec<u8>>) {
    let tokens = small(b' '..=b'~');
    (Vocabulary::builder(&tokens).special([1]).eos([END]).build().unwrap(), tokens)
}

/// All bytes and the pieces, with a tokenizer that takes the longest piece.
pub fn forcing() -> (Vocabulary, Vec<Vec<u8>>) {
    let tokens = small(0..=0xFF);
    let pieces = tokens.clone();
    let vocabulary =
        Vocabulary::builder(&tokens).special([1]).eos([END]).cut_by(move |text| longest(&pieces, text));
    (vocabulary.build().unwrap(), tokens)
}

fn longest(pieces: &[Vec<u8>], text: &str) -> Option<Vec<u32>> {
    let mut rest = text.as_bytes();
    let mut tokens = Vec::new();
    while !rest.is_empty() {
        let fitting = (2..pieces.len()).filter(|&id| rest.starts_with(&pieces[id]));
        let id = fitting.max_by_key(|&id| (pieces[id].len(), std::cmp::Reverse(id)))?;
        rest = &rest[pieces[id].len()..];
        tokens.push(id as u32);
    }
    Some(tokens)
}

/// The tokenizer of the embedded model.
pub fn tokenizer() -> Arc<Tokenizer> {
    static TOKENIZER: OnceLock<Arc<Tokenizer>> = OnceLock::new();
    Arc::clone(TOKENIZER.get_or_init(|| Arc::new(stories::tokenizer().unwrap())))
}

/// The 4,096 tokens of the embedded model. Token 0 is the only special one, and ends a text.
pub fn stories() -> Vocabulary {
    static VOCABULARY: OnceLock<Vocabulary> = OnceLock::new();
    VOCABULARY
        .get_or_init(|| {
            let (tokenizer, cutter) = (tokenizer(), tokenizer());
            let tokens = (0..tokenizer.len() as u32).map(|token| tokenizer.bytes(token));
            Vocabulary::builder(tokens)
                .eos([0])
                .cut_by(move |text| cutter.encode_plain(text).ok())
                .build()
                .unwrap()
        })
        .clone()
}

/// The ids of a mask.
pub fn ids(mask: &[u32]) -> Vec<u32> {
    (0..mask.len() as u32 * 32).filter(|id| mask[*id as usize / 32] >> (id % 32) & 1 == 1).collect()
}
