//! The largest of every 64 logits, and whether any is NaN or +inf.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16};

use crate::noise::BLOCK;

#[inline(always)]
pub(super) fn maximum(lanes: &[f32; BLOCK]) -> (f32, bool) {
    // Sixteen independent maxima: the shape compilers turn into vectors.
    let mut best = [f32::NEG_INFINITY; 16];
    let mut sound = [1u32; 16];
    for chunk in lanes.as_chunks::<16>().0 {
        for i in 0..16 {
            best[i] = if chunk[i] > best[i] { chunk[i] } else { best[i] };
            // NaN compares false.
            sound[i] &= u32::from(chunk[i] < f32::INFINITY);
        }
    }
    let mut maximum = f32::NEG_INFINITY;
    let mut all_sound = 1;
    for i in 0..16 {
        maximum = if best[i] > maximum { best[i] } else { maximum };
        all_sound &= sound[i];
    }
    (maximum, all_sound == 1)
}

/// The largest of any number of logits, none of them NaN.
#[inline(always)]
pub(super) fn highest(logits: &[f32]) -> f32 {
    let (blocks, rest) = logits.as_chunks::<BLOCK>();
    let mut best = [f32::NEG_INFINITY; BLOCK];
    for lanes in blocks {
        for i in 0..BLOCK {
            best[i] = if lanes[i] > best[i] { lanes[i] } else { best[i] };
        }
    }
    rest.iter().chain(&best).fold(f32::NEG_INFINITY, |best, &x| if x > best { x } else { best })
}

/// Where a logit stands first.
#[inline(always)]
pub(super) fn position(logits: &[f32], wanted: f32) -> Option<usize> {
    let is_there = |lanes: &&[f32]| {
        let mut count = 0;
        for &x in *lanes {
            count += u32::from(x == wanted);
        }
        count > 0
    };
    let chunk = logits.chunks(BLOCK).position(|lanes| is_there(&lanes))?;
    let place = logits[chunk * BLOCK..].iter().position(|&x| x == wanted)?;
    Some(chunk * BLOCK + place)
}

/// The maxima of whole blocks, and whether no logit is NaN or +inf.
#[inline(always)]
pub(super) fn one_by_one(blocks: &[[f32; BLOCK]], maxima: &mut [f32]) -> bool {
    let mut is_sound = true;
    for (lanes, block_maximum) in blocks.iter().zip(maxima) {
        let (best, is_block_sound) = maximum(lanes);
        *block_maximum = best;
        is_sound &= is_block_sound;
    }
    is_sound
}

/// As [`one_by_one`]; a row with logits near ±f32::MAX may be called unsound though it is not.
///
/// A block is four vectors, whose maximum is a vector too. Sixteen of these become one, a lane a block, by a tree of
/// shuffles that hides behind the loads. NaN shows in the row's sum, which −inf and finite logits never make NaN unless it overflows;
/// +inf shows in a maximum.
#[inline(always)]
pub(super) fn sixteen_at_a_time<S: Simd>(simd: S, blocks: &[[f32; BLOCK]], maxima: &mut [f32]) -> bool {
    let (groups, rest) = blocks.as_chunks::<16>();
    let (whole, tail) = maxima.split_at_mut(groups.len() * 16);
    let mut highest = f32x16::splat(simd, f32::NEG_INFINITY);
    let mut sum = f32x16::splat(simd, 0.0);
    for (group, maxima) in groups.iter().zip(whole.as_chunks_mut::<16>().0) {
        // No array of vectors: everything stays in registers.
        let low = merge(four(simd, group, 0, &mut sum), four(simd, group, 4, &mut sum));
        let high = merge(four(simd, group, 8, &mut sum), four(simd, group, 12, &mut sum));
        let group_maxima = merge(low, high);
        group_maxima.store_array(maxima);
        highest = highest.max(group_maxima);
    }
    let is_finite = highest.as_slice().iter().all(|&x| x < f32::INFINITY);
    let is_rest_sound = one_by_one(rest, tail);
    let is_number = sum.as_slice().iter().all(|x| !x.is_nan());
    is_number && is_finite && is_rest_sound
}

/// A lane a pair of neighbours: those of `a`, then those of `b`.
#[inline(always)]
fn merge<S: Simd>(a: f32x16<S>, b: f32x16<S>) -> f32x16<S> {
    a.unzip_low(b).max(a.unzip_high(b))
}

/// Four lanes a block, for four blocks from number `first` on. Their logits are added to `sum`.
#[inline(always)]
fn four<S: Simd>(simd: S, group: &[[f32; BLOCK]; 16], first: usize, sum: &mut f32x16<S>) -> f32x16<S> {
    let (a, p) = block(simd, &group[first]);
    let (b, q) = block(simd, &group[first + 1]);
    let (c, r) = block(simd, &group[first + 2]);
    let (d, s) = block(simd, &group[first + 3]);
    *sum += (p + q) + (r + s);
    merge(merge(a, b), merge(c, d))
}

/// The maxima and the sums of sixteen lanes of one block.
#[inline(always)]
fn block<S: Simd>(simd: S, lanes: &[f32; BLOCK]) -> (f32x16<S>, f32x16<S>) {
    let a = f32x16::from_slice(simd, &lanes[..16]);
    let b = f32x16::from_slice(simd, &lanes[16..32]);
    let c = f32x16::from_slice(simd, &lanes[32..48]);
    let d = f32x16::from_slice(simd, &lanes[48..]);
    (a.max(b).max(c.max(d)), (a + b) + (c + d))
}

#[cfg(test)]
mod tests {
    use crate::kernels::Kernel;
    use crate::kernels::passes::Passes;
    use crate::noise::BLOCK;

    #[test]
    fn the_highest_and_where_it_stands() {
        for length in [1usize, 63, 64, 65, 200] {
            for place in 0..length {
                let mut logits: Vec<f32> = (0..length).map(|i| (i % 7) as f32 - 9.0).collect();
                logits[place] = 5.0;
                logits[length - 1] = 5.0;
                for passes in Kernel::ALL.into_iter().filter_map(Passes::of) {
                    assert_eq!(passes.highest(&logits), 5.0, "{passes:?}");
                    assert_eq!(passes.position(&logits, 5.0), Some(place), "{passes:?}");
                    assert_eq!(passes.position(&logits, 7.0), None, "{passes:?}");
                }
            }
        }
        assert!(Kernel::ALL.into_iter().filter_map(Passes::of).all(|passes| {
            passes.highest(&[]) == f32::NEG_INFINITY && passes.position(&[], 1.0).is_none()
        }));
    }

    /// Around a group of sixteen blocks, with a bad logit in every place of some of them.
    #[test]
    fn every_instruction_set_finds_the_same_skyline() {
        let logit = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / 1e6 - 8.0;
        for blocks in [0, 1, 15, 16, 17, 31, 32, 40] {
            let row: Vec<f32> = (0..blocks * BLOCK).map(logit).collect();
            let expected: Vec<f32> = row
                .chunks(BLOCK)
                .map(|block| block.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a }))
                .collect();
            for passes in Kernel::ALL.into_iter().filter_map(Passes::of) {
                let mut maxima = vec![0.0; blocks];
                assert!(passes.maxima(&row, &mut maxima), "{passes:?}");
                assert_eq!(maxima, expected, "{passes:?}");
                for place in (0..row.len()).step_by(37) {
                    for bad in [f32::NAN, -f32::NAN, f32::INFINITY] {
                        let mut row = row.clone();
                        row[place] = bad;
                        assert!(
                            !passes.maxima(&row, &mut maxima),
                            "{bad} at {place} of {blocks}: {passes:?}"
                        );
                    }
                }
            }
        }
        // Nothing but −inf is sound.
        for passes in Kernel::ALL.into_iter().filter_map(Passes::of) {
            let mut maxima = vec![0.0; 17];
            assert!(passes.maxima(&[f32::NEG_INFINITY; 17 * BLOCK], &mut maxima), "{passes:?}");
            assert_eq!(maxima, [f32::NEG_INFINITY; 17]);
        }
    }
}
