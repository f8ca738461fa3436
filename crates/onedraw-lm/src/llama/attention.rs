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

/// Queries that look at the same keys.
pub(crate) struct Look<'a> {
    /// The pages from the first position on.
    pub leaves: &'a [Leaf<'a>],
    /// The positions that are seen.
    pub from: usize,
    /// Exclusive.
    pub to: usize,
    pub head_size: usize,
}

impl Look<'_> {
    /// What each of the `queries` (heads that share keys, one after the other) takes, into `mixed`, which is as long.
    pub(crate) fn mix(&self, level: Level, queries: &[f32], scores: &mut Vec<f32>, mixed: &mut [f32]) {
        dispatch!(level, simd => {
            for (query, mixed) in queries.chunks_exact(self.head_size).zip(mixed.chunks_exact_mut(self.head_size)) {
                let highest = self.score(simd, query, scores);
                let total = shares(simd, scores, highest);
                self.gather(simd, scores, total, mixed);
            }
        });
    }

    /// The pages that hold a position that is seen.
    fn pages(&self) -> std::ops::Range<usize> {
        self.from / PAGE..self.to.div_ceil(PAGE)
    }

    /// The products of a query with the keys, scaled, −inf where a position is not seen; and the highest of them.
    #[inline(always)]
    fn score<S: Simd>(&self, simd: S, query: &[f32], scores: &mut Vec<f32>) -> f32 {
        // The root of a small integer, rounded once, like the division: every machine has the same.
        let scale = 1.0 / (self.head_size as f32).sqrt();
        scores.clear();
        let leaves = &self.leaves[self.pages()];
        let zero = f32x16::splat(simd, 0.0);
        // Four pages at a time, for one sum alone would wait for itself.
        let (fours, rest) = leaves.as_chunks::<4>();
        for [p, q, r, s] in fours {
            let (mut a, mut b, mut c, mut d) = (zero, zero, zero, zero);
            let keys = p.keys.iter().zip(q.keys).zip(r.keys.iter().zip(s.keys));
            for (&number, ((p, q), (r, s))) in query.iter().zip(keys) {
                let number = f32x16::splat(simd, number);
                a = f32x16::load_array_ref(simd, p).mul_add_precise(number, a);
                b = f32x16::load_array_ref(simd, q).mul_add_precise(number, b);
                c = f32x16::load_array_ref(simd, r).mul_add_precise(number, c);
                d = f32x16::load_array_ref(simd, s).mul_add_precise(number, d);
            }
            for sums in [a, b, c, d] {
                scores.extend_from_slice((sums * scale).as_slice());
            }
        }
        for leaf in rest {
            let mut sums = zero;
            for (&number, keys) in query.iter().zip(leaf.keys) {
                sums = f32x16::load_array_ref(simd, keys).mul_add_precise(f32x16::splat(simd, number), sums);
            }
            scores.extend_from_slice((sums * scale).as_slice());
        }
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

    /// The values, each by its share.
    #[inline(always)]
    fn gather<S: Simd>(&self, simd: S, shares: &[f32], total: f32, mixed: &mut [f32]) {
        let mut column = 0;
        // Four vectors at a time, for one sum alone would wait for itself.
        while column + 4 * PAGE <= mixed.len() {
            let sums = self.columns::<S, 4>(simd, shares, column);
            for (sum, mixed) in sums.into_iter().zip(mixed[column..].as_chunks_mut::<PAGE>().0) {
                *mixed = (sum / total).into();
            }
            column += 4 * PAGE;
        }
        while column + 2 * PAGE <= mixed.len() {
            let sums = self.columns::<S, 2>(simd, shares, column);
            for (sum, mixed) in sums.into_iter().zip(mixed[column..].as_chunks_mut::<PAGE>().0) {
                *mixed = (sum / total).into();
            }
            column += 2 * PAGE;
        }
        while column < mixed.len() {
            let length = (mixed.len() - column).min(PAGE);
            let sum = self.column(simd, shares, column, length);
            let sum: [f32; PAGE] = (sum / total).into();
            mixed[column..column + length].copy_from_slice(&sum[..length]);
            column += length;
        }
    }

    /// So many times sixteen numbers of the values, from `column` on, summed over the positions in their order.
    #[inline(always)]
    fn columns<S: Simd, const VECTORS: usize>(
        &self,
        simd: S,
        shares: &[f32],
        column: usize,
    ) -> [f32x16<S>; VECTORS] {
        let mut sums = [f32x16::splat(simd, 0.0); VECTORS];
        self.each_value(
            shares,
            #[inline(always)]
            |values, share| {
                let numbers = values[column..column + VECTORS * PAGE].as_chunks::<PAGE>().0;
                for (sum, numbers) in sums.iter_mut().zip(numbers) {
                    *sum = f32x16::load_array_ref(simd, numbers)
                        .mul_add_precise(f32x16::splat(simd, share), *sum);
                }
            },
        );
        sums
    }

    /// Sixteen numbers, or the last few.
    #[inline(always)]
    fn column<S: Simd>(&self, simd: S, shares: &[f32], column: usize, length: usize) -> f32x16<S> {
        let mut sum = f32x16::splat(simd, 0.0);
        self.each_value(
            shares,
            #[inline(always)]
            |values, share| {
                let mut numbers = [0.0; PAGE];
                numbers[..length].copy_from_slice(&values[column..column + length]);
                sum = f32x16::load_array(simd, numbers).mul_add_precise(f32x16::splat(simd, share), sum);
            },
        );
        sum
    }

    /// The values of each position and its share, in order.
    #[inline(always)]
    fn each_value(&self, shares: &[f32], mut each: impl FnMut(&[f32], f32)) {
        for (page, shares) in self.pages().zip(shares.as_chunks::<PAGE>().0) {
            // What lies behind the last position seen is another's, or was cut: no number of it may come in, were it times 0.
            let values = self.leaves[page].values.chunks_exact(self.head_size).take(self.to - page * PAGE);
            for (values, &share) in values.zip(shares) {
                each(values, share);
            }
        }
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
