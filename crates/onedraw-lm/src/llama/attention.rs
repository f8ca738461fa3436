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
pub(crate) const QUERIES: usize = 4;

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
                _ => self.gather_rest(simd, &leaves, scores, totals, column, mixed),
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
    #[inline(always)]
    fn gather_rest<S: Simd, const N: usize>(
        self,
        simd: S,
        leaves: &[&[Leaf<'_>]; N],
        shares: &Scores,
        totals: [f32; N],
        column: usize,
        mixed: &mut [f32],
    ) -> usize {
        let rest = self.head_size - column;
        let first = self.from / PAGE * PAGE;
        for i in 0..N {
            let mut sum = f32x16::splat(simd, 0.0);
            for place in 0..self.to - first {
                let start = place % PAGE * self.head_size + column;
                let mut numbers = [0.0; PAGE];
                numbers[..rest].copy_from_slice(&leaves[i][place / PAGE].values[start..start + rest]);
                let share = f32x16::splat(simd, shares[i][place]);
                sum = f32x16::load_array(simd, numbers).mul_add_precise(share, sum);
            }
            let sum: [f32; PAGE] = (sum / totals[i]).into();
            let start = i * self.head_size + column;
            mixed[start..start + rest].copy_from_slice(&sum[..rest]);
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

#[cfg(test)]
mod tests {
    use super::*;
    use onedraw::Kernel;

    fn number(i: usize) -> f32 {
        ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0
    }

    /// The definition, one number after the other; the shares are taken from the code, whose exponential has tests of its own.
    fn definition(look: Look, leaves: &[Leaf<'_>], query: &[f32]) -> Vec<f32> {
        let size = look.head_size;
        let first = look.from / PAGE * PAGE;
        let mut scores = vec![f32::NEG_INFINITY; (look.to - first).next_multiple_of(PAGE)];
        for place in look.from..look.to {
            let keys = leaves[place / PAGE].keys;
            let sum = (0..size).fold(0.0, |sum, i| libm::fmaf(keys[i][place % PAGE], query[i], sum));
            scores[place - first] = sum * (1.0 / (size as f32).sqrt());
        }
        let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let level = crate::kernels::level(Kernel::Scalar).expect("a kernel");
        let total = dispatch!(level, simd => shares(simd, &mut scores, highest));
        let mixed = |number: usize| {
            let values =
                (first..look.to).map(|place| leaves[place / PAGE].values[place % PAGE * size + number]);
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
                    let leaf = |page: usize| Leaf { keys: &keys[page], values: &values[page] };
                    let leaves: Vec<Vec<Leaf<'_>>> = (0..heads)
                        .map(|head| (0..pages).map(|page| leaf(head * pages + page)).collect())
                        .collect();
                    let asked: Vec<f32> =
                        (0..heads * queries * size).map(|i| number(i + 12345) * 3.0).collect();
                    let look = Look { from, to, head_size: size };
                    let expected: Vec<f32> = asked
                        .chunks_exact(size)
                        .enumerate()
                        .flat_map(|(i, query)| definition(look, &leaves[i / queries], query))
                        .collect();
                    for kernel in Kernel::ALL {
                        let Some(level) = crate::kernels::level(kernel) else { continue };
                        let mut mixed = vec![f32::NAN; asked.len()];
                        look.mix(level, &leaves, &asked, &mut Scores::default(), &mut mixed);
                        assert_eq!(mixed, expected, "{kernel}, {size}, {heads} x {queries}, {from}..{to}");
                    }
                }
            }
        }
    }
}
