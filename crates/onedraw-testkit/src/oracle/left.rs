//! The tokens that are left, their probabilities, and how far the engine's numbers may be off.

use std::collections::BTreeSet;
use std::ops::Range;

use super::expected::Outcome;

/// One token that is left.
#[derive(Clone, Copy)]
pub(super) struct Token {
    pub id: u32,
    pub logit: f32,
    /// How far off the engine's logit may be. It is 0 unless an edit followed a temperature that the entropy
    /// set: all other logits are the same f32 on both sides.
    pub doubt: f64,
}

/// The tokens that are left, in order, with their logits before the temperature in force.
#[derive(Clone)]
pub(super) struct Left {
    pub tokens: Vec<Token>,
    pub temperature: f64,
    /// By what share the engine's temperature may be off: 0 unless the entropy set it.
    pub temperature_doubt: f64,
    pub greedy: bool,
}

impl Left {
    pub fn new(logits: &[f32]) -> Self {
        let tokens = (0u32..).zip(logits).filter(|(_, logit)| logit.is_finite());
        let tokens = tokens.map(|(id, &logit)| Token { id, logit, doubt: 0.0 }).collect();
        let mut left = Self { tokens, temperature: 1.0, temperature_doubt: 0.0, greedy: false };
        left.sort();
        left
    }

    pub fn sort(&mut self) {
        // partial_cmp, not total_cmp: −0.0 and 0.0 are the same logit.
        self.tokens.sort_by(|a, b| {
            b.logit.partial_cmp(&a.logit).expect("logits that are left are finite").then(a.id.cmp(&b.id))
        });
    }

    /// Whether no tie stands across this place of the order.
    pub fn is_edge(&self, place: usize) -> bool {
        place == 0 || place == self.tokens.len() || self.tokens[place - 1].logit != self.tokens[place].logit
    }

    /// Whether the engine may have the two tokens beside this place the other way round, or as a tie.
    pub fn is_order_in_doubt(&self, place: usize) -> bool {
        let Some([before, after]) = place.checked_sub(1).and_then(|first| self.tokens.get(first..=place))
        else {
            return false;
        };
        let doubt = before.doubt + after.doubt;
        doubt > 0.0 && f64::from(before.logit) - f64::from(after.logit) <= doubt
    }

    /// Keeps a window of the order, and before it the tokens that are spared.
    pub fn keep(&mut self, window: &Range<usize>, spared: &BTreeSet<u32>) {
        let mut places = 0..;
        self.tokens.truncate(window.end);
        self.tokens.retain(|token| places.next() >= Some(window.start) || spared.contains(&token.id));
    }

    /// An edit works on what the stages before it made of the logits.
    pub fn take_temperature_into_the_logits(&mut self) {
        let factor = 1.0 / self.temperature;
        for token in self.tokens.iter_mut().filter(|_| self.temperature != 1.0) {
            let scaled = f64::from(token.logit) * factor;
            token.logit = saturated(scaled as f32);
            let doubt = token.doubt * factor + scaled.abs() * self.temperature_doubt;
            token.doubt = if doubt > 0.0 { doubt + ulp(token.logit) } else { 0.0 };
        }
        (self.temperature, self.temperature_doubt) = (1.0, 0.0);
    }

    /// Changes or masks each logit by its id and value. `common` is how far off the number may be that an
    /// edit measures all logits from.
    pub fn edit(&mut self, common: f64, edit: impl Fn(u32, f32) -> Option<f32>) {
        self.tokens.retain_mut(|token| {
            let Some(logit) = edit(token.id, token.logit) else { return false };
            let reach = token.doubt + common;
            if reach > 0.0 {
                let off_by = |doubt: f64| {
                    let other = saturated((f64::from(token.logit) + doubt) as f32);
                    let other = edit(token.id, other).expect("masks look at ids alone");
                    (f64::from(other) - f64::from(logit)).abs()
                };
                token.doubt = off_by(reach).max(off_by(-reach)) + common + ulp(logit);
            }
            token.logit = logit;
            true
        });
        self.sort();
    }

    pub fn outcome(&self) -> Outcome {
        if self.greedy {
            return Outcome { tokens: vec![self.tokens[0].id], probabilities: vec![1.0] };
        }
        Outcome {
            tokens: self.tokens.iter().map(|token| token.id).collect(),
            probabilities: Softmax::of(self).probabilities,
        }
    }
}

/// What the logits that are left give at the temperature in force.
pub(super) struct Softmax {
    /// exp of each scaled logit; the best has 1.
    pub weights: Vec<f64>,
    /// Their sum.
    pub total: f64,
    pub probabilities: Vec<f64>,
    /// Natural; finite even where the probability is 0 in f64.
    pub logprobs: Vec<f64>,
    /// In nats.
    pub entropy: f64,
    /// How far off each logprob may be because logits and temperature are in doubt, to first order.
    pub logprob_doubts: Vec<f64>,
    /// The same for the entropy.
    pub entropy_doubt: f64,
    /// The same for the mass of any set of tokens.
    pub mass_doubt: f64,
}

impl Softmax {
    pub fn of(left: &Left) -> Self {
        let Left { tokens, temperature, temperature_doubt, .. } = left;
        let best = f64::from(tokens[0].logit);
        let scaled = || tokens.iter().map(|token| (f64::from(token.logit) - best) / temperature);
        let weights: Vec<f64> = scaled().map(f64::exp).collect();
        let total: f64 = weights.iter().sum();
        let log_total = total.ln();
        let logprobs: Vec<f64> = scaled().map(|scaled| scaled - log_total).collect();
        let probabilities: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
        let entropy = -dot(&probabilities, logprobs.iter().copied());

        // With scaled logits y, and d for a change of them: d ln p_i = d y_i − Σ p_j d y_j, and a factor 1 +
        // ε on the temperature is d y_i = −ε·y_i, for which that is −ε·(ln p_i + H). Of H it is −Σ p_i·(ln
        // p_i + H)·d y_i.
        let own = || tokens.iter().map(|token| token.doubt / temperature);
        let common = dot(&probabilities, own());
        let deviations = || logprobs.iter().map(|logprob| (logprob + entropy).abs());
        let logprob_doubts: Vec<f64> = (probabilities.iter().zip(own()).zip(deviations()))
            .map(|((p, own), deviation)| {
                (1.0 - p) * own + (common - p * own).max(0.0) + temperature_doubt * deviation
            })
            .collect();
        let shifts = own().zip(deviations());
        let entropy_doubt = dot(
            &probabilities,
            shifts.map(|(own, deviation)| deviation * (own + temperature_doubt * deviation)),
        );
        let mass_doubt = dot(&probabilities, logprob_doubts.iter().copied());
        Self { weights, total, probabilities, logprobs, entropy, logprob_doubts, entropy_doubt, mass_doubt }
    }

    /// How far off any probability may be because logits and temperature are in doubt.
    pub fn tolerance(&self) -> f64 {
        let off = self.probabilities.iter().zip(&self.logprob_doubts).map(|(p, doubt)| p * doubt);
        off.fold(0.0, f64::max)
    }

    pub fn mass(&self, window: &Range<usize>) -> f64 {
        self.probabilities[window.clone()].iter().sum()
    }
}

fn dot(probabilities: &[f64], values: impl Iterator<Item = f64>) -> f64 {
    probabilities.iter().zip(values).map(|(p, value)| p * value).sum()
}

/// Only a mask makes −inf; an edit that overflows stays at the largest finite logit.
pub(super) fn saturated(logit: f32) -> f32 {
    logit.clamp(f32::MIN, f32::MAX)
}

/// No less than the distance from a logit to the next one.
fn ulp(logit: f32) -> f64 {
    f64::from(logit.abs()) * f64::from(f32::EPSILON) + f64::from(f32::from_bits(1))
}
