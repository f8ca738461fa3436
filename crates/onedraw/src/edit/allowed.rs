//! Allowed tokens: a list of ids, a grammar's bit mask, or both.

use crate::noise::BLOCK;
use crate::params::SamplingParams;
use crate::row::Span;

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

    /// Clears the bits of `alive` that are not allowed: a word a block, which is what a mask is.
    pub(crate) fn narrow(
        &self,
        span: &Span<'_>,
        mask: Option<&[u32]>,
        alive: &mut [u64],
        listed: &mut Vec<u64>,
    ) {
        if let Some(ids) = &self.ids {
            listed.clear();
            listed.resize(alive.len(), 0);
            for (block, lane) in ids.iter().filter_map(|&id| span.place(id)) {
                listed[block] |= 1 << lane;
            }
            alive.iter_mut().zip(listed.iter()).for_each(|(alive, listed)| *alive &= listed);
        }
        if let Some(mask) = mask {
            for (block, alive) in alive.iter_mut().enumerate() {
                let word = (span.first_block() + block) * BLOCK / 32;
                let half = |i: usize| mask.get(i).map_or(0, |&bits| u64::from(bits));
                *alive &= half(word) | half(word + 1) << 32;
            }
        }
    }
}
