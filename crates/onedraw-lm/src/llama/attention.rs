//! Attention of one position: what it takes from the positions before it, in an order that only their places decide.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, f32x16};

use crate::kernels::dot::folded;
use crate::kernels::exponential::exp;
use crate::llama::cache::PAGE;

/// The keys and values of one head in one page.
#[derive(Clone, Copy)]
pub(crate) struct Leaf<'a> {
    pub keys: &'a [[f32; PAGE]],
    pub values: &'a [f32],
}

/// What one position looks at.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// The positions that are seen.
    pub from: usize,
    /// Exclusive.
    pub to: usize,
    /// Numbers of a head.
    pub head_size: usize,
}

/// Queries that are taken side by side, at most: one sum alone would wait for itself.
const QUERIES: usize = 4;

/// Room for scores, query by query.
pub(crate) type Scores = [Vec<f32>; QUERIES];

impl Look {
    /// What each of the `queries` takes, into `mixed`, which is as long. Each head of keys has its pages, those from the first position on, and as many queries as every
    /// other.
    pub(crate) fn mix(
        self,
        level: Level,
        heads: &[Vec<Leaf<'_>>],
        queries: &[f32],
        scores: &mut Scores,
        mixed: &mut [f32],
    ) {
        let count = queries.len() / self.head_size;
        let of = |query: usize| &heads[query * heads.len() / count][self.from / PAGE..self.to.div_ceil(PAGE)];
        dispatch!(level, simd => {
            let mut first = 0;
            while first < count {
                let taken = match count - first {
                    QUERIES.. => QUERIES,
                    2.. => 2,
                    _ => 1,
                };
                let own = first * self.head_size..(first + taken) * self.head_size;
                let (queries, mixed) = (&queries[own.clone()], &mut mixed[own]);
                match taken {
                    QUERIES => {
                        let leaves = [of(first), of(first + 1), of(first + 2), of(first + 3)];
                        self.side_by_side(simd, leaves, queries, scores, mixed);
                    }
                    2 => self.side_by_side(simd, [of(first), of(first + 1)], queries, scores, mixed),
                    _ => self.side_by_side(simd, [of(first)], queries, scores, mixed),
                }
                first += taken;
            }
        });
    }

    #[inline(always)]
    fn side_by_side<S: Simd, const N: usize>(
        self,
        simd: S,
        leaves: [&[Leaf<'_>]; N],
        queries: &[f32],
        scores: &mut Scores,
        mixed: &mut [f32],
    ) {
        let queries: [&[f32]; N] = std::array::from_fn(
            #[inline(always)]
            |i| &queries[i * self.head_size..(i + 1) * self.head_size],
        );
        self.score(simd, &leaves, queries, scores);
        let mut totals = [0.0; N];
        for (total, scores) in totals.iter_mut().zip(scores.iter_mut()) {
            let highest = self.highest(simd, scores);
            *total = shares(simd, scores, highest);
        }
        let mut column = 0;
        while column < self.head_size {
            column += match self.head_size - column {
                64.. if N == 1 => self.gather::<S, N, 4>(simd, &leaves, scores, totals, column, mixed),
                32.. => self.gather::<S, N, 2>(simd, &leaves, scores, totals, column, mixed),
                16.. => self.gather::<S, N, 1>(simd, &leaves, scores, totals, column, mixed),
                _ => self.gather_rest(&leaves, scores, totals, column, mixed),
            };
        }
    }

    /// The products of queries with keys, scaled.
    #[inline(always)]
    fn score<S: Simd, const N: usize>(
        self,
        simd: S,
        leaves: &[&[Leaf<'_>]; N],
        queries: [&[f32]; N],
        scores: &mut Scores,
    ) {
        // The root of a small integer, rounded once, like the division: every machine has the same.
        let scale = 1.0 / (self.head_size as f32).sqrt();
        scores.iter_mut().for_each(Vec::clear);
        // A page of each query.
        #[allow(clippy::needless_range_loop)]
        for page in 0..leaves[0].len() {
            let keys: [&[[f32; PAGE]]; N] = std::array::from_fn(
                #[inline(always)]
                |i| &leaves[i][page].keys[..self.head_size],
            );
            let mut sums = [f32x16::splat(simd, 0.0); N];
            for number in 0..self.head_size {
                for i in 0..N {
                    let query = f32x16::splat(simd, queries[i][number]);
                    sums[i] = f32x16::load_array_ref(simd, &keys[i][number]).mul_add_precise(query, sums[i]);
                }
            }
            for (scores, sums) in scores.iter_mut().zip(sums) {
                scores.extend_from_slice((sums * scale).as_slice());
            }
        }
    }

    /// The highest score; those of positions that are not seen become −inf.
    #[inline(always)]
    fn highest<S: Simd>(self, simd: S, scores: &mut [f32]) -> f32 {
        let first = self.from / PAGE * PAGE;
        scores[..self.from - first].fill(f32::NEG_INFINITY);
        scores[self.to - first..].fill(f32::NEG_INFINITY);
        let mut highest = f32x16::splat(simd, f32::NEG_INFINITY);
        for lanes in scores.as_chunks::<PAGE>().0 {
            highest = highest.max(f32x16::load_array_ref(simd, lanes));
        }
        let lanes: [f32; PAGE] = highest.into();
        lanes.into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })
    }

    /// So many times sixteen numbers of the values, each by its share, summed over the positions in their order; how many that were.
    #[inline(always)]
    fn gather<S: Simd, const N: usize, const VECTORS: usize>(
        self,
        simd: S,
        leaves: &[&[Leaf<'_>]; N],
        shares: &Scores,
        totals: [f32; N],
        column: usize,
        mixed: &mut [f32],
    ) -> usize {
        let mut sums = [[f32x16::splat(simd, 0.0); VECTORS]; N];
        for page in 0..leaves[0].len() {
            // What lies behind the last position seen is another's, or was cut: no number of it may come in, were it times 0.
            let seen = (self.to - (self.from / PAGE + page) * PAGE).min(PAGE);
            for slot in 0..seen {
                for i in 0..N {
                    let share = f32x16::splat(simd, shares[i][page * PAGE + slot]);
                    let place = slot * self.head_size + column;
                    let values = &leaves[i][page].values[place..place + VECTORS * PAGE];
                    for (vector, numbers) in values.as_chunks::<PAGE>().0.iter().enumerate() {
                        let sum = &mut sums[i][vector];
                        *sum = f32x16::load_array_ref(simd, numbers).mul_add_precise(share, *sum);
                    }
                }
            }
        }
        for i in 0..N {
            let start = i * self.head_size + column;
            let mixed = mixed[start..start + VECTORS * PAGE].as_chunks_mut::<PAGE>().0;
            for (mixed, sum) in mixed.iter_mut().zip(sums[i]) {
                *mixed = (sum / totals[i]).into();
            }
        }
        VECTORS * PAGE
    }

    /// The last numbers of the values, fewer than sixteen.
    fn gather_rest<const N: usize>(
        self,
        leaves: &[&[Leaf<'_>]; N],
        shares: &Scores,
        totals: [f32; N],
        column: usize,
        mixed: &mut [f32],
    ) -> usize {
        let rest = self.head_size - column;
        let first = self.from / PAGE * PAGE;
        for i in 0..N {
            for number in 0..rest {
                let mut sum = 0.0;
                for place in 0..self.to - first {
                    let value =
                        leaves[i][place / PAGE].values[place % PAGE * self.head_size + column + number];
                    sum = libm::fmaf(value, shares[i][place], sum);
                }
                mixed[i * self.head_size + column + number] = sum / totals[i];
            }
        }
        rest
    }
}

/// Scores become e to their distance from the highest; the sum of these, by lanes and then in halves.
#[inline(always)]
fn shares<S: Simd>(simd: S, scores: &mut [f32], highest: f32) -> f32 {
    let mut total = f32x16::splat(simd, 0.0);
    for lanes in scores.as_chunks_mut::<PAGE>().0 {
        let share = exp(f32x16::load_array_ref(simd, lanes) - highest);
        total += share;
        *lanes = share.into();
    }
    folded(total)
}
