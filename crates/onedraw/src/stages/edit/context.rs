//! Shows the edits the text so far, a grammar's mask and the tokens that were taken back.

use crate::state::history::History;
use crate::state::path::Ban;

/// What an edit may look at beside its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub history: &'a History,
    /// A grammar's mask, 32 tokens per word, lowest bit first.
    pub mask: Option<&'a [u32]>,
    /// Tokens that were taken back.
    pub bans: &'a [Ban],
    /// The position that is drawn.
    pub position: u32,
}
