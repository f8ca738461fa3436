//! The bytes of the pieces of a vocabulary, as the `decoder` of the file says.
//!
//! A decoder works on the pieces of a whole text. Here each piece stands in the middle of a text, so what a
//! decoder does at the start or the end of a text is left out.

use serde::Deserialize;
use serde_json::Value;
use tokenizers::decoders::wordpiece::cleanup;

/// The steps from a piece to its bytes.
pub(super) struct Spelling {
    steps: Vec<Decoder>,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Decoder {
    /// Each character is a byte, in GPT-2's alphabet.
    ByteLevel {},
    /// `<0x0A>` is the byte 10.
    ByteFallback {},
    /// Joins all pieces: later steps see the whole text.
    Fuse {},
    Replace {
        pattern: Pattern,
        content: String,
    },
    /// Removes characters at both ends of a piece.
    Strip {
        content: char,
        start: usize,
        stop: usize,
    },
    Metaspace {
        replacement: char,
    },
    /// A piece begins a new word unless it has this prefix.
    WordPiece {
        prefix: String,
        cleanup: bool,
    },
    Sequence {
        decoders: Vec<Decoder>,
    },
}

#[derive(Deserialize)]
enum Pattern {
    String(String),
    Regex(String),
}

impl Spelling {
    /// Reads the `decoder` of tokenizer.json. The error says what in it is not supported.
    pub(super) fn read(decoder: Value) -> Result<Self, String> {
        let decoder = Decoder::deserialize(decoder).map_err(|cause| cause.to_string())?;
        let mut spelling = Self { steps: Vec::new() };
        spelling.add(decoder, &mut false)?;
        Ok(spelling)
    }

    /// Adds a step. `is_joined` says whether an earlier step has joined the pieces.
    fn add(&mut self, decoder: Decoder, is_joined: &mut bool) -> Result<(), String> {
        match decoder {
            Decoder::Sequence { decoders } => {
                return decoders.into_iter().try_for_each(|decoder| self.add(decoder, is_joined));
            }
            Decoder::Fuse {} => *is_joined = true,
            // It acts on the ends of the text only.
            Decoder::Strip { .. } if *is_joined => {}
            Decoder::Replace { pattern: Pattern::Regex(pattern), .. } => {
                return Err(format!("`Replace` of the regular expression `{pattern}` is not known here"));
            }
            // A single character never stands in two pieces, so it makes no difference that they were joined.
            Decoder::Replace { pattern: Pattern::String(pattern), .. }
                if *is_joined && pattern.chars().count() != 1 =>
            {
                return Err(format!(
                    "`Replace` of `{pattern}` after the pieces were joined is not known here"
                ));
            }
            Decoder::ByteLevel {} | Decoder::ByteFallback {} | Decoder::WordPiece { .. } if *is_joined => {
                return Err("pieces are joined before the last step that reads them".to_owned());
            }
            decoder => {
                if let Some(Decoder::ByteLevel {}) = self.steps.last() {
                    return Err("a step after `ByteLevel` is not known here".to_owned());
                }
                *is_joined |= matches!(decoder, Decoder::ByteLevel {});
                self.steps.push(decoder);
            }
        }
        Ok(())
    }

    /// The bytes of a piece.
    pub(super) fn bytes(&self, piece: &str) -> Vec<u8> {
        let mut text = piece.to_owned();
        for step in &self.steps {
            text = match step {
                Decoder::ByteLevel {} => {
                    let bytes: Option<Vec<u8>> = text.chars().map(byte_of_letter).collect();
                    return bytes.unwrap_or_else(|| text.into_bytes());
                }
                Decoder::ByteFallback {} => match byte_of_fallback(&text) {
                    Some(byte) => return vec![byte],
                    None => text,
                },
                Decoder::Replace { pattern: Pattern::String(pattern), content } => {
                    text.replace(pattern, content)
                }
                Decoder::Strip { content, start, stop } => strip(&text, *content, *start, *stop).to_owned(),
                Decoder::Metaspace { replacement } => text.replace(*replacement, " "),
                Decoder::WordPiece { prefix, cleanup: is_clean } => {
                    let text = text.strip_prefix(prefix).map_or_else(|| format!(" {text}"), str::to_owned);
                    if *is_clean { cleanup(&text) } else { text }
                }
                // `add` keeps none of these as a step.
                Decoder::Fuse {} | Decoder::Sequence { .. } | Decoder::Replace { .. } => text,
            };
        }
        text.into_bytes()
    }

    /// The bytes of a token that was added to the vocabulary. Its content is plain text and not in GPT-2's
    /// alphabet; the other steps apply to it, because some models add runs of `▁`.
    pub(super) fn added(&self, content: &str) -> Vec<u8> {
        match self.steps.last() {
            Some(Decoder::ByteLevel {}) => content.as_bytes().to_vec(),
            _ => self.bytes(content),
        }
    }
}

/// GPT-2's alphabet: a byte with a visible Latin-1 character is that character; the others follow from U+0100
/// on.
fn byte_of_letter(letter: char) -> Option<u8> {
    let code = u32::from(letter);
    let byte = match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => code,
        0x100..=0x120 => code - 0x100,
        0x121..=0x142 => code - 0x121 + 0x7f,
        0x143 => 0xad,
        _ => return None,
    };
    u8::try_from(byte).ok()
}

/// The byte of a piece such as `<0x0A>`.
fn byte_of_fallback(piece: &str) -> Option<u8> {
    let digits = piece.strip_prefix("<0x")?.strip_suffix('>')?;
    // `from_str_radix` would accept a sign.
    let is_hex = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// Removes `content` up to `start` times from the start and up to `stop` times from the end.
fn strip(mut text: &str, content: char, start: usize, stop: usize) -> &str {
    // No text has more characters than bytes.
    for _ in 0..start.min(text.len()) {
        text = text.strip_prefix(content).unwrap_or(text);
    }
    for _ in 0..stop.min(text.len()) {
        text = text.strip_suffix(content).unwrap_or(text);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bytes(decoder: Value, piece: &str) -> Vec<u8> {
        Spelling::read(decoder).unwrap().bytes(piece)
    }

    #[test]
    fn the_alphabet_has_every_byte_once() {
        let letters: Vec<char> = (0..0x200).filter_map(char::from_u32).collect();
        let mut bytes: Vec<u8> = letters.iter().filter_map(|&letter| byte_of_letter(letter)).collect();
        bytes.sort_unstable();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        // As in GPT-2's own table.
        for (letter, byte) in
            [('Ġ', 0x20), ('Ċ', 0x0a), ('ĉ', 0x09), ('ġ', 0x7f), ('Ģ', 0x80), ('ł', 0xa0), ('Ń', 0xad)]
        {
            assert_eq!(byte_of_letter(letter), Some(byte), "{letter}");
        }
        assert_eq!(byte_of_letter(' '), None);
        assert_eq!(byte_of_letter('▁'), None);
    }

    #[test]
    fn each_decoder_spells() {
        let byte_level = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true});
        assert_eq!(bytes(byte_level.clone(), "Ġcafé"), b" caf\xe9");
        // Not all of it is in the alphabet: then it is text.
        assert_eq!(bytes(byte_level, "<｜User｜>"), "<｜User｜>".as_bytes());
        let llama = json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]});
        assert_eq!(bytes(llama.clone(), "▁a▁b"), b" a b");
        assert_eq!(bytes(llama.clone(), "<0x0A>"), b"\n");
        assert_eq!(bytes(llama.clone(), "<0xfF>"), b"\xff");
        for piece in ["<0x+A>", "<0x0A", "<0xé>", "<0x>", "<0x00A>"] {
            assert_eq!(bytes(llama.clone(), piece), piece.as_bytes());
        }
        let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"});
        assert_eq!(bytes(metaspace, "▁the▁▁"), b" the  ");
        let words = json!({"type": "WordPiece", "prefix": "##", "cleanup": true});
        assert_eq!(bytes(words.clone(), "##ing"), b"ing");
        assert_eq!(bytes(words.clone(), "go"), b" go");
        assert_eq!(bytes(words, "."), b".");
        let strip = json!({"type": "Strip", "content": "_", "start": 2, "stop": 1});
        assert_eq!(bytes(strip.clone(), "___a__"), b"_a_");
        assert_eq!(bytes(strip, ""), b"");
    }

    #[test]
    fn added_tokens_are_text() {
        let byte_level = Spelling::read(json!({"type": "ByteLevel"})).unwrap();
        assert_eq!(byte_level.added("é "), "é ".as_bytes());
        let metaspace = Spelling::read(json!({"type": "Metaspace", "replacement": "▁"})).unwrap();
        assert_eq!(metaspace.added("▁▁"), b"  ");
    }

    #[test]
    fn what_is_not_known_is_named() {
        let replace = |pattern: Value| json!({"type": "Replace", "pattern": pattern, "content": ""});
        let sequence = |decoders: &[Value]| json!({"type": "Sequence", "decoders": decoders});
        let cases = [
            (json!({"type": "CTC"}), "unknown variant `CTC`"),
            (json!({"type": "BPEDecoder", "suffix": "</w>"}), "unknown variant `BPEDecoder`"),
            (json!({}), "missing field `type`"),
            (json!(3), "invalid type: integer `3`"),
            (sequence(&[json!({"type": "Fuse"}), json!({"type": "CTC"})]), "unknown variant `CTC`"),
            (replace(json!({"Regex": "a+"})), "regular expression `a+`"),
            (sequence(&[json!({"type": "Fuse"}), replace(json!({"String": "ab"}))]), "`Replace` of `ab`"),
            (sequence(&[json!({"type": "Fuse"}), json!({"type": "ByteFallback"})]), "pieces are joined"),
            (
                sequence(&[json!({"type": "ByteLevel"}), json!({"type": "Metaspace", "replacement": "▁"})]),
                "a step after `ByteLevel`",
            ),
        ];
        for (decoder, expected) in cases {
            let message = Spelling::read(decoder.clone()).err().unwrap();
            assert!(message.contains(expected), "{decoder}: {message}");
        }
    }
}
