//! Attention of one position over the positions before it.
//!
//! ```text
//! for each query:
//!     for place in from..to: scores[place] = dot(query, keys[place]) / sqrt(head_size), number by number
//!     highest = max(scores)
//!     for place in from..to: shares[place] = exp(scores[place] - highest)
//!     total = the sum of the shares: sixteen sums by place % 16, then added in halves
//!     for number in 0..head_size:
//!         mixed[number] = (the sum of shares[place] · values[place][number] in the order of places) / total
//! ```
//!
//! Products and sums of one line are fused. What the code does differently:
//!
//! 1. Sixteen positions, a page, are scored at a time, and sixteen numbers of the values are summed at a
//!    time: a lane for each.
//! 2. Up to four queries run side by side, and up to four vectors of the values: one sum alone would wait for
//!    its own last addition.
//! 3. The pages are whole. The scores of places outside the span become −inf and their shares 0, so they add
//!    0 to the total. Values before the span count with the share 0; those behind it are never read, because
//!    nobody has written them, or another branch has.
//!
//! All are exact: each score, the total and each number are summed in the order above, by operations that
//! belong to no other.

use fearless_simd::f32x16;
use fearless_simd::prelude::*;

use crate::kernels::dot::folded;
use crate::kernels::exponential::exp;
use crate::kernels::lanes::{Instructions, Lanes, Sums, vectorized};
use crate::llama::cache::PAGE;

/// The keys and values of one head in one page.
#[derive(Clone, Copy)]
pub(crate) struct HeadPage<'a> {
    pub keys: &'a [[f32; PAGE]],
    pub values: &'a [f32],
}

/// The positions that one position attends to.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub from: usize,
    /// Exclusive.
    pub to: usize,
    /// How many numbers a head has.
    pub head_size: usize,
}

/// How many queries run side by side at most.
pub(crate) const QUERIES: usize = 4;

/// Memory for the scores of each of these queries.
pub(crate) type Scores = [Vec<f32>; QUERIES];

impl Span {
    /// Writes the attention of each of the `queries` into `mixed`, which has the same length. `heads` are the
    /// heads of keys, each with its pages from the first position on; all of them have the same number of
    /// queries.
    pub(crate) fn attend(
        self,
        instructions: Instructions,
        heads: &[Vec<HeadPage<'_>>],
        queries: &[f32],
        scores: &mut Scores,
        mixed: &mut [f32],
    ) {
        let count = queries.len() / self.head_size;
        let of = |query: usize| &heads[query * heads.len() / count][self.from / PAGE..self.to.div_ceil(PAGE)];
        vectorized!(instructions, simd => {
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
                        let pages = [of(first), of(first + 1), of(first + 2), of(first + 3)];
                        self.side_by_side(simd, pages, queries, scores, mixed);
                    }
                    2 => self.side_by_side(simd, [of(first), of(first + 1)], queries, scores, mixed),
                    _ => self.side_by_side(simd, [of(first)], queries, scores, mixed),
                }
                first += taken;
            }
        });
    }

    #[inline(always)]
    fn side_by_side<S: Lanes, const N: usize>(
        self,
        simd: S,
        pages: [&[HeadPage<'_>]; N],
        queries: &[f32],
        scores: &mut Scores,
        mixed: &mut [f32],
    ) {
        let queries: [&[f32]; N] = std::array::from_fn(
            #[inline(always)]
            |i| &queries[i * self.head_size..(i + 1) * self.head_size],
        );
        self.score(simd, &pages, queries, scores);
        let mut totals = [0.0; N];
        for (total, scores) in totals.iter_mut().zip(scores.iter_mut()) {
            let highest = self.highest(simd, scores);
            *total = shares(simd, scores, highest);
        }
        let mut column = 0;
        while column < self.head_size {
            column += match self.head_size - column {
                64.. if N == 1 => self.gather::<S, N, 4>(simd, &pages, scores, totals, column, mixed),
                32.. => self.gather::<S, N, 2>(simd, &pages, scores, totals, column, mixed),
                16.. => self.gather::<S, N, 1>(simd, &pages, scores, totals, column, mixed),
                _ => self.gather_rest(simd, &pages, scores, totals, column, mixed),
            };
        }
    }

    /// The scores of all queries.
    #[inline(always)]
    fn score<S: Lanes, const N: usize>(
        self,
        simd: S,
        pages: &[&[HeadPage<'_>]; N],
        queries: [&[f32]; N],
        scores: &mut Scores,
    ) {
        // The root and the division are rounded once each: every machine has the same bits.
        let scale = 1.0 / (self.head_size as f32).sqrt();
        scores.iter_mut().for_each(Vec::clear);
        // `page` counts in several slices.
        #[allow(clippy::needless_range_loop)]
        for page in 0..pages[0].len() {
            let keys: [&[[f32; PAGE]]; N] = std::array::from_fn(
                #[inline(always)]
                |i| &pages[i][page].keys[..self.head_size],
            );
            let mut sums = [S::Sums::zero(simd); N];
            for number in 0..self.head_size {
                for i in 0..N {
                    let query = f32x16::splat(simd, queries[i][number]);
                    sums[i] = sums[i].plus(simd, f32x16::load_array_ref(simd, &keys[i][number]), query);
                }
            }
            for (scores, sums) in scores.iter_mut().zip(sums) {
                scores.extend_from_slice((sums.lanes() * scale).as_slice());
            }
        }
    }

    /// The highest score. Scores of places outside the span become −inf.
    #[inline(always)]
    fn highest<S: Lanes>(self, simd: S, scores: &mut [f32]) -> f32 {
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

    /// Mixes sixteen times `VECTORS` numbers of the values, from `column` on. Returns how many numbers that
    /// were.
    #[inline(always)]
    fn gather<S: Lanes, const N: usize, const VECTORS: usize>(
        self,
        simd: S,
        pages: &[&[HeadPage<'_>]; N],
        shares: &Scores,
        totals: [f32; N],
        column: usize,
        mixed: &mut [f32],
    ) -> usize {
        let mut sums = [[S::Sums::zero(simd); VECTORS]; N];
        for page in 0..pages[0].len() {
            // What is stored behind the span may be anything, also NaN: not even its product with 0 may be
            // added.
            let seen = (self.to - (self.from / PAGE + page) * PAGE).min(PAGE);
            for slot in 0..seen {
                for i in 0..N {
                    let share = f32x16::splat(simd, shares[i][page * PAGE + slot]);
                    let place = slot * self.head_size + column;
                    let values = &pages[i][page].values[place..place + VECTORS * PAGE];
                    for (vector, numbers) in values.as_chunks::<PAGE>().0.iter().enumerate() {
                        let sum = &mut sums[i][vector];
                        *sum = sum.plus(simd, f32x16::load_array_ref(simd, numbers), share);
                    }
                }
            }
        }
        for i in 0..N {
            let start = i * self.head_size + column;
            let mixed = mixed[start..start + VECTORS * PAGE].as_chunks_mut::<PAGE>().0;
            for (mixed, sum) in mixed.iter_mut().zip(sums[i]) {
                *mixed = (sum.lanes() / totals[i]).into();
            }
        }
        VECTORS * PAGE
    }

    /// Mixes the last numbers of the values, fewer than sixteen. Returns how many they were.
    #[inline(always)]
    fn gather_rest<S: Lanes, const N: usize>(
        self,
        simd: S,
        pages: &[&[HeadPage<'_>]; N],
        shares: &Scores,
        totals: [f32; N],
        column: usize,
        mixed: &mut [f32],
    ) -> usize {
        let rest = self.head_size - column;
        let first = self.from / PAGE * PAGE;
        for i in 0..N {
            let mut sum = S::Sums::zero(simd);
            for place in 0..self.to - first {
                let start = place % PAGE * self.head_size + column;
                let mut numbers = [0.0; PAGE];
                numbers[..rest].copy_from_slice(&pages[i][place / PAGE].values[start..start + rest]);
                let share = f32x16::splat(simd, shares[i][place]);
                sum = sum.plus(simd, f32x16::load_array(simd, numbers), share);
            }
            let sum: [f32; PAGE] = (sum.lanes() / totals[i]).into();
            let start = i * self.head_size + column;
            mixed[start..start + rest].copy_from_slice(&sum[..rest]);
        }
        rest
    }
}

/// Turns scores into shares. Returns their total.
#[inline(always)]
fn shares<S: Lanes>(simd: S, scores: &mut [f32], highest: f32) -> f32 {
    let mut total = f32x16::splat(simd, 0.0);
    for lanes in scores.as_chunks_mut::<PAGE>().0 {
        let share = exp(f32x16::load_array_ref(simd, lanes) - highest);
        total += share;
        *lanes = share.into();
    }
    folded(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onedraw::Kernel;

    fn number(i: usize) -> f32 {
        ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0
    }

    /// The definition, one number after the other. The shares are taken from the code, because of its
    /// exponential.
    fn definition(span: Span, pages: &[HeadPage<'_>], query: &[f32]) -> Vec<f32> {
        let size = span.head_size;
        let first = span.from / PAGE * PAGE;
        let mut scores = vec![f32::NEG_INFINITY; (span.to - first).next_multiple_of(PAGE)];
        for place in span.from..span.to {
            let keys = pages[place / PAGE].keys;
            let sum = (0..size).fold(0.0, |sum, i| libm::fmaf(keys[i][place % PAGE], query[i], sum));
            scores[place - first] = sum * (1.0 / (size as f32).sqrt());
        }
        let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let instructions = Instructions::of(Kernel::Scalar).expect("a kernel");
        let total = vectorized!(instructions, simd => shares(simd, &mut scores, highest));
        let mixed = |number: usize| {
            let values =
                (first..span.to).map(|place| pages[place / PAGE].values[place % PAGE * size + number]);
            values.zip(&scores).fold(0.0, |sum, (value, &share)| libm::fmaf(value, share, sum)) / total
        };
        (0..size).map(mixed).collect()
    }

    #[test]
    fn queries_side_by_side_take_what_each_takes_alone() {
        for size in [2, 16, 34, 64, 80, 100] {
            for (heads, queries) in [(1, 1), (1, 2), (1, 3), (2, 1), (3, 3), (4, 1), (5, 1), (2, 4)] {
                for (from, to) in [(0, 1), (0, 16), (0, 50), (37, 50), (16, 33)] {
                    let pages = 4;
                    let keys: Vec<Vec<[f32; PAGE]>> = (0..heads * pages)
                        .map(|page| {
                            (0..size)
                                .map(|i| std::array::from_fn(|j| number(page * 977 + i * 31 + j)))
                                .collect()
                        })
                        .collect();
                    let values: Vec<Vec<f32>> = (0..heads * pages)
                        .map(|page| (0..size * PAGE).map(|i| number(page * 4099 + i + 5)).collect())
                        .collect();
                    let head_page = |page: usize| HeadPage { keys: &keys[page], values: &values[page] };
                    let heads_of_pages: Vec<Vec<HeadPage<'_>>> = (0..heads)
                        .map(|head| (0..pages).map(|page| head_page(head * pages + page)).collect())
                        .collect();
                    let asked: Vec<f32> =
                        (0..heads * queries * size).map(|i| number(i + 12345) * 3.0).collect();
                    let span = Span { from, to, head_size: size };
                    let expected: Vec<f32> = asked
                        .chunks_exact(size)
                        .enumerate()
                        .flat_map(|(i, query)| definition(span, &heads_of_pages[i / queries], query))
                        .collect();
                    for kernel in Kernel::ALL {
                        let Some(instructions) = Instructions::of(kernel) else { continue };
                        let mut mixed = vec![f32::NAN; asked.len()];
                        span.attend(
                            instructions,
                            &heads_of_pages,
                            &asked,
                            &mut Scores::default(),
                            &mut mixed,
                        );
                        assert_eq!(mixed, expected, "{kernel}, {size}, {heads} x {queries}, {from}..{to}");
                    }
                }
            }
        }
    }
}
