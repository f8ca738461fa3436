//! Where chance enters: whether a guess is accepted, and what comes after the last one that is.
//!
//! Rules ask for it by probability, so that a test can put in place of the noise somebody who goes through
//! every outcome.

use super::law::Probabilities;
use crate::numeric::noise::{Noise, Purpose};

/// Makes the choices of one draft.
pub(super) trait Chance {
    /// Whether an event of that probability happens (1 or more: always, 0: never). The event is the
    /// acceptance of guess number `guess` among those after `depth` tokens of the draft, and is asked about
    /// once.
    fn accepts(&mut self, depth: usize, guess: usize, probability: f64) -> bool;

    /// A token of that law, after `depth` tokens of the draft. Asked for once.
    fn draws(&mut self, depth: usize, law: &Probabilities) -> u32;
}

/// Chance as the noise has it.
pub(super) struct Dice {
    /// Where the draft begins.
    pub noise: Noise,
}

impl Dice {
    fn at(&self, depth: usize) -> Noise {
        Noise { position: self.noise.position.wrapping_add(depth as u32), ..self.noise }
    }
}

impl Chance for Dice {
    fn accepts(&mut self, depth: usize, guess: usize, probability: f64) -> bool {
        self.at(depth).coin(depth as u32, guess as u32) < probability
    }

    fn draws(&mut self, depth: usize, law: &Probabilities) -> u32 {
        let arrived = arrivals(&self.at(depth), Purpose::Residual, depth as u32, law, 1);
        arrived.first().copied().unwrap_or_default()
    }
}

/// The first `count` tokens of a race: token i arrives at `E_i / q_i`, ties go to the lower id. That is
/// `count` draws without replacement.
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
