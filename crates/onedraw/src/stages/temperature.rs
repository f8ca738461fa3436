//! The temperature stage: divides by a number, or by one that the entropy of the row sets (kalomaze,
//! KoboldCpp, 2024).

use crate::numeric::mass::Spread;
use crate::numeric::math::{ln, power};
use crate::params::SamplingParams;

/// What the temperature stage divides by.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Heat {
    /// A number.
    Fixed(f64),
    /// Between `low` and `high`: the entropy's share of the largest possible entropy, to the power of
    /// `exponent`, says where.
    Dynamic {
        /// Where the entropy is 0.
        low: f64,
        /// Where the entropy is as large as it can be.
        high: f64,
        /// How the temperature rises between them.
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
