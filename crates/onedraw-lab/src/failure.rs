//! What is wrong, as a sentence for the reader.

use std::fmt;

use onedraw::{ParamError, RowError};
use onedraw_grammar::GrammarError;
use onedraw_lm::{GenerateError, ModelError};
use serde_json::{Value, json};

/// Why a question has no answer, or not a whole one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A word for programs: `question`, `parameter`, `prompt`, `schema`, `link`, `row` or `model`. The README of this
    /// crate says what each means.
    pub kind: &'static str,
    /// What is wrong, in one sentence.
    pub message: String,
    /// The parameter or the field of the question that is wrong.
    pub field: Option<String>,
}

impl Failure {
    pub(crate) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), field: None }
    }

    /// A failure of one field of the question.
    pub(crate) fn field(kind: &'static str, name: &str, message: impl fmt::Display) -> Self {
        Self { kind, message: format!("{name}: {message}"), field: Some(name.to_owned()) }
    }

    /// The line that ends an answer.
    pub fn line(&self) -> Value {
        let Self { kind, message, field } = self;
        json!({"kind": "error", "error": {"kind": kind, "message": message, "field": field}})
    }
}

impl From<ParamError> for Failure {
    fn from(error: ParamError) -> Self {
        Self::field("parameter", error.field(), error.message())
    }
}

impl From<RowError> for Failure {
    fn from(error: RowError) -> Self {
        Self::new("row", error.to_string())
    }
}

impl From<GrammarError> for Failure {
    fn from(error: GrammarError) -> Self {
        Self::field("schema", "schema", error)
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Request(message) => Self::new("question", message),
            other => Self::new("model", other.to_string()),
        }
    }
}

impl From<GenerateError> for Failure {
    fn from(error: GenerateError) -> Self {
        match error {
            GenerateError::Param(error) => error.into(),
            GenerateError::Row(error) => error.into(),
            GenerateError::Model(error) => error.into(),
            other => Self::new("model", other.to_string()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}
