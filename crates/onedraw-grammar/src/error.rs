//! What can be wrong with a grammar. Every message is one line, and says where the error is if that is known.

use std::fmt;

/// Why a vocabulary or a grammar cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrammarError {
    /// A schema, an expression or a grammar cannot be read, or asks for something that is not supported.
    Malformed {
        /// What is wrong.
        message: String,
        /// Where, if that is known.
        place: Option<Place>,
    },
    /// No text keeps to the grammar, or none that can be written in these tokens.
    Unsatisfiable(String),
    /// The tokens cannot be the vocabulary of a model.
    Vocabulary(String),
}

/// A place in a text. Both numbers count from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

impl GrammarError {
    /// Where the error is, if that is known.
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Malformed { place, .. } => *place,
            _ => None,
        }
    }

    pub(crate) fn malformed(message: impl fmt::Display) -> Self {
        Self::Malformed { message: one_line(&message.to_string()), place: None }
    }

    /// For text that is not JSON. Errors that are not about syntax have no place: serde_json then says line
    /// 0.
    pub(crate) fn json(text: &str, cause: &serde_json::Error) -> Self {
        let (line, bytes) = (cause.line(), cause.column());
        let message = cause.to_string();
        let message = message.strip_suffix(&format!(" at line {line} column {bytes}")).unwrap_or(&message);
        let place = line.checked_sub(1).map(|before| {
            // serde_json counts bytes.
            let read = text.split('\n').nth(before).and_then(|line| line.as_bytes().get(..bytes));
            let column = read.map_or(bytes, |read| String::from_utf8_lossy(read).chars().count());
            Place { line, column: column.max(1) }
        });
        Self::Malformed { message: one_line(message), place }
    }

    /// For a message of the regex parser: the pattern, a line with carets under it, and `error: ` with the
    /// reason.
    pub(crate) fn regex(message: &str) -> Self {
        let lines: Vec<&str> = message.lines().collect();
        let carets = |line: &str| line.contains('^') && line.chars().all(|c| c == ' ' || c == '^');
        let place = lines.array_windows().find(|[_, below]| carets(below)).and_then(|[pattern, below]| {
            // A pattern of one line is indented by four. Of several lines, each has its number before it.
            let (line, margin) = match pattern.strip_prefix("    ") {
                Some(_) => (1, 4),
                None => {
                    let number = pattern.split(':').next()?;
                    (number.trim().parse().ok()?, number.len() + 2)
                }
            };
            Some(Place { line, column: (below.find('^')? + 1).checked_sub(margin)? })
        });
        let reason = lines.iter().find_map(|line| line.strip_prefix("error: "));
        Self::Malformed { message: one_line(reason.unwrap_or(message)), place }
    }

    /// For a message of llguidance's compiler. Lark errors begin with `line(column): `, perhaps after `at `,
    /// and end with an excerpt.
    pub(crate) fn compiler(message: &str) -> Self {
        // Raised where the first special token would be listed; there are none in the trie.
        if message.contains("missing special token prefix") {
            return Self::malformed("special tokens cannot be part of a grammar");
        }
        let message = message.split("\n<").next().unwrap_or(message);
        // The compiler panics on sizes that it does not check.
        if let Some(assertion) = message.strip_prefix("panic: ") {
            return Self::malformed(format!("the grammar is beyond the compiler: {assertion}"));
        }
        if message.to_ascii_lowercase().contains("unsatisfiable schema") {
            return Self::Unsatisfiable(one_line(message));
        }
        let (place, said) = match located(message) {
            Some((place, said)) => (Some(place), said),
            None => (None, message),
        };
        let said: Vec<&str> = said.lines().take_while(|line| !is_excerpt(line)).collect();
        let said = one_line(&said.join(" "));
        // The regex parser repeats the expression, with a caret that is no longer below its place.
        let message =
            match said.split_once("regex parse error:").map(|(what, why)| (what, why.rsplit_once("error: ")))
            {
                Some((what, Some((_, why)))) => format!("{what}{why}"),
                _ => said,
            };
        Self::Malformed { message, place }
    }
}

/// Splits `3(7): what is wrong`, perhaps with `at ` before it.
fn located(message: &str) -> Option<(Place, &str)> {
    let rest = message.strip_prefix("at ").unwrap_or(message);
    let (line, rest) = rest.split_once('(')?;
    let (column, said) = rest.split_once("): ")?;
    Some((Place { line: line.parse().ok()?, column: column.parse().ok()? }, said))
}

/// Whether a line shows a line of the grammar: `   3 | start: "a"`.
fn is_excerpt(line: &str) -> bool {
    line.split_once(" | ").is_some_and(|(number, _)| number.trim().parse::<usize>().is_ok())
}

/// The message in one line, without the compiler's excerpts.
pub(crate) fn one_line(message: &str) -> String {
    let message = message.split("\n<").next().unwrap_or(message);
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl fmt::Display for GrammarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { message, place: Some(place) } => write!(f, "{place}: {message}"),
            Self::Malformed { message, place: None } => f.write_str(message),
            Self::Unsatisfiable(message) | Self::Vocabulary(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for GrammarError {}
