//! Quadratic smoothing with a curve: bends the logits around the best (kalomaze, text-generation-webui, 2024).
//!
//! With d the distance below the best logit m, a logit becomes `m − s·d²·(k + c·|d|)`: near the best it rises, far below it falls. The map
//! never reorders, but it may make tokens equal.

use crate::math::saturated;
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
