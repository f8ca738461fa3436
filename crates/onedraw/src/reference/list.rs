//! The list of the tokens that are left of a row.

use crate::logprobs::Distribution;
use crate::numeric::mass::UNIT;
use crate::numeric::math::{exp, ln};
use crate::numeric::noise::Noise;
use crate::numeric::temperature::Temperature;
use crate::params::{GREEDY_BELOW, SamplingParams};

/// A token that is not removed, with its current logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) token: u32,
    pub(super) logit: f32,
}

/// What the chain left of a row: the kept tokens in order, and the temperature of the draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    pub(super) candidates: Vec<Candidate>,
    pub(super) temperature: Temperature,
    is_greedy: bool,
}

/// Sorts by the order: logit descending, then id ascending.
pub(super) fn sort(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| {
        b.logit.partial_cmp(&a.logit).unwrap_or(std::cmp::Ordering::Equal).then(a.token.cmp(&b.token))
    });
}

/// Whether the parameters alone make a draw greedy. With a dynamic temperature the entropy decides that at
/// its stage.
fn is_greedy(params: &SamplingParams) -> bool {
    params.temperature < GREEDY_BELOW && params.dynatemp_range == 0.0
}

impl Left {
    /// The start of a chain: all tokens of a row, sorted.
    pub(super) fn new(candidates: Vec<Candidate>, params: &SamplingParams) -> Self {
        Self { candidates, temperature: Temperature::ONE, is_greedy: is_greedy(params) }
    }

    /// Divides the logits by the temperatures so far, because that is what an edit sees.
    pub(super) fn divide(&mut self) {
        if self.temperature != Temperature::ONE {
            for candidate in &mut self.candidates {
                candidate.logit = self.temperature.divide(candidate.logit);
            }
            sort(&mut self.candidates);
            self.temperature = Temperature::ONE;
        }
    }

    /// The temperature stage, with a dynamic temperature if its range is above 0.
    pub(super) fn heat(&mut self, params: &SamplingParams) {
        let (mut temperature, range) = (params.temperature, params.dynatemp_range);
        if is_greedy(params) {
            return;
        }
        if range > 0.0 {
            let (low, high) = ((temperature - range).max(0.0), temperature + range);
            let count = self.candidates.len() as f64;
            let share = if count > 1.0 { self.entropy() / ln(count) } else { 0.0 }.clamp(0.0, 1.0);
            let power =
                if params.dynatemp_exponent == 0.0 { 1.0 } else { exp(params.dynatemp_exponent * ln(share)) };
            temperature = low + (high - low) * power;
            if temperature < GREEDY_BELOW {
                self.is_greedy = true;
                return;
            }
        }
        self.temperature = self.temperature.then(temperature);
    }

    /// The mass of the tokens that are left, as a multiple of the best token's weight.
    pub(super) fn mass(&self) -> f64 {
        let softmax = self.temperature.softmax(self.candidates[0].logit);
        self.candidates.iter().map(|c| softmax.weight(c.logit)).sum::<u64>() as f64 / UNIT as f64
    }

    /// The mean of −y over the distribution, where `y = ln(weight / weight of the best)`.
    pub(super) fn mean_surprise(&self) -> f64 {
        let softmax = self.temperature.softmax(self.candidates[0].logit);
        let total: u64 = self.candidates.iter().map(|c| softmax.weight(c.logit)).sum();
        let surprise: u64 = self.candidates.iter().map(|c| softmax.surprise(c.logit).1).sum();
        std::f64::consts::LN_2 * (surprise as f64 / total as f64)
    }

    /// The entropy, in nats.
    pub(super) fn entropy(&self) -> f64 {
        ln(self.mass()) + self.mean_surprise()
    }

    /// The logarithm of a token's weight as a multiple of the best token's.
    pub(super) fn y(&self, c: &Candidate) -> f64 {
        self.temperature.scaled(c.logit, self.candidates[0].logit)
    }

    /// The token that wins the race, in which every token takes part.
    pub fn draw(&self, noise: &Noise) -> u32 {
        let x_max = self.candidates[0].logit;
        let mut best = (f64::NEG_INFINITY, self.candidates[0].token);
        if self.is_greedy {
            return best.1;
        }
        for c in &self.candidates {
            let score = self.temperature.scaled(c.logit, x_max) - ln(noise.token(c.token));
            if score > best.0 || (score == best.0 && c.token < best.1) {
                best = (score, c.token);
            }
        }
        best.1
    }

    /// The token at which the mass, summed in the order, passes the share `uniform` of the total: a draw with
    /// a uniform number of the caller.
    pub fn at(&self, uniform: f64) -> u32 {
        if self.is_greedy {
            return self.candidates[0].token;
        }
        let softmax = self.temperature.softmax(self.candidates[0].logit);
        let total: u64 = self.candidates.iter().map(|c| softmax.weight(c.logit)).sum();
        let share = (uniform * 18_446_744_073_709_551_616.0) as u64;
        let unit = ((u128::from(share) * u128::from(total)) >> 64) as u64;
        let mut up_to = 0;
        for c in &self.candidates {
            up_to += softmax.weight(c.logit);
            if unit < up_to {
                return c.token;
            }
        }
        self.candidates[self.candidates.len() - 1].token
    }

    /// Every kept token with its probability.
    pub fn distribution(&self) -> Distribution {
        let x_max = self.candidates[0].logit;
        if self.is_greedy {
            return Distribution {
                tokens: vec![self.candidates[0].token],
                probabilities: vec![1.0],
                logprobs: vec![0.0],
            };
        }
        let softmax = self.temperature.softmax(x_max);
        let total: u64 = self.candidates.iter().map(|c| softmax.weight(c.logit)).sum();
        let ln_total = ln(total as f64 / UNIT as f64);
        let logprob = |c: &Candidate| self.temperature.scaled(c.logit, x_max) - ln_total;
        Distribution {
            tokens: self.candidates.iter().map(|c| c.token).collect(),
            probabilities: self.candidates.iter().map(|c| exp(logprob(c))).collect(),
            logprobs: self.candidates.iter().map(logprob).collect(),
        }
    }
}
