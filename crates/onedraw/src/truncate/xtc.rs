//! XTC, exclude top choices: now and then removes all tokens above a threshold but the least likely of them (p-e-w,
//! text-generation-webui, 2024).
//!
//! It keeps a suffix of the order, and the tokens it must never remove. Whether it acts is decided by a coin of the draw's position:
//! a stream of its own, so that the draw is independent of it.

use crate::edit::temperature::Temperature;
use crate::inquiry::Inquiry;
use crate::mass::relative;
use crate::math::ln;
use crate::noise::Noise;
use crate::order::{Key, lowest_where};
use crate::params::SamplingParams;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Xtc {
    probability: f64,
    /// The logarithm of the threshold.
    threshold: f64,
    pub protected: Vec<u32>,
    /// How many XTC stages stand before this one: each has a coin of its own.
    index: u32,
}

impl Xtc {
    pub(crate) fn new(params: &SamplingParams, index: u32) -> Option<Self> {
        (params.xtc_probability > 0.0).then(|| Self {
            probability: params.xtc_probability,
            threshold: ln(params.xtc_threshold),
            protected: params.xtc_protected_token_ids.clone(),
            index,
        })
    }

    /// What the coin says at this position.
    pub(crate) fn acts(&self, noise: &Noise) -> bool {
        noise.xtc(self.index) < self.probability
    }

    /// The last of the top choices, which stays; `None` if nothing comes before it.
    pub(crate) fn last_top_choice(
        &self,
        row: &mut Inquiry<'_>,
        summit: Key,
        temperature: Temperature,
        previous: Key,
    ) -> Option<Key> {
        let x_max = summit.logit();
        let bar = self.threshold + ln(relative(row.total(previous, temperature.softmax(x_max))));
        let lowest = lowest_where(x_max, |x| temperature.scaled(x, x_max) >= bar)?;
        row.last(Key::last_of(lowest).min(previous)).filter(|&last| last > summit)
    }
}
