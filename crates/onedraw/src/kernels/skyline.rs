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
/// shuffles that hides behind the loads. NaN shows in the block's sum; +inf in its maximum.
#[inline(always)]
pub(super) fn sixteen_at_a_time<S: Simd>(simd: S, blocks: &[[f32; BLOCK]], maxima: &mut [f32]) -> bool {
    let (groups, rest) = blocks.as_chunks::<16>();
    let (whole, tail) = maxima.split_at_mut(groups.len() * 16);
    let mut highest = f32x16::splat(simd, f32::NEG_INFINITY);
    let mut all_numbers = f32x16::splat(simd, 0.0).simd_eq(f32x16::splat(simd, 0.0));
    for (group, maxima) in groups.iter().zip(whole.as_chunks_mut::<16>().0) {
        let mut vectors = [highest; 16];
        for (vector, block) in vectors.iter_mut().zip(group) {
            let load = |i: usize| f32x16::from_slice(simd, &block[i * 16..][..16]);
            let (a, b, c, d) = (load(0), load(1), load(2), load(3));
            *vector = a.max(b).max(c.max(d));
            let sum = (a + b) + (c + d);
            all_numbers &= sum.simd_eq(sum);
        }
        let merge = |a: f32x16<S>, b: f32x16<S>| a.unzip_low(b).max(a.unzip_high(b));
        let mut width = 16;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                vectors[i] = merge(vectors[2 * i], vectors[2 * i + 1]);
            }
        }
        highest = highest.max(vectors[0]);
        vectors[0].store_slice(maxima);
    }
    let is_finite = highest.as_slice().iter().all(|&x| x < f32::INFINITY);
    let is_rest_sound = one_by_one(rest, tail);
    all_numbers.all_true() && is_finite && is_rest_sound
}

#[cfg(test)]
mod tests {
    use crate::kernels::Kernel;
    use crate::kernels::passes::Passes;
    use crate::noise::BLOCK;

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
