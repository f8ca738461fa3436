//! The first pass over a row: the largest of every 64 logits, and whether any logit is NaN or +inf.
//!
//! The naive loop ([`maxima`]):
//!
//! ```text
//! for each block of 64 logits:
//!     maximum[block] = −inf
//!     for each logit x of the block:
//!         if x is NaN or +inf: is_sound = false
//!         if x > maximum[block]: maximum[block] = x
//! ```
//!
//! What this code does differently:
//!
//! 1. A block is four vectors of sixteen lanes, and three vector operations leave one vector of its maxima.
//!    Sixteen such vectors become one vector with one block per lane, by a tree of shuffles
//!    ([`Lanes::merge`]) that runs while the next loads are on their way.
//! 2. NaN is not compared for, logit by logit. A running check ([`Check`]) becomes NaN with it and is looked
//!    at once, at the end. There are four checks, so that they do not wait for each other.
//! 3. +inf is looked for in the maxima only.
//!
//! Why that is exact:
//!
//! 1. A maximum does not depend on the order in which it is taken. Which of −0.0 and +0.0 comes out may
//!    differ, but every comparison treats them as equal.
//! 2. A check never misses a NaN. It may find one that is not there, because of −inf or an overflow. The pass
//!    then runs again with a check that −inf does not disturb, and if that fails too, the caller looks at
//!    every logit.
//! 3. +inf is larger than every other number, so it is the maximum of its block.
//!
//! [`first`] is the greedy draw of a row without edits, which needs no maxima of blocks:
//!
//! ```text
//! best = −inf
//! for each token i:
//!     if x_i > best: best = x_i, place = i
//! ```
//!
//! It differs in that every lane keeps its own best logit and the first group of sixteen blocks in which it
//! reached it. At the end it searches one group: the earliest among the lanes that have the largest logit.
//! That is exact because the first token with the largest logit is also the first of its own lane, and its
//! lane took note of its group.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, u32x16};

use crate::kernels::lanes::Lanes;
use crate::kernels::logit::Logit;
use crate::kernels::sound::{Check, Sums};
use crate::numeric::noise::BLOCK;

/// Writes the maxima of whole blocks. Returns whether no logit is NaN or +inf. A row with logits near
/// ±f32::MAX may be called unsound though it is not, so a caller that gets `false` must look again, and must
/// not use the maxima.
#[inline(always)]
pub(super) fn maxima<S: Lanes, T: Logit>(simd: S, blocks: &[[T; BLOCK]], maxima: &mut [f32]) -> bool {
    if !S::IS_WIDE {
        return one_by_one(simd, blocks, maxima);
    }
    let is_sound = scan::<S, T, S::Check>(simd, blocks, maxima);
    is_sound || (!S::Check::IS_EXACT && scan::<S, T, Sums<S>>(simd, blocks, maxima))
}

/// The pass for instruction sets on which the long code of [`scan`] does not pay.
#[inline(always)]
fn one_by_one<S: Lanes, T: Logit>(simd: S, blocks: &[[T; BLOCK]], maxima: &mut [f32]) -> bool {
    let mut check = Sums::new(simd);
    let mut highest = f32::NEG_INFINITY;
    for (lanes, maximum) in blocks.iter().zip(maxima) {
        *maximum = simd.largest(block(simd, lanes, &mut check));
        highest = if *maximum > highest { *maximum } else { highest };
    }
    check.is_sound() && highest < f32::INFINITY
}

/// The pass over groups of sixteen blocks, whose maxima are merged into one vector.
#[inline(always)]
fn scan<S: Lanes, T: Logit, C: Check<S>>(simd: S, blocks: &[[T; BLOCK]], maxima: &mut [f32]) -> bool {
    let (groups, rest) = blocks.as_chunks::<16>();
    let (whole, tail) = maxima.split_at_mut(groups.len() * 16);
    let mut highest = f32x16::splat(simd, f32::NEG_INFINITY);
    // Four checks, so that none waits for the one before it.
    let (mut p, mut q, mut r, mut s) = (C::new(simd), C::new(simd), C::new(simd), C::new(simd));
    for (group, maxima) in groups.iter().zip(whole.as_chunks_mut::<16>().0) {
        // Named variables instead of an array of vectors, so that everything stays in registers.
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, t] = group;
        let one = simd.merge::<0>(block(simd, a, &mut p), block(simd, b, &mut q));
        let two = simd.merge::<0>(block(simd, c, &mut r), block(simd, d, &mut s));
        let first = simd.merge::<1>(one, two);
        let one = simd.merge::<0>(block(simd, e, &mut p), block(simd, f, &mut q));
        let two = simd.merge::<0>(block(simd, g, &mut r), block(simd, h, &mut s));
        let low = simd.merge::<2>(first, simd.merge::<1>(one, two));
        let one = simd.merge::<0>(block(simd, i, &mut p), block(simd, j, &mut q));
        let two = simd.merge::<0>(block(simd, k, &mut r), block(simd, l, &mut s));
        let first = simd.merge::<1>(one, two);
        let one = simd.merge::<0>(block(simd, m, &mut p), block(simd, n, &mut q));
        let two = simd.merge::<0>(block(simd, o, &mut r), block(simd, t, &mut s));
        let high = simd.merge::<2>(first, simd.merge::<1>(one, two));
        let group_maxima = simd.merge::<3>(low, high);
        group_maxima.store_slice(maxima);
        highest = simd.larger(highest, group_maxima);
    }
    let mut highest = simd.largest(highest);
    for (lanes, maximum) in rest.iter().zip(tail) {
        *maximum = simd.largest(block(simd, lanes, &mut p));
        highest = if *maximum > highest { *maximum } else { highest };
    }
    let is_number = p.is_sound() && q.is_sound() && r.is_sound() && s.is_sound();
    is_number && highest < f32::INFINITY
}

/// The largest logit and the index where it stands first, without a skyline. `None` if a logit is NaN or
/// +inf, if −inf may have disturbed the check, if all logits are −inf, and if there are no blocks.
#[inline(always)]
pub(super) fn first<S: Lanes, T: Logit>(simd: S, blocks: &[[T; BLOCK]]) -> Option<(f32, usize)> {
    const GROUP: usize = 16;
    let mut best = f32x16::splat(simd, f32::NEG_INFINITY);
    // The group in which each lane's best logit stands first.
    let mut groups = u32x16::splat(simd, 0);
    let check = S::Check::new(simd);
    let (mut p, mut q, mut r, mut s) = (check, check, check, check);
    for (i, group) in blocks.chunks(GROUP).enumerate() {
        let (fours, rest) = group.as_chunks::<4>();
        let mut maxima = f32x16::splat(simd, f32::NEG_INFINITY);
        for [a, b, c, d] in fours {
            let one = simd.larger(block(simd, a, &mut p), block(simd, b, &mut q));
            let two = simd.larger(block(simd, c, &mut r), block(simd, d, &mut s));
            maxima = simd.larger(maxima, simd.larger(one, two));
        }
        for lanes in rest {
            maxima = simd.larger(maxima, block(simd, lanes, &mut p));
        }
        let is_better = maxima.simd_gt(best);
        groups = is_better.select(u32x16::splat(simd, i as u32), groups);
        best = simd.larger(best, maxima);
    }
    let x_max = simd.largest(best);
    let is_number = p.is_sound() && q.is_sound() && r.is_sound() && s.is_sound();
    if !(is_number && x_max.is_finite()) {
        return None;
    }
    let never = u32x16::splat(simd, u32::MAX);
    let group = best.simd_eq(x_max).select(groups, never).reduce_min() as usize;
    for (i, lanes) in blocks.iter().enumerate().skip(group * GROUP) {
        let (a, b, c, d) = T::load(simd, lanes);
        let (a, b) = (a.simd_eq(x_max).to_bitmask(), b.simd_eq(x_max).to_bitmask());
        let (c, d) = (c.simd_eq(x_max).to_bitmask(), d.simd_eq(x_max).to_bitmask());
        let found = a | b << 16 | c << 32 | d << 48;
        if found != 0 {
            return Some((x_max, i * BLOCK + found.trailing_zeros() as usize));
        }
    }
    None
}

/// The maximum of the four vectors of a block, lane by lane. The block also goes through the check.
#[inline(always)]
fn block<S: Lanes, T: Logit, C: Check<S>>(simd: S, lanes: &[T; BLOCK], check: &mut C) -> f32x16<S> {
    let four = T::load(simd, lanes);
    *check = check.after(simd, four);
    let (a, b, c, d) = four;
    simd.larger(simd.larger(a, b), simd.larger(c, d))
}

/// The largest of 64 logits, none of them NaN.
#[inline(always)]
pub(crate) fn maximum<S: Lanes>(simd: S, lanes: &[f32; BLOCK]) -> f32 {
    let (a, b, c, d) = f32::load(simd, lanes);
    simd.largest(simd.larger(simd.larger(a, b), simd.larger(c, d)))
}

/// The largest of any number of logits, none of them NaN; −inf if there are none.
#[inline(always)]
pub(super) fn highest<S: Lanes>(simd: S, logits: &[f32]) -> f32 {
    let (chunks, rest) = logits.as_chunks::<16>();
    let mut best = f32x16::splat(simd, f32::NEG_INFINITY);
    for lanes in chunks {
        best = simd.larger(best, f32x16::from_slice(simd, lanes));
    }
    rest.iter().fold(simd.largest(best), |best, &x| if x > best { x } else { best })
}

/// The index of the first logit equal to `wanted`.
#[inline(always)]
pub(crate) fn position<S: Lanes>(simd: S, logits: &[f32], wanted: f32) -> Option<usize> {
    let (chunks, rest) = logits.as_chunks::<16>();
    for (i, lanes) in chunks.iter().enumerate() {
        let found = f32x16::from_slice(simd, lanes).simd_eq(wanted).to_bitmask();
        if found != 0 {
            return Some(i * 16 + found.trailing_zeros() as usize);
        }
    }
    let place = rest.iter().position(|&x| x == wanted)?;
    Some(chunks.len() * 16 + place)
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::kernels::passes::Passes;
    use crate::kernels::row::Row;

    #[test]
    fn the_highest_and_where_it_stands() {
        for length in [1usize, 15, 16, 17, 63, 64, 65, 200] {
            for place in 0..length {
                let mut logits: Vec<f32> = (0..length).map(|i| (i % 7) as f32 - 9.0).collect();
                logits[place] = 5.0;
                logits[length - 1] = 5.0;
                for passes in Passes::supported() {
                    assert_eq!(passes.highest(&logits), 5.0, "{passes:?}");
                    assert_eq!(passes.position(&logits, 5.0), Some(place), "{passes:?}");
                    assert_eq!(passes.position(&logits, 7.0), None, "{passes:?}");
                }
            }
        }
        assert!(Passes::supported().all(|passes| {
            passes.highest(&[]) == f32::NEG_INFINITY && passes.position(&[], 1.0).is_none()
        }));
    }

    fn logit(i: usize) -> f32 {
        ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 1e6 - 8.0
    }

    /// Numbers of blocks around a group of sixteen, with a bad logit in many places, alone and beside −inf.
    #[test]
    fn every_instruction_set_finds_the_same_skyline() {
        for blocks in [0, 1, 15, 16, 17, 31, 32, 40] {
            let row: Vec<f32> = (0..blocks * BLOCK).map(logit).collect();
            let expected = maxima_of(&row);
            for passes in Passes::supported() {
                let mut maxima = vec![0.0; blocks];
                assert!(passes.maxima(Row::from(&row), &mut maxima), "{passes:?}");
                assert_eq!(maxima, expected, "{passes:?}");
                for place in (0..row.len()).step_by(37) {
                    for bad in [f32::NAN, -f32::NAN, f32::INFINITY] {
                        let mut row = row.clone();
                        row[place] = bad;
                        let found = passes.maxima(Row::from(&row), &mut maxima);
                        assert!(!found, "{bad} at {place} of {blocks}: {passes:?}");
                        // The bad logit is found beside −inf too.
                        row[place ^ 16] = f32::NEG_INFINITY;
                        let found = passes.maxima(Row::from(&row), &mut maxima);
                        assert!(!found, "{bad} at {place} of {blocks}, −inf: {passes:?}");
                    }
                    let mut row = row.clone();
                    row[place] = f32::NEG_INFINITY;
                    row[place ^ 16] = 0.0;
                    assert!(passes.maxima(Row::from(&row), &mut maxima), "−inf: {passes:?}");
                    assert_eq!(maxima, maxima_of(&row), "{passes:?}");
                }
            }
        }
        // A row of −inf alone is sound.
        for passes in Passes::supported() {
            let mut maxima = vec![0.0; 17];
            let row = [f32::NEG_INFINITY; 17 * BLOCK];
            assert!(passes.maxima(Row::from(&row), &mut maxima), "{passes:?}");
            assert_eq!(maxima, [f32::NEG_INFINITY; 17]);
        }
    }

    #[test]
    fn the_first_of_a_row_needs_no_skyline() {
        for length in [1usize, 63, 64, 65, 1023, 1024, 1025, 2100, 5000] {
            let row: Vec<f32> = (0..length).map(logit).collect();
            let halves: Vec<bf16> = row.iter().map(|&x| bf16::from_f32(x)).collect();
            for passes in Passes::supported() {
                for place in (0..length).step_by(length.div_ceil(40)) {
                    let mut row = row.clone();
                    row[place] = 1e6;
                    assert_eq!(passes.first(Row::from(&row)), Some(place), "{passes:?}");
                    row[length - 1] = 1e6;
                    assert_eq!(passes.first(Row::from(&row)), Some(place), "{passes:?}");
                    for bad in [f32::NAN, f32::INFINITY] {
                        row[place] = bad;
                        assert_eq!(passes.first(Row::from(&row)), None, "{bad} at {place}: {passes:?}");
                    }
                }
                let expected = Row::from(&halves);
                let highest =
                    halves.iter().map(|x| x.to_f32()).fold(f32::MIN, |a, b| if b > a { b } else { a });
                let place = (0..length).find(|&i| expected.get(i) == highest);
                assert_eq!(passes.first(Row::from(&halves)), place, "{passes:?}");
            }
        }
        assert!(
            Passes::supported().all(|passes| passes.first(Row::from(&[f32::NEG_INFINITY; 70])).is_none())
        );
    }

    fn maxima_of(row: &[f32]) -> Vec<f32> {
        row.chunks(BLOCK)
            .map(|block| block.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a }))
            .collect()
    }
}
