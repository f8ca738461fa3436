//! A whole generation: what each token was drawn from.

use crate::steps::Step;

/// The steps of a text.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    pub title: String,
    pub steps: Vec<Step>,
    /// Their tokens.
    pub labels: Vec<String>,
}
