//! The curve of the smoothing stage, which moves a logit depending on its distance from the best one.
//!
//! With `d = x − m` the distance from the best logit m (zero or negative), the new logit is `m + f·d²·(c·d −
//! q)`, computed in f64 and rounded to f32 once. Logits near the best one rise and logits far below it fall.
//! The curve never reorders tokens, but it may make some equal.
//!
//! The naive loop is [`Bend::of`] for each of 64 logits. `Bend::of_block` differs in one way: it computes
//! eight logits at a time. It is exact because it applies the same f64 operations in the same order, without
//! fused multiply-adds, and rounds and saturates as [`Bend::of`] does.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, f64x8};

use crate::kernels::lanes::Lanes;
use crate::numeric::math::saturated;
use crate::numeric::noise::BLOCK;

/// The factors of the curve `m + f·d²·(c·d − q)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bend {
    /// The factor f of the whole term.
    pub factor: f64,
    /// The quadratic share q.
    pub quadratic: f64,
    /// The cubic share c.
    pub cubic: f64,
}

impl Bend {
    /// The new logit for logit `x` of a row whose best logit is `x_max`; finite for every finite `x`.
    #[inline]
    pub fn of(&self, x: f32, x_max: f32) -> f32 {
        let (x, best) = (f64::from(x), f64::from(x_max));
        let d = x - best;
        saturated((best + self.factor * d * d * (self.cubic * d - self.quadratic)) as f32)
    }

    /// [`Bend::of`] for 64 logits, with the same bits. A lane of −inf gets an unspecified number; the caller
    /// masks those lanes.
    #[inline(always)]
    pub(crate) fn of_block<S: Lanes>(
        &self,
        simd: S,
        lanes: &[f32; BLOCK],
        x_max: f32,
        bent: &mut [f32; BLOCK],
    ) {
        let best = f64x8::splat(simd, f64::from(x_max));
        for (lanes, bent) in lanes.chunks_exact(16).zip(bent.chunks_exact_mut(16)) {
            let (low, high) = f32x16::from_slice(simd, lanes).widen();
            let (low, high) = (self.of_eight(low, best), self.of_eight(high, best));
            low.narrow(high).max(-f32::MAX).min(f32::MAX).store_slice(bent);
        }
    }

    /// The curve for eight logits, in f64 and not yet rounded to f32.
    #[inline(always)]
    fn of_eight<S: Lanes>(&self, x: f64x8<S>, best: f64x8<S>) -> f64x8<S> {
        let d = x - best;
        best + d * self.factor * d * (d * self.cubic - self.quadratic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::passes::{Passes, vectorized};

    #[test]
    fn every_instruction_set_bends_alike() {
        for (factor, curve, x_max) in [(0.3, 1.0, 5.5f32), (0.77, 2.3, -1.1), (9.0, 3.9, 3e38)] {
            let bend = Bend { factor, quadratic: (3.0 - curve) / 2.0, cubic: (curve - 1.0) / 2.0 };
            let lanes: [f32; BLOCK] = std::array::from_fn(|i| x_max - i as f32 * i as f32 * i as f32 * 0.05);
            let expected = lanes.map(|x| bend.of(x, x_max).to_bits());
            for passes in Passes::supported() {
                let mut bent = [0.0; BLOCK];
                vectorized!(passes, simd => bend.of_block(simd, &lanes, x_max, &mut bent));
                assert_eq!(bent.map(f32::to_bits), expected, "{passes:?}");
            }
        }
    }
}
