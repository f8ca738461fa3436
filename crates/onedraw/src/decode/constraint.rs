//! Constraints on a text, as bit masks over the next token: from a grammar, a schema, or another engine.
//!
//! A decode loop asks a constraint for its mask before each draw and tells it the token after each draw. The
//! masks are those of [`Sampler::sample_masked`](crate::Sampler::sample_masked), so truncations and penalties
//! act among the allowed tokens.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::RowError;

/// Rules for the text of one sequence.
pub trait Constraint: Send {
    /// The tokens that may come next, one bit per token: 32 per word, lowest bit first. The mask covers at
    /// least the whole vocabulary. A token that ends a text is set only where the text may end.
    fn mask(&mut self) -> Result<&[u32], ConstraintError>;

    /// The tokens that must come next, whatever the model says; they can be taken without a draw. Empty where
    /// there is a choice, or where it is not known whether there is one.
    fn forced(&mut self) -> Result<Vec<u32>, ConstraintError> {
        Ok(Vec::new())
    }

    /// Advances by the next token of the text. An error if the constraint cannot go on with it.
    fn accept(&mut self, token: u32) -> Result<(), ConstraintError>;

    /// Takes back the last `tokens` tokens.
    fn rollback(&mut self, tokens: usize) -> Result<(), ConstraintError>;

    /// An independent copy, for a beam or for one of several texts.
    fn fork(&self) -> Box<dyn Constraint>;

    /// The text that it was made of, if that is all there is to it: one that has advanced already has none.
    fn source(&self) -> Option<ConstraintText> {
        None
    }
}

/// The text of a constraint, from which it can be made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstraintText {
    /// What kind of text it is.
    pub kind: ConstraintKind,
    /// The text.
    pub text: String,
    /// The tokens that end a text which keeps to it.
    pub eos_token_ids: Vec<u32>,
}

/// How the text of a constraint is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConstraintKind {
    /// A JSON schema; white space may stand where JSON allows it.
    JsonSchema,
    /// A JSON schema without white space between the parts.
    CompactJsonSchema,
    /// A regular expression.
    Regex,
    /// A JSON array of texts, one of which is written.
    Choices,
    /// A grammar in Lark or in llguidance's JSON.
    Grammar,
}

/// Why a constraint cannot continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstraintError {
    message: String,
}

impl ConstraintError {
    /// An error with a message for the user.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The same error as that of a row that cannot be drawn from.
    pub fn of_row(self) -> RowError {
        RowError::Constraint { message: self.message }
    }
}

impl fmt::Display for ConstraintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConstraintError {}
