//! Quadratic smoothing with a curve: bends the logits around the best (kalomaze, text-generation-webui, 2024).
//!
//! With d the distance below the best logit m, a logit becomes `m − s·d²·(k + c·|d|)`: near the best it rises, far below it falls. The map
//! never reorders, but it may make tokens equal.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, f64x8};

use crate::kernels::lanes::Lanes;
use crate::math::saturated;
use crate::noise::BLOCK;
use crate::params::SamplingParams;

/// The bend, with its checked parameters.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Smoothing {
    factor: f64,
    /// `(3 − curve) / 2`.
    quadratic: f64,
    /// `(curve − 1) / 2`.
    cubic: f64,
}

impl Smoothing {
    pub(crate) fn new(params: &SamplingParams) -> Option<Self> {
        (params.smoothing_factor > 0.0).then(|| Self {
            factor: params.smoothing_factor,
            quadratic: (3.0 - params.smoothing_curve) / 2.0,
            cubic: (params.smoothing_curve - 1.0) / 2.0,
        })
    }

    /// The new logit, in f64, rounded once.
    #[inline]
    pub fn bend(&self, x: f32, x_max: f32) -> f32 {
        let (x, best) = (f64::from(x), f64::from(x_max));
        let d = x - best;
        saturated((best + self.factor * d * d * (self.cubic * d - self.quadratic)) as f32)
    }

    /// As [`Smoothing::bend`], operation by operation, for 64 logits. What is dead becomes anything.
    #[inline(always)]
    pub(crate) fn bend_block<S: Lanes>(
        &self,
        simd: S,
        lanes: &[f32; BLOCK],
        x_max: f32,
        bent: &mut [f32; BLOCK],
    ) {
        let best = f64x8::splat(simd, f64::from(x_max));
        for (lanes, bent) in lanes.chunks_exact(16).zip(bent.chunks_exact_mut(16)) {
            let (low, high) = f32x16::from_slice(simd, lanes).widen();
            let (low, high) = (self.bend_eight(low, best), self.bend_eight(high, best));
            low.narrow(high).max(-f32::MAX).min(f32::MAX).store_slice(bent);
        }
    }

    #[inline(always)]
    fn bend_eight<S: Lanes>(&self, x: f64x8<S>, best: f64x8<S>) -> f64x8<S> {
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
        for (smoothing_factor, smoothing_curve, x_max) in
            [(0.3, 1.0, 5.5f32), (0.77, 2.3, -1.1), (9.0, 3.9, 3e38)]
        {
            let params = SamplingParams { smoothing_factor, smoothing_curve, ..SamplingParams::default() };
            let smoothing = Smoothing::new(&params).expect("on");
            let lanes: [f32; BLOCK] = std::array::from_fn(|i| x_max - i as f32 * i as f32 * i as f32 * 0.05);
            let expected = lanes.map(|x| smoothing.bend(x, x_max).to_bits());
            for passes in Passes::supported() {
                let mut bent = [0.0; BLOCK];
                vectorized!(passes, simd => smoothing.bend_block(simd, &lanes, x_max, &mut bent));
                assert_eq!(bent.map(f32::to_bits), expected, "{passes:?}");
            }
        }
    }

    #[test]
    fn logits_bend_as_published() {
        let bend = |smoothing_factor, smoothing_curve, x: f32| {
            let params = SamplingParams { smoothing_factor, smoothing_curve, ..SamplingParams::default() };
            Smoothing::new(&params).expect("on").bend(x, 2.0)
        };
        assert_eq!(bend(0.5, 1.0, 2.0), 2.0);
        assert_eq!(bend(0.5, 1.0, 1.0), 1.5);
        assert_eq!(bend(0.5, 1.0, -2.0), 2.0 - 0.5 * 16.0);
        // k = 0, c = 1: all of it cubic.
        assert_eq!(bend(0.5, 3.0, 0.0), 2.0 - 0.5 * 8.0);
        assert_eq!(bend(0.25, 2.0, 0.0), 2.0 - 0.25 * (0.5 * 4.0 + 0.5 * 8.0));
        assert_eq!(bend(1e6, 3.0, -3e38), -f32::MAX);
        assert_eq!(Smoothing::new(&SamplingParams::default()), None);
    }
}
