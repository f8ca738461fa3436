//! What is to be verified.

use onedraw::slots::SequenceId;
use onedraw::speculate::Draft;

/// A sequence's draft. The matrix has one row for the text and one after every node of the tree, in their
/// order, one draft after the other.
#[derive(Clone, Copy, Debug)]
pub struct DraftTurn<'a> {
    /// Whose draft it is.
    pub sequence: SequenceId,
    /// What was guessed.
    pub draft: &'a Draft,
}

impl DraftTurn<'_> {
    /// The rows that the matrix has for the draft.
    pub(super) fn rows(&self) -> usize {
        self.draft.tree.len() + 1
    }
}
