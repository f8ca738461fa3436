//! The same draw over a vocabulary that is split across ranks.
//!
//! Blocks and noise use global ids, so a rank that holds any run of the vocabulary answers [`Question`]s about its
//! tokens, and merged answers are those of the whole row. Each question is one round: the asker sends it to every rank, each rank
//! sends its [`Reply`] back.
//!
//! | rounds of a draw | question | bytes out, bytes back, each rank |
//! |---|---|---|
//! | always | the edited maximum, the first bad id | 1, 14 |
//! | unless greedy | the race's winner | 29, 17 |
//! | top-k up to 128 | the k best keys, before the race | 5, 1 + 8·k |
//! | top-k above | its rank; if it is rejected, the k best keys, once | 13, 5, then 5, 1 + 8·k |
//! | top-p | intervals of the mass before it and of the total, once or twice | 21, 33 |
//! | top-p, if the intervals cannot tell, and after another truncation | both masses | 2 · 17, 2 · 9 |
//! | a cut by mass | a sketch, then one or two bands of n keys | 9, 22,529, then 33, 9 + 8·n |
//! | a cut by mass that no band holds, or a k above 1,024 | five histograms | 5 · 19, up to 3 · 16,385 + 2 · 8,193 |
//! | epsilon, top-a, mirostat 2 | an interval of the total, and if it cannot tell, the total | 21, 33, then 17, 9 |
//! | eta (if the interval cannot tell), dynatemp | count, mass and entropy | 17, 21 |
//! | top-n-sigma | the last token, then sums of deviations | 9, 9, then 17, 29 |
//! | typical | the entropy, a sketch and bands, then what goes, if anything does | 17, 21, then as above, then 17, 14 |
//! | typical, if no band holds its end | three histograms of distances | 3 · 43, 2 · 16,385 + 8,193 |
//! | XTC, if its coin says yes | the total, the last top choice, then what goes | 17, 9, then 9, 9, then 17, 14 |
//! | mirostat 1 | the hundred best keys | 5, 801 |
//! | mirostat, after the draw | what was kept, and its mass | as for top-k or for epsilon |
//! | smoothing | the bend | 29, 14 |
//! | a user's own stage | the mass, all keys, then the change | 17, 9, then 9, 1 + 8·V, then 1 + 8 a token, 14 |
//!
//! The bytes are a tag and the numbers at their width. min-p needs no round. A rejected winner repeats the rounds from the race on.
//!
//! [`Shards`] runs all ranks in one process. Across processes, each holds a [`Rank`](crate::Sampler::rank), and one draws over whatever
//! carries the messages. A rank trusts its questions: they come from an asker, not from users.
//!
//! ```
//! use onedraw::question::{Answers, Question, Reply};
//! use onedraw::{Sampler, SamplingParams};
//!
//! /// Two ranks; here in one process, elsewhere at two ends of a wire.
//! struct Pair<A, B>(A, B);
//!
//! impl<A: Answers, B: Answers> Answers for Pair<A, B> {
//!     fn ask(&mut self, question: &Question, reply: &mut Reply) {
//!         self.0.ask(question, reply);
//!         let mut other = Reply::default();
//!         self.1.ask(question, &mut other);
//!         reply.absorb(&other);
//!     }
//! }
//!
//! let params = SamplingParams::builder().top_k(3).top_p(0.9).seed(5).build()?;
//! let row = [0.1_f32, 2.0, 1.5, -1.0, 1.9, 0.4, 2.2];
//! let (low, high) = row.split_at(4);
//! let mut samplers = [(); 3].map(|()| Sampler::new(params.clone()).unwrap());
//! let [first, second, asker] = &mut samplers;
//! let mut ranks = Pair(first.rank(low, 0, None)?, second.rank(high, 4, None)?);
//! let drawn = asker.sample_over(&mut ranks, row.len(), false)?;
//! assert_eq!(drawn, Sampler::new(params)?.sample(&row)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::edit::Context;
use crate::float_mode::Standard;
use crate::kernels::passes::Passes;
use crate::noise::Noise;
use crate::plan::Segment;
use crate::question::{Answers, Question, Reply};
use crate::row::{MAX_VOCABULARY, Row};
use crate::slice::{Slice, SliceMemory};

/// Where a vocabulary is split.
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
    /// One rank that holds everything.
    pub const WHOLE: Shards = Shards { split: Split::Even(1) };

    /// So many ranks with as equal shares as can be, 1 to 2^20.
    pub fn even(ranks: usize) -> Self {
        Self { split: Split::Even(ranks.clamp(1, MAX_VOCABULARY)) }
    }

    /// A rank begins at id 0 and at each of these ids, in any order. Ids past the vocabulary make empty ranks.
    pub fn at(points: impl Into<Vec<usize>>) -> Self {
        let mut points = points.into();
        points.sort_unstable();
        Self { split: Split::At(points) }
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        match &self.split {
            Split::Even(ranks) => *ranks,
            Split::At(points) => points.len() + 1,
        }
    }

    /// The ids of rank `rank` of a vocabulary; none for a rank that is not there.
    pub fn range(&self, rank: usize, vocabulary: usize) -> std::ops::Range<usize> {
        let edge = |i: usize| match &self.split {
            Split::Even(ranks) => (i as u128 * vocabulary as u128 / *ranks as u128) as usize,
            Split::At(_) if i == 0 => 0,
            Split::At(points) => points.get(i - 1).map_or(vocabulary, |&point| point.min(vocabulary)),
        };
        let rank = rank.min(self.ranks());
        edge(rank)..edge((rank + 1).min(self.ranks()))
    }
}

impl Default for Shards {
    fn default() -> Self {
        Self::WHOLE
    }
}

/// What a draw over shards sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Questions asked, each a round trip.
    pub rounds: u32,
    /// Bytes of all questions and replies, over all ranks.
    pub bytes: u64,
}

/// One rank's part of a row, loaded and edited, ready to be asked. Made by [`Sampler::rank`](crate::Sampler::rank).
pub struct Rank<'a>(Slice<'a>);

impl<'a> Rank<'a> {
    pub(crate) fn new(slice: Slice<'a>) -> Self {
        Self(slice)
    }
}

impl Answers for Rank<'_> {
    fn ask(&mut self, question: &Question, reply: &mut Reply) {
        let _mode = Standard::enter();
        self.0.ask(question, reply);
    }
}

/// All ranks in one process.
pub(crate) struct Ranks<'a> {
    slices: Vec<Slice<'a>>,
    partial: &'a mut Reply,
    pub traffic: Traffic,
}

impl<'a> Ranks<'a> {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn load(
        row: Row<'a>,
        shards: &Shards,
        segments: &'a [Segment],
        context: Context<'a>,
        noise: Noise,
        passes: Passes,
        memory: &'a mut [SliceMemory],
        partial: &'a mut Reply,
    ) -> Self {
        let load = |(rank, memory)| {
            let range = shards.range(rank, row.len());
            Slice::load(row.part(range.clone()), range.start, segments, context, noise, passes, memory)
        };
        Self {
            slices: memory.iter_mut().enumerate().map(load).collect(),
            partial,
            traffic: Traffic::default(),
        }
    }
}

impl Answers for Ranks<'_> {
    fn ask(&mut self, question: &Question, reply: &mut Reply) {
        reply.clear();
        self.traffic.rounds += 1;
        for slice in &mut self.slices {
            slice.ask(question, self.partial);
            self.traffic.bytes += (question.bytes() + self.partial.bytes()) as u64;
            reply.absorb(self.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_cover_the_vocabulary_once() {
        for shards in [Shards::even(1), Shards::even(3), Shards::even(16), Shards::at([5, 5, 70, 900])] {
            for vocabulary in [1, 2, 15, 64, 100, 1000] {
                let mut next = 0;
                for rank in 0..shards.ranks() {
                    let range = shards.range(rank, vocabulary);
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
