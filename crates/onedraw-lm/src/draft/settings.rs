//! How far ahead to guess, and how guesses are judged.

use onedraw::speculate::{DraftTree, Verify};

use crate::error::ModelError;
use crate::speculate::policy::WIDTH;

/// How guesses are made and judged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speculation {
    /// How guesses are judged.
    pub verify: Verify,
    /// Guesses after one place, at most.
    pub width: usize,
    /// Guesses that follow each other, at most.
    pub depth: usize,
    /// Whether the guesses are as many as pay, within these bounds; else always as many as the bounds allow. Only in `exact` mode, where the text does not
    /// depend on it: in the others a law would.
    pub adapts: bool,
}

impl Default for Speculation {
    /// As it pays, in `exact` mode.
    fn default() -> Self {
        Self { verify: Verify::Exact, width: 3, depth: 8, adapts: true }
    }
}

impl Speculation {
    /// As usual for a way to judge: a tree that adapts where it may, else a line of four guesses.
    pub fn new(verify: Verify) -> Self {
        match verify {
            Verify::Exact => Self::default(),
            _ => Self { verify, width: 1, depth: 4, adapts: false },
        }
    }

    pub(crate) fn is_adaptive(&self) -> bool {
        self.adapts && self.verify == Verify::Exact
    }

    /// Guesses of a whole tree.
    fn nodes(&self) -> usize {
        let mut level = 1usize;
        let levels = (0..self.depth).map(|_| {
            level = level.saturating_mul(self.width);
            level
        });
        levels.fold(0, usize::saturating_add)
    }

    /// Whether it can be done with a target of that context.
    pub(crate) fn check(&self, context: usize) -> Result<(), ModelError> {
        let wrong = |message: String| Err(ModelError::Request(message));
        if self.width == 0 || self.depth == 0 {
            return wrong("a tree of guesses is at least one wide and one deep".to_owned());
        }
        if self.width > WIDTH {
            return wrong(format!("a tree of guesses is at most {WIDTH} wide, not {}", self.width));
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

/// What became of guesses so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guessed {
    /// Passes of the target that had guesses in them.
    pub passes: usize,
    /// Passes that had none.
    pub plain_passes: usize,
    /// Tokens that passes with guesses brought, the target's own among them.
    pub tokens: usize,
    /// Guesses that were judged.
    pub guesses: usize,
    /// For each depth, the passes that came so far and had a guess there, and those where one held.
    pub depths: Vec<(usize, usize)>,
}

impl Guessed {
    /// A pass brought so many tokens: its guesses, and how many of them held.
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

    /// Tokens that a pass with guesses brought, on average.
    pub fn tokens_a_pass(&self) -> f64 {
        self.tokens as f64 / self.passes.max(1) as f64
    }
}
