//! Lines of an answer.

use serde_json::Value;

/// A line of an answer: a JSON object.
pub type Line = Value;

/// What a step gives.
pub(crate) struct Told {
    pub lines: Vec<Line>,
    pub has_ended: bool,
}
