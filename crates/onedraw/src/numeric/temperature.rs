//! The temperature: a factor between logits and weights. It never reorders tokens, so it is stored beside the
//! row and applied when a weight or a score is computed.

use crate::numeric::key::Key;
use crate::numeric::mass::Softmax;
use crate::numeric::math::saturated;

/// The temperature in force at a place of the chain.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Temperature {
    /// The temperature T.
    pub value: f64,
    /// 1/T, rounded once.
    pub inverse: f64,
}

impl Temperature {
    /// Temperature 1, which changes nothing.
    pub const ONE: Temperature = Temperature { value: 1.0, inverse: 1.0 };

    /// Whether logits can be divided by it.
    pub fn is_sound(self) -> bool {
        [self.value, self.inverse].iter().all(|&number| number.is_finite() && number > 0.0)
    }

    /// The temperature after one more temperature stage.
    pub fn then(self, temperature: f64) -> Self {
        Self { value: self.value * temperature, inverse: self.inverse * (1.0 / temperature) }
    }

    /// How logits become weights at this temperature.
    pub fn softmax(self, x_max: f32) -> Softmax {
        Softmax::new(x_max, self.value)
    }

    /// `y = (x − x_max) / T`, the logarithm of the weight relative to the best token's, in f64.
    #[inline(always)]
    pub fn scaled(self, x: f32, x_max: f32) -> f64 {
        (f64::from(x) - f64::from(x_max)) * self.inverse
    }

    /// The logit divided by T, as an edit after this temperature sees it: rounded once to f32, and always
    /// finite.
    pub fn divide(self, x: f32) -> f32 {
        saturated((f64::from(x) * self.inverse) as f32)
    }

    /// The logit divided by T in f64, as processed logits report it.
    pub fn logit(self, key: Key) -> f64 {
        f64::from(key.logit()) * self.inverse
    }
}
