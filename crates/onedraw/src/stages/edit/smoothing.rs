//! Quadratic smoothing with a curve (kalomaze, text-generation-webui, 2024).
//!
//! With d the distance below the best logit m, a logit becomes `m − s·d²·(k + c·|d|)`, where s is
//! `smoothing_factor`, k = (3 − `smoothing_curve`) / 2 and c = (`smoothing_curve` − 1) / 2. The arithmetic is
//! in `kernels/bend.rs`.

use crate::kernels::bend::Bend;
use crate::params::SamplingParams;

/// The curve that the parameters name; `None` where smoothing is off.
pub(crate) fn bend(params: &SamplingParams) -> Option<Bend> {
    (params.smoothing_factor > 0.0).then(|| Bend {
        factor: params.smoothing_factor,
        quadratic: (3.0 - params.smoothing_curve) / 2.0,
        cubic: (params.smoothing_curve - 1.0) / 2.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_bend_as_published() {
        let bent = |smoothing_factor, smoothing_curve, x: f32| {
            let params = SamplingParams { smoothing_factor, smoothing_curve, ..SamplingParams::default() };
            bend(&params).expect("on").of(x, 2.0)
        };
        assert_eq!(bent(0.5, 1.0, 2.0), 2.0);
        assert_eq!(bent(0.5, 1.0, 1.0), 1.5);
        assert_eq!(bent(0.5, 1.0, -2.0), 2.0 - 0.5 * 16.0);
        // k = 0, c = 1: all of it cubic.
        assert_eq!(bent(0.5, 3.0, 0.0), 2.0 - 0.5 * 8.0);
        assert_eq!(bent(0.25, 2.0, 0.0), 2.0 - 0.25 * (0.5 * 4.0 + 0.5 * 8.0));
        assert_eq!(bent(1e6, 3.0, -3e38), -f32::MAX);
        assert_eq!(bend(&SamplingParams::default()), None);
    }
}
