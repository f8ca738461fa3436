//! The random choices of verification: whether a guess is accepted, and which token comes after the last
//! accepted one.
//!
//! The rules ask for a choice by its probability. So a test can replace the noise by something that goes
//! through every outcome.

use super::law::Probabilities;
use crate::numeric::noise::{Noise, Purpose};

/// Makes the random choices for one draft.
pub(super) trait Chance {
    /// Whether guess number `guess` among those after `depth` tokens of the draft is accepted, where that
    /// must happen with probability `probability` (1 or more: always, 0: never). Called at most once for each
    /// guess.
    fn accepts(&mut self, depth: usize, guess: usize, probability: f64) -> bool;

    /// A token drawn from `law`, after `depth` tokens of the draft. Called at most once for each depth.
    fn draws(&mut self, depth: usize, law: &Probabilities) -> u32;
}

/// The noise of accepting guesses ([`Purpose::Accept`]) and of drawing the token after them
/// ([`Purpose::Residual`]).
pub(super) struct VerificationNoise {
    /// The noise of the position where the draft begins.
    pub start: Noise,
}

impl VerificationNoise {
    /// The noise of the position after `depth` tokens of the draft.
    fn at(&self, depth: usize) -> Noise {
        Noise { position: self.start.position.wrapping_add(depth as u32), ..self.start }
    }
}

impl Chance for VerificationNoise {
    fn accepts(&mut self, depth: usize, guess: usize, probability: f64) -> bool {
        self.at(depth).coin(depth as u32, guess as u32) < probability
    }

    fn draws(&mut self, depth: usize, law: &Probabilities) -> u32 {
        let arrived = arrivals(&self.at(depth), Purpose::Residual, depth as u32, law, 1);
        arrived.first().copied().unwrap_or_default()
    }
}

/// The first `count` tokens to finish a race in which token i finishes at `E_i / q_i`; of equal times the
/// lower id comes first. These are `count` draws from `law` without replacement.
pub(super) fn arrivals(
    noise: &Noise,
    purpose: Purpose,
    depth: u32,
    law: &Probabilities,
    count: usize,
) -> Vec<u32> {
    let mut times: Vec<(f64, u32)> =
        law.pairs().map(|(token, q)| (noise.runner(purpose, depth, token) / q, token)).collect();
    let earlier = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
    if count < times.len() {
        if count > 0 {
            times.select_nth_unstable_by(count - 1, earlier);
        }
        times.truncate(count);
    }
    times.sort_unstable_by(earlier);
    times.into_iter().map(|(_, token)| token).collect()
}
