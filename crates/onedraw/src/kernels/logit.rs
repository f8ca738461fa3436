//! Reads logits of any type into vectors of f32, without a copy of the row.
//!
//! The naive loop: `lane[i] = f32::from(row[i])` for each of 64 logits.
//!
//! What this code does differently:
//!
//! 1. It loads 32 halves at a time and widens them as integers.
//! 2. A bfloat16 is shifted left by 16 bits: it is the upper half of an f32.
//! 3. An IEEE half is widened as [`Lanes::widen_halves`] describes.
//!
//! Why that is exact: every half and every bfloat16 is also an f32, and a test compares all 65,536 of each.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, u16x32, u32x16};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::kernels::block::Four;
use crate::kernels::lanes::Lanes;
use crate::numeric::noise::BLOCK;

/// A number type that a row of logits may have.
pub(crate) trait Logit: Copy {
    /// Loads the 64 logits of a block, widened exactly to f32.
    fn load<S: Lanes>(simd: S, lanes: &[Self; BLOCK]) -> Four<S>;
}

impl Logit for f32 {
    #[inline(always)]
    fn load<S: Lanes>(simd: S, lanes: &[f32; BLOCK]) -> Four<S> {
        (
            f32x16::from_slice(simd, &lanes[..16]),
            f32x16::from_slice(simd, &lanes[16..32]),
            f32x16::from_slice(simd, &lanes[32..48]),
            f32x16::from_slice(simd, &lanes[48..]),
        )
    }
}

impl Logit for bf16 {
    #[inline(always)]
    fn load<S: Lanes>(simd: S, lanes: &[bf16; BLOCK]) -> Four<S> {
        halves(simd, lanes.reinterpret_cast(), bf16_bits)
    }
}

impl Logit for f16 {
    #[inline(always)]
    fn load<S: Lanes>(simd: S, lanes: &[f16; BLOCK]) -> Four<S> {
        halves(
            simd,
            lanes.reinterpret_cast(),
            #[inline(always)]
            |bits| simd.widen_halves(bits),
        )
    }
}

/// Loads 64 numbers of 16 bits and widens each with `widen`, which gets the bits in the lower half of a lane.
#[inline(always)]
fn halves<S: Lanes>(simd: S, bits: &[u16], widen: impl Fn(u32x16<S>) -> f32x16<S>) -> Four<S> {
    let (a, b) = u16x32::from_slice(simd, &bits[..32]).widen();
    let (c, d) = u16x32::from_slice(simd, &bits[32..64]).widen();
    (widen(a), widen(b), widen(c), widen(d))
}

/// Widens bfloat16 numbers: each is the upper half of an f32.
#[inline(always)]
fn bf16_bits<S: Lanes>(bits: u32x16<S>) -> f32x16<S> {
    (bits << 16).bitcast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::block::store;
    use crate::kernels::passes::{Passes, vectorized};

    fn widen<T: Logit>(passes: Passes, logits: &[T], to: &mut [f32; BLOCK]) {
        let logits = logits.first_chunk().expect("a block");
        vectorized!(passes, simd => store(T::load(simd, logits), to));
    }

    /// Every possible half and bfloat16, compared with what the `half` crate makes of it.
    #[test]
    fn halves_are_widened_exactly() {
        let bits: Vec<u16> = (0..=u16::MAX).collect();
        let halves: Vec<f16> = bits.iter().map(|&bits| f16::from_bits(bits)).collect();
        let brains: Vec<bf16> = bits.iter().map(|&bits| bf16::from_bits(bits)).collect();
        for passes in Passes::supported() {
            for first in (0..bits.len()).step_by(BLOCK) {
                let (halves, brains) = (&halves[first..first + BLOCK], &brains[first..first + BLOCK]);
                let (mut a, mut b) = ([0.0; BLOCK], [0.0; BLOCK]);
                widen(passes, halves, &mut a);
                widen(passes, brains, &mut b);
                for lane in 0..BLOCK {
                    let same = |x: f32, y: f32| x.to_bits() == y.to_bits() || (x.is_nan() && y.is_nan());
                    assert!(same(a[lane], halves[lane].to_f32()), "{:?} {passes:?}", halves[lane]);
                    assert!(same(b[lane], brains[lane].to_f32()), "{:?} {passes:?}", brains[lane]);
                }
            }
        }
    }
}
