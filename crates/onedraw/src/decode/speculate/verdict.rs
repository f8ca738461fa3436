//! The result of verifying a draft.

use crate::error::RowError;
use crate::sampled::Sampled;

/// Which guesses were accepted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The accepted nodes, from the root down.
    pub path: Vec<usize>,
    /// The tokens of these nodes as the target reports them, and the token after them. There are fewer only
    /// if there is an error.
    pub sampled: Vec<Sampled>,
    /// Why no token could be drawn after these.
    pub error: Option<RowError>,
}
