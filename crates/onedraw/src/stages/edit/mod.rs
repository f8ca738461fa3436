//! Edits: stages that change logits or mask tokens. One file per edit.
//!
//! Each edit of a logit is one rounded f32 operation in the order of the chain and saturates at ±f32::MAX;
//! only masks make −inf, and −inf stays −inf.

mod agreement;
mod allowed;
mod bad_words;
mod bans;
mod bias;
pub(crate) mod context;
mod dry;
mod min_tokens;
mod no_repeat_ngram;
mod penalty;
pub(crate) mod smoothing;

pub use allowed::Allowed;
pub use bad_words::BadWords;
pub use bias::LogitBias;
pub use dry::Dry;
pub use min_tokens::MinTokens;
pub use no_repeat_ngram::NoRepeatNgram;
pub use penalty::Penalties;

use crate::logits::edited::EditedRow;
use crate::params::SamplingParams;
use crate::params::chain::Stage;
use crate::stages::edit::context::Context;

/// What edits work in, kept from step to step so that a step allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct EditMemory {
    /// DRY's and the n-grams'.
    agreement: agreement::Agreement,
    dry: dry::DryMemory,
}

/// An edit with its checked parameters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Edit {
    /// Tokens that were taken back must not be drawn again at their position. Always the first edit.
    Bans,
    /// Only some tokens may be drawn.
    Allowed(Allowed),
    /// Token sequences that must not appear.
    BadWords(BadWords),
    /// No end before enough tokens are written.
    MinTokens(MinTokens),
    /// Numbers added to single logits.
    LogitBias(LogitBias),
    /// Repetition, frequency and presence penalty.
    Penalties(Penalties),
    /// Don't repeat yourself.
    Dry(Dry),
    /// No n-gram twice.
    NoRepeatNgram(NoRepeatNgram),
}

impl Edit {
    /// `None` where the parameters give it nothing to do, or the stage is none that edits single tokens.
    /// `with_mask`: a mask comes with the row.
    pub(crate) fn new(stage: &Stage, params: &SamplingParams, with_mask: bool) -> Option<Self> {
        match stage {
            Stage::Allowed => Allowed::new(params, with_mask).map(Edit::Allowed),
            Stage::BadWords => BadWords::new(params).map(Edit::BadWords),
            Stage::MinTokens => MinTokens::new(params).map(Edit::MinTokens),
            Stage::LogitBias => LogitBias::new(params).map(Edit::LogitBias),
            Stage::Penalties => Penalties::new(params).map(Edit::Penalties),
            Stage::Dry => Dry::new(params).map(Edit::Dry),
            Stage::NoRepeatNgram => NoRepeatNgram::new(params).map(Edit::NoRepeatNgram),
            _ => None,
        }
    }

    /// The stage it belongs to.
    pub fn stage(&self) -> Stage {
        match self {
            // Banned words of a kind; they have no stage of their own.
            Edit::Bans => Stage::BadWords,
            Edit::Allowed(_) => Stage::Allowed,
            Edit::BadWords(_) => Stage::BadWords,
            Edit::MinTokens(_) => Stage::MinTokens,
            Edit::LogitBias(_) => Stage::LogitBias,
            Edit::Penalties(_) => Stage::Penalties,
            Edit::Dry(_) => Stage::Dry,
            Edit::NoRepeatNgram(_) => Stage::NoRepeatNgram,
        }
    }

    /// The tokens whose logits it may change, whatever the text is. The penalties, DRY and n-grams also
    /// change tokens of the text.
    pub fn touched(&self) -> Vec<u32> {
        match self {
            Edit::BadWords(edit) => edit.words().iter().map(|&(_, last)| last).collect(),
            Edit::MinTokens(edit) => edit.ends().to_vec(),
            Edit::LogitBias(edit) => edit.biases().iter().map(|&(id, _)| id).collect(),
            _ => Vec::new(),
        }
    }

    /// Masks the tokens that are not on the edit's list of all that stay, if it has one.
    pub(crate) fn mask(&self, row: &mut EditedRow<'_>, context: &Context<'_>) {
        if let Edit::Allowed(edit) = self {
            edit.apply(row, context);
        }
    }

    /// Changes or masks single tokens.
    pub(crate) fn apply(&self, row: &mut EditedRow<'_>, context: &Context<'_>, memory: &mut EditMemory) {
        match self {
            Edit::Allowed(_) => {}
            Edit::Bans => bans::apply(row, context),
            Edit::BadWords(edit) => edit.apply(row, context),
            Edit::MinTokens(edit) => edit.apply(row, context),
            Edit::LogitBias(edit) => edit.apply(row),
            Edit::Penalties(edit) => edit.apply(row, context),
            Edit::Dry(edit) => edit.apply(row, context, &mut memory.agreement, &mut memory.dry),
            Edit::NoRepeatNgram(edit) => edit.apply(row, context, &mut memory.agreement),
        }
    }
}
