//! Where a vocabulary is split, and what a draw over the parts sends.

use std::ops::Range;

use crate::numeric::mass::MAX_VOCABULARY;

/// Where a vocabulary is split into shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shards {
    split: Split,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Split {
    Even(usize),
    At(Vec<usize>),
}

impl Shards {
    /// One shard that holds everything.
    pub const WHOLE: Shards = Shards { split: Split::Even(1) };

    /// This many shards, 1 to 2^20, as equal as can be.
    pub fn even(count: usize) -> Self {
        Self { split: Split::Even(count.clamp(1, MAX_VOCABULARY)) }
    }

    /// A shard begins at id 0 and at each of these ids, in any order. Ids past the vocabulary make empty
    /// shards.
    pub fn at(points: impl Into<Vec<usize>>) -> Self {
        let mut points = points.into();
        points.sort_unstable();
        Self { split: Split::At(points) }
    }

    /// The number of shards.
    pub fn count(&self) -> usize {
        match &self.split {
            Split::Even(count) => *count,
            Split::At(points) => points.len() + 1,
        }
    }

    /// The ids of shard number `shard` of a vocabulary; none for a shard that does not exist.
    pub fn range(&self, shard: usize, vocabulary: usize) -> Range<usize> {
        let edge = |i: usize| match &self.split {
            Split::Even(count) => (i as u128 * vocabulary as u128 / *count as u128) as usize,
            Split::At(_) if i == 0 => 0,
            Split::At(points) => points.get(i - 1).map_or(vocabulary, |&point| point.min(vocabulary)),
        };
        let shard = shard.min(self.count());
        edge(shard)..edge((shard + 1).min(self.count()))
    }
}

impl Default for Shards {
    fn default() -> Self {
        Self::WHOLE
    }
}

/// What a draw over shards sends, or would send if they were in other processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Questions asked, each of which is a round trip.
    pub rounds: u32,
    /// Bytes of all questions and replies to and from all shards, without the headers.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cover_the_vocabulary_once() {
        for shards in [Shards::even(1), Shards::even(3), Shards::even(16), Shards::at([5, 5, 70, 900])] {
            for vocabulary in [1, 2, 15, 64, 100, 1000] {
                let mut next = 0;
                for shard in 0..shards.count() {
                    let range = shards.range(shard, vocabulary);
                    assert_eq!(range.start, next, "{shards:?} {vocabulary}");
                    next = range.end;
                }
                assert_eq!(next, vocabulary);
            }
        }
        assert_eq!(Shards::at([70, 5]).range(1, 100), 5..70);
        assert!(Shards::even(3).range(usize::MAX, 10).is_empty());
        assert!(Shards::at([5]).range(2, 10).is_empty());
    }
}
