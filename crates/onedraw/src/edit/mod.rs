//! Edits: stages that change logits or mask tokens. A file each.
//!
//! Each edit of a logit is one rounded f32 operation in the order of the chain and saturates at ±f32::MAX; only masks make −inf,
//! and −inf stays −inf.

pub(crate) mod agreement;
pub(crate) mod allowed;
pub(crate) mod bad_words;
pub(crate) mod bans;
pub(crate) mod bias;
pub(crate) mod dry;
pub(crate) mod min_tokens;
pub(crate) mod no_repeat_ngram;
pub(crate) mod penalty;
pub mod smoothing;
pub mod temperature;

pub(crate) use bans::Ban;

use crate::chain::Stage;
use crate::edited::Edited;
use crate::history::History;
use crate::params::SamplingParams;

/// What an edit may look at beside its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub history: &'a History,
    /// A grammar's mask, 32 tokens a word, lowest bit first.
    pub mask: Option<&'a [u32]>,
    /// Tokens that were taken back.
    pub bans: &'a [Ban],
    /// The position that is drawn.
    pub position: u32,
}

/// An edit with its checked parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Edit {
    /// What was taken back.
    Bans,
    Allowed(allowed::Allowed),
    BadWords(bad_words::BadWords),
    MinTokens(min_tokens::MinTokens),
    LogitBias(bias::LogitBias),
    Penalties(penalty::Penalties),
    Dry(dry::Dry),
    NoRepeatNgram(no_repeat_ngram::NoRepeatNgram),
}

impl Edit {
    /// `None` where the parameters give it nothing to do, or the stage is none that edits single tokens. `with_mask`: a mask comes
    /// with the row.
    pub(crate) fn new(stage: &Stage, params: &SamplingParams, with_mask: bool) -> Option<Self> {
        match stage {
            Stage::Allowed => allowed::Allowed::new(params, with_mask).map(Edit::Allowed),
            Stage::BadWords => bad_words::BadWords::new(params).map(Edit::BadWords),
            Stage::MinTokens => min_tokens::MinTokens::new(params).map(Edit::MinTokens),
            Stage::LogitBias => bias::LogitBias::new(params).map(Edit::LogitBias),
            Stage::Penalties => penalty::Penalties::new(params).map(Edit::Penalties),
            Stage::Dry => dry::Dry::new(params).map(Edit::Dry),
            Stage::NoRepeatNgram => no_repeat_ngram::NoRepeatNgram::new(params).map(Edit::NoRepeatNgram),
            _ => None,
        }
    }

    pub(crate) fn stage(&self) -> Stage {
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
            Edit::Bans => bans::apply(row, context),
            Edit::BadWords(edit) => edit.apply(row, context),
            Edit::MinTokens(edit) => edit.apply(row, context),
            Edit::LogitBias(edit) => edit.apply(row),
            Edit::Penalties(edit) => edit.apply(row, context),
            Edit::Dry(edit) => edit.apply(row, context),
            Edit::NoRepeatNgram(edit) => edit.apply(row, context),
        }
    }
}
