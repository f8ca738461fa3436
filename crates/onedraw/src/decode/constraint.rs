//! What may come next, as bit masks: a grammar's, a schema's, or those of another engine.
//!
//! A decode loop asks a constraint before each draw and tells it of each token after. Masks are those of
//! [`Sampler::sample_masked`](crate::Sampler::sample_masked), so a truncation and a penalty act among the
//! allowed tokens.

use std::fmt;

use crate::error::RowError;

/// Rules for the text of one sequence.
pub trait Constraint: Send {
    /// The tokens that may come next: 32 a word, lowest bit first, up to the end of the vocabulary or
    /// further. A token that ends a text is among them only where the text may end.
    fn mask(&mut self) -> Result<&[u32], ConstraintError>;

    /// The tokens that must come next, whatever a model says: they can be taken without a draw. None where
    /// there is a choice, or where it is not known.
    fn forced(&mut self) -> Result<Vec<u32>, ConstraintError> {
        Ok(Vec::new())
    }

    /// Takes the next token of the text.
    fn accept(&mut self, token: u32) -> Result<(), ConstraintError>;

    /// Takes back so many of the last tokens.
    fn rollback(&mut self, tokens: usize) -> Result<(), ConstraintError>;

    /// A copy that goes its own way, for a beam or for one of several texts.
    fn fork(&self) -> Box<dyn Constraint>;
}

/// Why a constraint cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConstraintError {
    message: String,
}

impl ConstraintError {
    /// With a message for a person.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The error of the row that cannot be drawn from because of it.
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
