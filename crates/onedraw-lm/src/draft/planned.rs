//! What a drafter did for a pass.

use std::time::Duration;

/// One call of the drafter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// For how many texts it gave logits.
    pub texts: usize,
    pub time: Duration,
}

/// What the drafter did for a pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Planned {
    pub rounds: Vec<Round>,
    /// How many guesses go into the pass.
    pub guesses: usize,
    /// How many of them are expected to be accepted.
    pub worth: f64,
}

impl Planned {
    /// Whether the pass is one without guesses, and nobody tried to make any.
    pub(crate) fn is_plain(&self) -> bool {
        self.rounds.is_empty() && self.guesses == 0
    }
}
