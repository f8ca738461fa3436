//! A compiled grammar: what a [`Grammar`](crate::Grammar) and its matchers share.

use onedraw::ConstraintText;

use crate::vocabulary::Vocabulary;

/// A vocabulary, and the state of a grammar before the first token.
pub(crate) struct Compiled {
    pub vocabulary: Vocabulary,
    /// What it was compiled from.
    pub source: ConstraintText,
    start: llguidance::Matcher,
}

impl Compiled {
    /// `start` must not have seen a token.
    pub(crate) fn new(vocabulary: Vocabulary, source: ConstraintText, start: llguidance::Matcher) -> Self {
        Self { vocabulary, source, start }
    }

    /// A copy of the state before the first token, with tables of its own. If matchers shared their tables,
    /// one text would wait for another, and the size of tables that other texts filled would decide whether
    /// it can go on.
    pub(crate) fn start(&self) -> llguidance::Matcher {
        self.start.deep_clone()
    }
}
