//! Constraints on a text, as bit masks over the next token: from a grammar, a schema, or another engine.
//!
//! A decode loop asks a constraint for its mask before each draw and tells it the token after each draw. The
//! masks are those of [`Sampler::sample_masked`](crate::Sampler::sample_masked), so truncations and penalties
//! act among the allowed tokens.

use std::fmt;

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
