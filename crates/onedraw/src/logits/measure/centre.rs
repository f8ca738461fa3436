//! Distances from the typical logit.

use crate::logits::measure::band::Stretch;
use crate::numeric::key::lowest_where;
use crate::numeric::temperature::Temperature;

/// How far logits are from the typical one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Centre {
    /// The largest logit left.
    pub x_max: f32,
    /// The temperature in force.
    pub temperature: Temperature,
    /// The mean of y, 0 at most.
    pub mean: f64,
}

impl Centre {
    /// `|y − mean|`, rounded once.
    #[inline(always)]
    pub fn distance(&self, x: f32) -> f32 {
        (self.temperature.scaled(x, self.x_max) - self.mean).abs() as f32
    }

    /// The lowest logit on the likely side that is farther than `limit`; `None` if none is.
    pub(crate) fn too_likely(&self, limit: f32) -> Option<f32> {
        lowest_where(self.x_max, |x| self.is_above(x) && self.distance(x) > limit)
    }

    /// The lowest logit that is no farther than `limit`, or the lowest on the likely side.
    pub(crate) fn least_likely(&self, limit: f32) -> Option<f32> {
        lowest_where(self.x_max, |x| self.is_above(x) || self.distance(x) <= limit)
    }

    /// The logits no farther than `limit`; `None` if no logit is that near.
    pub(crate) fn within(&self, limit: f32) -> Option<Stretch> {
        let highest = self.too_likely(limit).map_or(self.x_max, f32::next_down);
        let lowest = self.least_likely(limit)?;
        (lowest <= highest).then_some(Stretch { highest, lowest })
    }

    /// Whether a logit lies on the likely side.
    fn is_above(&self, x: f32) -> bool {
        self.temperature.scaled(x, self.x_max) > self.mean
    }
}
