//! Tokens as readable text in a picture.

use onedraw_lm::Tokenizer;

/// The most characters of a label.
pub const LONGEST: usize = 14;

/// The text of a token with spaces and line ends made visible, or its id if there is no tokenizer.
pub fn label(tokenizer: Option<&Tokenizer>, token: u32) -> String {
    match tokenizer {
        Some(tokenizer) if (token as usize) < tokenizer.len() => visible(&tokenizer.piece(token)),
        _ => format!("#{token}"),
    }
}

/// A text on one line, shortened.
fn visible(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars() {
        match character {
            ' ' => shown.push('␣'),
            _ if !is_writable(character) || character.is_whitespace() => {
                shown.extend(character.escape_default())
            }
            _ => shown.push(character),
        }
    }
    if shown.is_empty() {
        return "(empty)".to_owned();
    }
    shorten(&shown, LONGEST)
}

/// A text on one line, of characters that an SVG can hold.
pub fn plain(text: &str) -> String {
    let mut line = String::new();
    for character in text.chars() {
        match is_writable(character) {
            true => line.push(character),
            false => line.extend(character.escape_default()),
        }
    }
    line
}

/// Whether XML can hold the character: it has no control characters, and not the two noncharacters U+FFFE and
/// U+FFFF.
fn is_writable(character: char) -> bool {
    !character.is_control() && !matches!(character, '\u{fffe}' | '\u{ffff}')
}

/// The end of a text, at most `longest` characters, with an ellipsis for those before.
pub fn end_of(text: &str, longest: usize) -> String {
    match text.chars().count() {
        count if count <= longest => text.to_owned(),
        count => std::iter::once('…').chain(text.chars().skip(count + 1 - longest)).collect(),
    }
}

/// The beginning of a text, at most `longest` characters, with an ellipsis for those that are left out.
pub fn shorten(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    text.chars().take(longest - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_shown() {
        assert_eq!(visible(" a\n\t"), "␣a\\n\\t");
        assert_eq!(visible(""), "(empty)");
        assert_eq!(visible("\u{0}\u{a0}é"), "\\u{0}\\u{a0}é");
        assert_eq!(visible("a long word indeed"), "a␣long␣word␣i…");
        assert_eq!(label(None, 7), "#7");
        assert_eq!(plain("a\n\u{ffff} b"), "a\\n\\u{ffff} b");
        assert_eq!((end_of("abcdef", 4), end_of("abcd", 4)), ("…def".to_owned(), "abcd".to_owned()));
    }
}
