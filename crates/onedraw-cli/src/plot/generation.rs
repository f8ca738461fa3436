//! A whole generation: what each token was drawn from.

use crate::redrawn::Redrawn;

/// The tokens of a text, each with what it was drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    pub title: String,
    pub tokens: Vec<Redrawn>,
    /// How each token is written.
    pub labels: Vec<String>,
}
