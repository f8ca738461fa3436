//! Sums of distances from the best logit and of their squares, for the standard deviation of top-n-sigma.
//!
//! The naive loop, in integers:
//!
//! ```text
//! for each logit x:
//!     q = floor((x_max − x) · scale)        scale is a power of two, so that q ≤ 2^40
//!     sum     += q                          64 bits
//!     squares += q · q                      128 bits
//! ```
//!
//! What this code does differently:
//!
//! 1. It computes in eight f64 lanes instead of 64-bit and 128-bit integers.
//! 2. A square has up to 80 bits, more than an f64 holds. So `q = upper·2^20 + lower` with `|lower| ≤ 2^19`,
//!    and `q² = upper²·2^40 + upper·lower·2^21 + lower²` is summed as three separate sums.
//! 3. The lanes are emptied into integers after 1,024 blocks.
//!
//! Why that is exact:
//!
//! 1. q is an integer of at most 2^40, which an f64 holds exactly. It comes from the same f64 operations as
//!    in the scalar definition.
//! 2. Each of the three products is an integer of at most 2^40 in size, so an f64 holds it exactly too.
//! 3. A block adds eight terms to each lane. 1,024 blocks add 2^13 terms of at most 2^40, which is 2^53, and
//!    up to there every sum of integers is exact in f64.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16, f64x8};

use crate::kernels::lanes::Lanes;
use crate::numeric::noise::BLOCK;

/// The number of bits of a distance: q is at most 2^40. The squares of 2^20 distances, the largest
/// vocabulary, then sum to at most 2^100.
pub(crate) const DEVIATION_BITS: i32 = 40;

/// 2^20, where a distance is split: `q = upper · 2^20 + lower`, with the lower part between −2^19 and 2^19.
const HALF: f64 = 1_048_576.0;
/// 1.5 · 2^52. Adding and subtracting it rounds a number below 2^51 in size to the nearest integer.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// The sums of `q = floor((x_max − x) · scale)` and of q² over the blocks added so far.
pub(crate) struct Deviations<S: Simd> {
    x_max: f64x8<S>,
    scale: f64,
    sums: Sums<S>,
    blocks: u32,
    sum: u64,
    squares: i128,
}

/// The sums in f64 lanes. Every term is at most 2^40, so a lane holds 2^13 terms exactly.
#[derive(Clone, Copy)]
struct Sums<S: Simd> {
    whole: f64x8<S>,
    upper: f64x8<S>,
    mixed: f64x8<S>,
    lower: f64x8<S>,
}

impl<S: Simd> Sums<S> {
    #[inline(always)]
    fn new(simd: S) -> Self {
        let zero = f64x8::splat(simd, 0.0);
        Self { whole: zero, upper: zero, mixed: zero, lower: zero }
    }
}

impl<S: Lanes> Deviations<S> {
    /// No logits yet. `scale` is a power of two such that no distance exceeds 2^40.
    #[inline(always)]
    pub(crate) fn new(simd: S, x_max: f32, scale: f64) -> Self {
        let x_max = f64x8::splat(simd, f64::from(x_max));
        Self { x_max, scale, sums: Sums::new(simd), blocks: 0, sum: 0, squares: 0 }
    }

    /// Adds 64 logits, none above `x_max`.
    #[inline(always)]
    pub(crate) fn add(&mut self, lanes: &[f32; BLOCK]) {
        for i in 0..BLOCK / 16 {
            let (low, high) = f32x16::from_slice(self.x_max.simd, &lanes[16 * i..16 * i + 16]).widen();
            self.add_eight(low);
            self.add_eight(high);
        }
        self.blocks += 1;
        // A block adds eight terms to each lane, and a lane holds 2^13.
        if self.blocks == 1 << 10 {
            self.empty();
        }
    }

    /// Adds eight logits.
    #[inline(always)]
    fn add_eight(&mut self, logits: f64x8<S>) {
        let q = ((self.x_max - logits) * self.scale).trunc();
        let upper = (q * (1.0 / HALF) + ROUND) - ROUND;
        // From here on every result is an integer that f64 holds exactly, whether operations are fused or
        // not.
        let lower = upper.mul_add(-HALF, q);
        self.sums.whole += q;
        self.sums.upper = upper.mul_add(upper, self.sums.upper);
        self.sums.mixed = upper.mul_add(lower, self.sums.mixed);
        self.sums.lower = lower.mul_add(lower, self.sums.lower);
    }

    /// Moves the sums of the lanes into the integers.
    #[inline(always)]
    fn empty(&mut self) {
        let Sums { whole, upper, mixed, lower } = self.sums;
        for lane in 0..8 {
            // Saturated where a question from elsewhere breaks the promise about `scale`.
            self.sum = self.sum.saturating_add(whole[lane] as u64);
            let square = |sum: f64, shift: u32| i128::from(sum as i64) << shift;
            self.squares += square(upper[lane], 40) + square(mixed[lane], 21) + square(lower[lane], 0);
        }
        self.sums = Sums::new(self.x_max.simd);
        self.blocks = 0;
    }

    /// Returns Σq and Σq².
    #[inline(always)]
    pub(crate) fn sums(mut self) -> (u64, u128) {
        self.empty();
        (self.sum, self.squares as u128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::passes::{Passes, vectorized};

    #[test]
    fn every_instruction_set_sums_the_same_distances() {
        // The first 1,500 blocks hold the largest distance only, which fills the lanes as far as they go.
        for (range, scale) in [(16.0, 68_719_476_736.0), (11.3, 68_719_476_736.0), (0.7, 1_099_511_627_776.0)]
        {
            let lanes = |i: u32| -> [f32; BLOCK] {
                std::array::from_fn(|lane| {
                    let word = (i * 64 + lane as u32).wrapping_mul(2_654_435_761);
                    let share = if i < 1500 { 1.0 } else { (word >> 8) as f32 / 16_777_216.0 };
                    3.0 - range * share
                })
            };
            let q = |x: f32| ((3.0 - f64::from(x)) * scale) as u64;
            let (mut sum, mut squares) = (0u64, 0u128);
            for x in (0..3000).flat_map(lanes) {
                sum += q(x);
                squares += u128::from(q(x)).pow(2);
            }
            for passes in Passes::supported() {
                let sums = vectorized!(passes, simd => {
                    let mut deviations = Deviations::new(simd, 3.0, scale);
                    (0..3000).for_each(#[inline(always)] |i| deviations.add(&lanes(i)));
                    deviations.sums()
                });
                assert_eq!(sums, (sum, squares), "{passes:?}");
            }
        }
    }
}
