//! How the program ends: exit codes, and errors and notes, each on one line.

use std::io::Write;

/// Everything asked for was done.
pub const DONE: u8 = 0;
/// At least one row of logits could not be sampled; the others have their results.
pub const ROW_FAILED: u8 = 1;
/// Arguments, parameters or files are bad; nothing was drawn.
pub const BAD_INPUT: u8 = 2;

/// Says something on standard error that somebody should know, although it is no error.
pub(crate) fn note(text: &str) {
    // If standard error is closed, there is nowhere to say it.
    let _ = writeln!(std::io::stderr(), "note: {}", one_line(text));
}

/// The text with line ends and other control characters written as escapes. Messages repeat the names of
/// files and of unknown parameters, and an error must stay on one line.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line() {
        assert_eq!(one_line("a\nb\t\u{7f}é"), "a\\nb\\t\\u{7f}é");
    }
}
