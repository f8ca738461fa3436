//! What each language is given.

use serde_json::{Map, Value};

use crate::text::Text;

/// What the languages write down.
pub(super) struct Recipe<'a> {
    pub text: &'a Text,
    /// The model's name; `None`: the one that is part of onedraw.
    pub model: Option<&'a str>,
    /// The parameters that were given.
    pub given: Map<String, Value>,
    /// The parameters that differ from the library's defaults, those of the model's own settings among them.
    pub params: Map<String, Value>,
}

/// A text for a shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
