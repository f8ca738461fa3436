//! A whole generation: what each token was drawn from.

use crate::trace::TracedToken;

/// The tokens of a text, each with what it was drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    pub title: String,
    pub tokens: Vec<TracedToken>,
    /// How each token is written.
    pub labels: Vec<String>,
}
