//! What a generator saw in its passes, for those who show how a text came to be.

use onedraw::Saved;
use onedraw::speculate::DraftTree;

use crate::generate::event::RequestId;

/// What a pass did besides the tokens in its [events](crate::Event). A generator collects this only if it is
/// [watched](crate::Generator::watched).
#[derive(Clone, Debug)]
pub enum Seen {
    /// A row that a token was taken from.
    Row(Box<SeenRow>),
    /// Guesses that were verified. The rows of the pass come after them.
    Guesses(SeenGuesses),
}

/// A row that a token was taken from.
#[derive(Clone, Debug)]
pub struct SeenRow {
    /// The request.
    pub request: RequestId,
    /// Which of its texts.
    pub sample: usize,
    /// The number of output tokens before it.
    pub position: usize,
    /// The model's logits, unmodified.
    pub logits: Vec<f32>,
    /// The tokens that the constraint allowed, if there is one.
    pub mask: Option<Vec<u32>>,
    /// Everything else that the draw depended on.
    pub before: Saved,
}

/// Guesses that were verified in one pass.
#[derive(Clone, Debug)]
pub struct SeenGuesses {
    /// The request.
    pub request: RequestId,
    /// Which of its texts.
    pub sample: usize,
    /// The number of output tokens before the first guesses.
    pub position: usize,
    /// The guesses.
    pub tree: DraftTree,
    /// Those that were accepted, from the first position on.
    pub path: Vec<usize>,
}
