//! Allowed tokens: a list of ids, a grammar's bit mask, or both.

use crate::logits::edited::EditedRow;
use crate::params::SamplingParams;
use crate::stages::edit::context::Context;

/// Masks every token that is not in the list or not in the mask.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowed {
    /// `None`: every id; a grammar's mask may still be given.
    ids: Option<Vec<u32>>,
}

impl Allowed {
    /// Active where there is a list, or where a mask comes with the row.
    pub(crate) fn new(params: &SamplingParams, with_mask: bool) -> Option<Self> {
        (params.allowed_token_ids.is_some() || with_mask)
            .then(|| Self { ids: params.allowed_token_ids.clone() })
    }

    /// The listed ids; `None`: every id, though a grammar's mask may still exclude some.
    pub fn ids(&self) -> Option<&[u32]> {
        self.ids.as_deref()
    }

    pub(crate) fn apply(&self, row: &mut EditedRow<'_>, context: &Context<'_>) {
        self.ids.iter().for_each(|ids| row.keep_listed(ids));
        context.mask.iter().for_each(|mask| row.keep_masked(mask));
    }
}
