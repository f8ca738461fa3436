//! Allowed tokens: a list of ids, a grammar's bit mask, or both.

use crate::edit::Context;
use crate::edited::Edited;
use crate::params::SamplingParams;

/// Masks every token that is not in the list or not in the mask.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Allowed {
    /// `None`: every id; a grammar's mask may still be given.
    ids: Option<Vec<u32>>,
}

impl Allowed {
    /// Active where there is a list, or where a mask comes with the row.
    pub(crate) fn new(params: &SamplingParams, with_mask: bool) -> Option<Self> {
        (params.allowed_token_ids.is_some() || with_mask)
            .then(|| Self { ids: params.allowed_token_ids.clone() })
    }

    pub(crate) fn apply(&self, row: &mut Edited<'_>, context: &Context<'_>) {
        self.ids.iter().for_each(|ids| row.keep_listed(ids));
        context.mask.iter().for_each(|mask| row.keep_masked(mask));
    }
}
