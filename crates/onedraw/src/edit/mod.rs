//! Edits: stages that change logits or mask tokens. A file each.
//!
//! Each edit of a logit is one rounded f32 operation in the order of the chain and saturates at ±f32::MAX; only masks make −inf,
//! and −inf stays −inf.

pub(crate) mod allowed;
pub(crate) mod bad_words;
pub(crate) mod bias;
pub(crate) mod min_tokens;
pub(crate) mod penalty;
pub mod temperature;

use crate::chain::Stage;
use crate::edited::Edited;
use crate::history::History;

/// What an edit may look at beside its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub history: &'a History,
    /// A grammar's mask, 32 tokens a word, lowest bit first.
    pub mask: Option<&'a [u32]>,
}

/// An edit with its checked parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edit {
    Allowed(allowed::Allowed),
    BadWords(bad_words::BadWords),
    MinTokens(min_tokens::MinTokens),
    LogitBias(bias::LogitBias),
    Penalties(penalty::Penalties),
}

impl Edit {
    pub(crate) fn stage(&self) -> Stage {
        match self {
            Edit::Allowed(_) => Stage::Allowed,
            Edit::BadWords(_) => Stage::BadWords,
            Edit::MinTokens(_) => Stage::MinTokens,
            Edit::LogitBias(_) => Stage::LogitBias,
            Edit::Penalties(_) => Stage::Penalties,
        }
    }

    /// Masks what a dense edit masks. In the first segment it comes before the skyline pass.
    pub(crate) fn apply_dense(&self, row: &mut Edited<'_>, context: &Context<'_>) {
        if let Edit::Allowed(edit) = self {
            edit.apply(row, context);
        }
    }

    /// Edits single tokens.
    pub(crate) fn apply(&self, row: &mut Edited<'_>, context: &Context<'_>) {
        match self {
            Edit::Allowed(_) => {}
            Edit::BadWords(edit) => edit.apply(row, context),
            Edit::MinTokens(edit) => edit.apply(row, context),
            Edit::LogitBias(edit) => edit.apply(row),
            Edit::Penalties(edit) => edit.apply(row, context),
        }
    }
}
