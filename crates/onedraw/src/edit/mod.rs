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
use crate::history::History;
use crate::slice::Slice;

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

    /// Edits single tokens. `Allowed` is dense and goes into the skyline pass instead.
    pub(crate) fn apply(&self, slice: &mut Slice<'_>, context: &Context<'_>) {
        match self {
            Edit::Allowed(_) => {}
            Edit::BadWords(edit) => edit.apply(slice, context),
            Edit::MinTokens(edit) => edit.apply(slice, context),
            Edit::LogitBias(edit) => edit.apply(slice),
            Edit::Penalties(edit) => edit.apply(slice, context),
        }
    }
}

/// The result of an edit's operation, kept finite.
#[inline(always)]
pub(crate) fn saturated(x: f32) -> f32 {
    x.clamp(-f32::MAX, f32::MAX)
}
