//! What each language is given.

use onedraw::beam::BeamParams;
use serde_json::{Map, Value, json};

use crate::text::Text;

/// What the languages write down.
pub(super) struct Recipe<'a> {
    pub text: &'a Text,
    /// The model's name; `None`: the one that is part of onedraw.
    pub model: Option<&'a str>,
    /// How to search; `None`: the text is drawn.
    pub beams: Option<&'a BeamParams>,
    /// The parameters that were given.
    pub given: Map<String, Value>,
    /// The parameters that differ from the library's defaults, those of the model's own settings among them.
    pub params: Map<String, Value>,
}

/// How wide a search is, and the other settings that the laboratory takes, where they differ from the defaults.
pub(super) fn settings(beams: &BeamParams) -> Vec<(&'static str, Value)> {
    let plain = BeamParams::default();
    let mut settings = vec![("width", json!(beams.width))];
    if beams.style != plain.style {
        settings.push(("style", json!(beams.style)));
    }
    if beams.length_penalty != plain.length_penalty {
        settings.push(("length_penalty", json!(beams.length_penalty)));
    }
    settings
}

/// A text for a shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
