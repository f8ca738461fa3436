//! The definition of everything onedraw computes: obvious, scalar, slow.
//!
//! It lists the tokens, sorts them all, gives every one its noise, and takes the best. The engine opens a few
//! blocks and asks questions instead; it is tested for equality with this, to the bit. Where the two differ,
//! this is right. What is checked before any row is read (ids outside the vocabulary, a mask whose stage the
//! order leaves out) is not repeated here.

mod custom;
mod edits;
mod truncations;

use crate::error::RowError;
use crate::kernels::row::{MAX_VOCABULARY, Row};
use crate::logprobs::Distribution;
use crate::numeric::mass::UNIT;
use crate::numeric::math::{exp, ln};
use crate::numeric::noise::Noise;
use crate::numeric::temperature::Temperature;
use crate::params::chain::{Order, Stage};
use crate::params::{GREEDY_BELOW, SamplingParams};

/// A token that is still in the running, with its current logit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    token: u32,
    logit: f32,
}

/// What the chain left of a row: the kept tokens in order, and the temperature of the draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    candidates: Vec<Candidate>,
    temperature: Temperature,
    is_greedy: bool,
}

/// Runs the chain over a row: every stage of the order, one after another, over a plain list. The noise is
/// that of the draw; a chain that throws no coin does not look at it.
pub fn left<'r>(
    row: impl Into<Row<'r>>,
    mask: Option<&[u32]>,
    params: &SamplingParams,
    noise: &Noise,
) -> Result<Left, RowError> {
    let row = row.into();
    if row.is_empty() {
        return Err(RowError::EmptyRow);
    }
    if row.len() > MAX_VOCABULARY {
        return Err(RowError::VocabularyTooLarge { vocabulary: row.len() });
    }
    let needed = row.len().div_ceil(32);
    if let Some(words) = mask.map(<[u32]>::len).filter(|&words| words < needed) {
        return Err(RowError::MaskTooShort { words, needed });
    }
    let mut candidates = Vec::new();
    for token in 0..row.len() as u32 {
        let logit = row.get(token as usize);
        if logit.is_nan() {
            return Err(RowError::NanLogit { token });
        }
        if logit == f32::INFINITY {
            return Err(RowError::InfiniteLogit { token });
        }
        if logit > f32::NEG_INFINITY {
            candidates.push(Candidate { token, logit });
        }
    }
    if candidates.is_empty() {
        return Err(RowError::NothingLeft { stage: None });
    }
    sort(&mut candidates);
    let mut left = Left { candidates, temperature: Temperature::ONE, is_greedy: is_greedy(params) };
    let order = params.order.clone().unwrap_or_else(Order::vllm);
    for (i, stage) in order.stages().iter().enumerate() {
        match stage {
            Stage::Temperature => left.heat(params),
            Stage::Custom(own) => custom::apply(&mut left, own, row.len(), params, noise)?,
            _ if edits::is_active(stage, mask.is_some(), params) => {
                left.divide();
                edits::apply(stage, &mut left.candidates, mask, params);
                sort(&mut left.candidates);
            }
            Stage::Xtc => {
                let index = order.stages()[..i].iter().filter(|stage| **stage == Stage::Xtc).count();
                truncations::xtc(&mut left, params, noise.xtc(index as u32));
            }
            _ => truncations::apply(stage, &mut left, row.len(), params),
        }
        if left.candidates.is_empty() {
            return Err(RowError::NothingLeft { stage: Some(stage.clone()) });
        }
    }
    Ok(left)
}

/// With a range of temperatures, the entropy decides at its stage.
fn is_greedy(params: &SamplingParams) -> bool {
    params.temperature < GREEDY_BELOW && params.dynatemp_range == 0.0
}

/// The order: logit descending, then id ascending.
fn sort(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| {
        b.logit.partial_cmp(&a.logit).unwrap_or(std::cmp::Ordering::Equal).then(a.token.cmp(&b.token))
    });
}

impl Left {
    /// An edit sees the logits divided by the temperatures before it.
    fn divide(&mut self) {
        if self.temperature != Temperature::ONE {
            for candidate in &mut self.candidates {
                candidate.logit = self.temperature.divide(candidate.logit);
            }
            sort(&mut self.candidates);
            self.temperature = Temperature::ONE;
        }
    }

    /// The temperature stage.
    fn heat(&mut self, params: &SamplingParams) {
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

    /// The mass of what is left, in units of the best token's.
    fn mass(&self) -> f64 {
        let softmax = self.temperature.softmax(self.candidates[0].logit);
        self.candidates.iter().map(|c| softmax.weight(c.logit)).sum::<u64>() as f64 / UNIT as f64
    }

    /// The mean of −y, `y = ln(weight / weight of the best)`.
    fn mean_surprise(&self) -> f64 {
        let softmax = self.temperature.softmax(self.candidates[0].logit);
        let total: u64 = self.candidates.iter().map(|c| softmax.weight(c.logit)).sum();
        let surprise: u64 = self.candidates.iter().map(|c| softmax.surprise(c.logit).1).sum();
        std::f64::consts::LN_2 * (surprise as f64 / total as f64)
    }

    /// The entropy, in nats.
    fn entropy(&self) -> f64 {
        ln(self.mass()) + self.mean_surprise()
    }

    /// The logarithm of a weight, in units of the best token's.
    fn y(&self, c: &Candidate) -> f64 {
        self.temperature.scaled(c.logit, self.candidates[0].logit)
    }

    /// The token that wins the race: every token runs.
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

    /// The token at share `uniform` of the mass, in the order.
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
