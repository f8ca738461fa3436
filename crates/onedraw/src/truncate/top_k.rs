//! Top-k: keeps exactly the k first tokens of the order (Fan, Lewis, Dauphin, Hierarchical neural story generation, 2018).

use crate::inquiry::Inquiry;
use crate::order::Key;
use crate::question::{Measure, Question};
use crate::row::MAX_VOCABULARY;

/// Up to here the k best keys are listed; beyond, a radix select counts.
const LISTED: u32 = 1024;
/// Up to here listing them costs less than a race among all.
const SHORT: u32 = 128;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TopK {
    k: u32,
}

impl TopK {
    pub(crate) fn new(top_k: i64) -> Option<Self> {
        (top_k > 0 && top_k < MAX_VOCABULARY as i64).then_some(Self { k: top_k as u32 })
    }

    /// Exactly `k`, which is at least 1.
    pub(crate) fn of(k: u32) -> Self {
        Self { k }
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.k <= LISTED
    }

    pub(crate) fn is_short(&self) -> bool {
        self.k <= SHORT
    }

    pub(crate) fn keeps(&self, row: &mut Inquiry<'_>, key: Key) -> bool {
        row.rank(key, self.k) < self.k
    }

    /// The k-th token, or [`Key::END`] if there are not so many.
    pub(crate) fn cut(&self, row: &mut Inquiry<'_>) -> Key {
        if !self.is_listed() {
            return row.locate(Measure::Count, u64::from(self.k) - 1);
        }
        row.ask(Question::Best { count: self.k });
        let keys = row.keys();
        let place = self.k as usize - 1;
        if place < keys.len() { *keys.select_nth_unstable(place).1 } else { Key::END }
    }
}
