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
        let mut highest = f32x16::splat(simd, f32::NEG_INFINITY);
        for page in self.pages() {
            let mut sums = f32x16::splat(simd, 0.0);
            for (&number, keys) in query.iter().zip(self.leaves[page].keys) {
                sums = f32x16::load_array_ref(simd, keys).mul_add_precise(f32x16::splat(simd, number), sums);
            }
            let mut lanes: [f32; PAGE] = (sums * scale).into();
            for (slot, lane) in lanes.iter_mut().enumerate() {
                if !(self.from..self.to).contains(&(page * PAGE + slot)) {
                    *lane = f32::NEG_INFINITY;
                }
            }
            highest = highest.max(f32x16::load_array(simd, lanes));
            scores.extend_from_slice(&lanes);
        }
        let lanes: [f32; PAGE] = highest.into();
        lanes.into_iter().fold(f32::NEG_INFINITY, |a, b| if b > a { b } else { a })
    }

    /// The values, each by its share.
    #[inline(always)]
    fn gather<S: Simd>(&self, simd: S, shares: &[f32], total: f32, mixed: &mut [f32]) {
        let (whole, rest) = mixed.as_chunks_mut::<PAGE>();
        for (i, mixed) in whole.iter_mut().enumerate() {
            let sum = self.column(
                simd,
                shares,
                i * PAGE,
                #[inline(always)]
                |values| f32x16::from_slice(simd, &values[..PAGE]),
            );
            *mixed = (sum / total).into();
        }
        if !rest.is_empty() {
            let sum = self.column(
                simd,
                shares,
                self.head_size - rest.len(),
                #[inline(always)]
                |values| {
                    let mut padded = [0.0; PAGE];
                    padded[..rest.len()].copy_from_slice(&values[..rest.len()]);
                    f32x16::load_array(simd, padded)
                },
            );
            let sum: [f32; PAGE] = (sum / total).into();
            rest.copy_from_slice(&sum[..rest.len()]);
        }
    }

    /// Sixteen numbers of the values, from `column` on, summed over the positions in their order.
    #[inline(always)]
    fn column<S: Simd>(
        &self,
        simd: S,
        shares: &[f32],
        column: usize,
        load: impl Fn(&[f32]) -> f32x16<S>,
    ) -> f32x16<S> {
        let mut sum = f32x16::splat(simd, 0.0);
        for (page, shares) in self.pages().zip(shares.as_chunks::<PAGE>().0) {
            // What lies behind the last position seen is another's, or was cut: no number of it may come in, were it times 0.
            let values = self.leaves[page].values.chunks_exact(self.head_size).take(self.to - page * PAGE);
            for (values, &share) in values.zip(shares) {
                sum = load(&values[column..]).mul_add_precise(f32x16::splat(simd, share), sum);
            }
        }
        sum
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
