//! Top-k: keeps exactly the first k tokens of the order (Fan, Lewis, Dauphin, Hierarchical neural story
//! generation, 2018).

use crate::error::RowError;
use crate::logits::access::{Asker, RowAccess};
use crate::logits::locate;
use crate::logits::query::{ListBest, Measure};
use crate::numeric::key::Key;
use crate::numeric::mass::MAX_VOCABULARY;

/// Up to this k the k best keys are listed to find the k-th; beyond it, a radix select counts.
const MAX_LISTED: u32 = 1024;
/// Up to this k it costs less to list the k best keys first than to run a race among all tokens.
const MAX_SHORT: u32 = 128;

/// A checked `top_k`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopK {
    k: u32,
}

impl TopK {
    /// `None` where it is off, or keeps every token of any vocabulary.
    pub(crate) fn new(top_k: i64) -> Option<Self> {
        (top_k > 0 && top_k < MAX_VOCABULARY as i64).then_some(Self { k: top_k as u32 })
    }

    /// Exactly `k`, which is at least 1.
    pub(crate) fn of(k: u32) -> Self {
        Self { k }
    }

    /// How many tokens it keeps.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// Whether finding the last token it keeps costs no more than a few blocks.
    pub(crate) fn is_listed(&self) -> bool {
        self.k <= MAX_LISTED
    }

    /// Whether the last token it keeps is found sooner than a race is run among all tokens.
    pub(crate) fn is_short(&self) -> bool {
        self.k <= MAX_SHORT
    }

    /// Whether fewer than k tokens come before `key`.
    pub(crate) async fn keeps<R: RowAccess>(
        &self,
        row: &mut Asker<'_, R>,
        key: Key,
    ) -> Result<bool, RowError> {
        Ok(row.count_before(key, self.k).await? < self.k)
    }

    /// The k-th token, or [`Key::END`] if there are fewer.
    pub(crate) async fn cut<R: RowAccess>(&self, row: &mut Asker<'_, R>) -> Result<Key, RowError> {
        if !self.is_listed() {
            let found = locate::by_radix(row, Measure::Count, u64::from(self.k) - 1).await?;
            return Ok(found.unwrap_or(Key::END));
        }
        row.ask(&ListBest { count: self.k }).await?;
        let keys = &mut row.lists.keys;
        let place = self.k as usize - 1;
        Ok(if place < keys.len() { *keys.select_nth_unstable(place).1 } else { Key::END })
    }
}
