//! Temperature: a factor, which never reorders. It is kept beside the row and applied where a weight or a score is made.
//!
//! With a range it is dynamic (kalomaze, KoboldCpp, 2024): low where the entropy is low, high where it is high.

use crate::mass::{Softmax, Spread};
use crate::math::{ln, power, saturated};
use crate::order::Key;
use crate::params::SamplingParams;

/// The temperature in force at a place of the chain.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Temperature {
    /// T.
    pub value: f64,
    /// 1/T, rounded once.
    pub inverse: f64,
}

impl Temperature {
    /// The logits as they are.
    pub const ONE: Temperature = Temperature { value: 1.0, inverse: 1.0 };

    /// After one more temperature stage.
    pub fn then(self, temperature: f64) -> Self {
        Self { value: self.value * temperature, inverse: self.inverse * (1.0 / temperature) }
    }

    /// How logits become weights.
    pub fn softmax(self, x_max: f32) -> Softmax {
        Softmax::new(x_max, self.value)
    }

    /// `y = (x − x_max) / T`, the logarithm of the weight, in f64.
    #[inline(always)]
    pub fn scaled(self, x: f32, x_max: f32) -> f64 {
        (f64::from(x) - f64::from(x_max)) * self.inverse
    }

    /// The logit itself divided by T: what an edit after this temperature sees. Rounded once, finite.
    pub fn divide(self, x: f32) -> f32 {
        saturated((f64::from(x) * self.inverse) as f32)
    }

    /// As [`Temperature::divide`], not rounded: what processed logits report.
    pub fn logit(self, key: Key) -> f64 {
        f64::from(key.logit()) * self.inverse
    }
}

/// What the temperature stage divides by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Heat {
    Fixed(f64),
    /// Between `low` and `high`, by the entropy's share of the highest there could be, to the power of `exponent`.
    Dynamic {
        low: f64,
        high: f64,
        exponent: f64,
    },
}

impl Heat {
    /// `None` where there is nothing to divide by.
    pub(crate) fn new(params: &SamplingParams) -> Option<Self> {
        let (temperature, range) = (params.temperature, params.dynatemp_range);
        if range > 0.0 {
            let low = if temperature > range { temperature - range } else { 0.0 };
            return Some(Heat::Dynamic {
                low,
                high: temperature + range,
                exponent: params.dynatemp_exponent,
            });
        }
        (temperature != 1.0).then_some(Heat::Fixed(temperature))
    }

    /// The temperature for what is left of a row.
    pub(crate) fn dynamic(low: f64, high: f64, exponent: f64, spread: &Spread) -> f64 {
        let share = if spread.count > 1 { spread.entropy() / ln(f64::from(spread.count)) } else { 0.0 };
        low + (high - low) * power(share.clamp(0.0, 1.0), exponent)
    }
}
