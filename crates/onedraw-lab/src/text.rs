//! A text that can be written.

use std::collections::BTreeMap;

use onedraw::SamplingParams;
use serde_json::{Map, Value};

/// A text, and everything it depends on.
#[derive(Clone)]
pub(crate) struct Text {
    /// The prompt as it was given.
    pub words: String,
    pub prompt: Vec<u32>,
    pub params: SamplingParams,
    /// The parameters that were given, by name.
    pub given: Map<String, Value>,
    /// The tokens of branches, by position.
    pub chosen: BTreeMap<usize, u32>,
    /// Who guesses ahead.
    pub draft: Option<String>,
    pub schema: Option<String>,
}
