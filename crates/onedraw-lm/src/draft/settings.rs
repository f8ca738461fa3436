//! How far ahead to guess, how guesses are verified, and what became of them.

use std::time::Duration;

use onedraw::speculate::{DraftTree, Verify};

use crate::draft::chance::MAX_WIDTH;
use crate::error::ModelError;

/// How guesses are made and verified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speculation {
    /// How guesses are verified.
    pub verify: Verify,
    /// How many guesses may follow one place.
    pub width: usize,
    /// How many guesses may follow each other.
    pub depth: usize,
    /// Whether as many guesses are made as pay, within these bounds; otherwise always as many as the bounds
    /// allow. It works in `exact` mode only, where the text does not depend on it; in the other modes the
    /// distribution would.
    pub adapts: bool,
}

impl Default for Speculation {
    /// `exact` mode, as many guesses as pay.
    fn default() -> Self {
        Self { verify: Verify::Exact, width: 3, depth: 8, adapts: true }
    }
}

impl Speculation {
    /// The defaults of a way to verify: a tree of as many guesses as pay in `exact` mode, otherwise four
    /// guesses that follow each other.
    pub fn new(verify: Verify) -> Self {
        match verify {
            Verify::Exact => Self::default(),
            _ => Self { verify, width: 1, depth: 4, adapts: false },
        }
    }

    pub(crate) fn is_adaptive(&self) -> bool {
        self.adapts && self.verify == Verify::Exact
    }

    /// How many guesses a full tree has.
    fn nodes(&self) -> usize {
        let mut level = 1usize;
        let levels = (0..self.depth).map(|_| {
            level = level.saturating_mul(self.width);
            level
        });
        levels.fold(0, usize::saturating_add)
    }

    /// Whether these settings work with a target of this context.
    pub(crate) fn check(&self, context: usize) -> Result<(), ModelError> {
        let wrong = |message: String| Err(ModelError::Request(message));
        if self.width == 0 || self.depth == 0 {
            return wrong("a tree of guesses is at least one wide and one deep".to_owned());
        }
        if self.width > MAX_WIDTH {
            return wrong(format!("a tree of guesses is at most {MAX_WIDTH} wide, not {}", self.width));
        }
        if self.verify == Verify::Block && self.width > 1 {
            return wrong(
                "block verification judges a line of guesses, not a tree: its width is 1".to_owned(),
            );
        }
        let nodes = if self.is_adaptive() { self.depth } else { self.nodes() };
        if nodes >= context {
            return wrong(format!(
                "a tree of {}x{} guesses is larger than the model's context of {context}",
                self.width, self.depth
            ));
        }
        Ok(())
    }
}

/// What became of the guesses so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guessed {
    /// Passes of the target with guesses.
    pub passes: usize,
    /// Passes of the target without guesses.
    pub plain_passes: usize,
    /// Tokens from passes with guesses, including the target's own.
    pub tokens: usize,
    /// Guesses that were verified.
    pub guesses: usize,
    /// For each depth: passes that came so far and had a guess there, and how many of them accepted one.
    pub depths: Vec<(usize, usize)>,
    /// How often guesses were given up for a while, because they did not pay.
    pub rests: usize,
}

/// One pass in the log of a policy. Passes that read a prompt besides are not in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PassLog {
    /// How many texts were written.
    pub texts: usize,
    /// How many guesses the target verified.
    pub guesses: usize,
    /// How many of them the policy expected to be accepted.
    pub expected: f64,
    /// How many tokens the texts got.
    pub tokens: usize,
    /// Guesses, the target and draws together.
    pub time: Duration,
    /// What the policy thinks that a pass of the same texts takes without guesses.
    pub plain_time: Duration,
    /// How many plain passes guesses may lose before they are given up for a while.
    pub purse: f64,
}

impl Guessed {
    /// Counts a pass: its guesses, the path that was accepted, and how many tokens it gave.
    pub(crate) fn count(&mut self, tree: &DraftTree, path: &[usize], tokens: usize) {
        self.passes += 1;
        self.tokens += tokens;
        self.guesses += tree.len();
        for depth in 0..=path.len() {
            let at = depth.checked_sub(1).map(|before| path[before]);
            if tree.children(at).next().is_none() {
                break;
            }
            self.depths.resize(self.depths.len().max(depth + 1), (0, 0));
            self.depths[depth].0 += 1;
            self.depths[depth].1 += usize::from(depth < path.len());
        }
    }

    /// Tokens per pass with guesses, on average.
    pub fn tokens_a_pass(&self) -> f64 {
        self.tokens as f64 / self.passes.max(1) as f64
    }
}
