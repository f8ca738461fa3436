//! XTC, exclude top choices: now and then removes all tokens above a threshold except the least likely of
//! them (p-e-w, text-generation-webui, 2024).
//!
//! It keeps a suffix of the order, and the protected tokens, which it never removes. Whether it acts is
//! decided by a coin for each position, which has its own stream of noise, so that the draw is independent of
//! it.

use crate::error::RowError;
use crate::logits::access::{Asker, RowAccess};
use crate::numeric::key::{Key, lowest_where};
use crate::numeric::mass::relative;
use crate::numeric::math::ln;
use crate::numeric::noise::Noise;
use crate::numeric::temperature::Temperature;
use crate::params::SamplingParams;

/// Checked parameters of XTC.
#[derive(Clone, Debug, PartialEq)]
pub struct Xtc {
    probability: f64,
    /// The logarithm of the threshold.
    threshold: f64,
    pub(crate) protected: Vec<u32>,
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

    /// How often it acts.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// The logarithm of the threshold.
    pub fn threshold(&self) -> f64 {
        self.threshold
    }

    /// Which coin it has.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// What the coin says at this position.
    pub(crate) fn acts(&self, noise: &Noise) -> bool {
        noise.xtc(self.index) < self.probability
    }

    /// The last of the top choices, which stays; `None` if nothing comes before it.
    pub(crate) async fn last_top_choice<R: RowAccess>(
        &self,
        row: &mut Asker<'_, R>,
        summit: Key,
        temperature: Temperature,
        previous: Key,
    ) -> Result<Option<Key>, RowError> {
        let x_max = summit.logit();
        let mass = row.mass(previous, temperature.softmax(x_max)).await?;
        let bar = self.threshold + ln(relative(mass));
        let Some(lowest) = lowest_where(x_max, |x| temperature.scaled(x, x_max) >= bar) else {
            return Ok(None);
        };
        let last = row.last(Key::last_of(lowest).min(previous)).await?;
        Ok(Some(last).filter(|&last| last > summit))
    }
}
