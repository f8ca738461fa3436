//! The tokens that may have won a race.

use crate::numeric::key::Key;
use crate::numeric::math::{exp, ln};
use crate::numeric::temperature::Temperature;

/// The most finishers that a race finds beside its winner and including it.
pub(crate) const MAX_FINISHERS: usize = 8;

/// A bound is compared with this much to spare, in logarithms, so that no rounding of a bound can prune a
/// winner: the bounds' own errors are below 2^-13.
const MARGIN: f64 = 1.0 / 1024.0;

/// A token that may have won the race.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finalist {
    /// `y − ln E`; the highest wins.
    pub score: f64,
    /// The token's place in the order.
    pub key: Key,
}

impl Finalist {
    /// A token that runs with the exponential `time`.
    #[inline(always)]
    pub(crate) fn new(key: Key, time: f64, x_max: f32, temperature: Temperature) -> Self {
        Self { score: temperature.scaled(key.logit(), x_max) - ln(time), key }
    }

    /// Whether it beats `other`: the higher score, then the lower id.
    #[inline]
    pub fn beats(&self, other: &Finalist) -> bool {
        self.score > other.score || (self.score == other.score && self.key.token() < other.key.token())
    }
}

/// The first tokens to finish so far, and the latest bound that could still be one of theirs.
pub(crate) struct Lead {
    /// The earliest first. Beyond `found` they mean nothing.
    first: [Finalist; MAX_FINISHERS],
    found: usize,
    wanted: usize,
    /// 64 times the time of the last of them, with the margin; f32::MAX while there are fewer than wanted.
    pub limit: f32,
}

impl Lead {
    /// The first `wanted` tokens to finish, at least 1 and at most [`MAX_FINISHERS`].
    pub(crate) fn new(wanted: usize) -> Self {
        let nobody = Finalist { score: f64::NEG_INFINITY, key: Key::END };
        let wanted = wanted.clamp(1, MAX_FINISHERS);
        Self { first: [nobody; MAX_FINISHERS], found: 0, wanted, limit: f32::MAX }
    }

    /// The tokens found, the earliest first.
    pub(crate) fn finishers(&self) -> &[Finalist] {
        &self.first[..self.found]
    }

    /// The earliest token found.
    pub(crate) fn winner(&self) -> Option<Finalist> {
        self.finishers().first().copied()
    }

    /// A token that was not offered before.
    pub(crate) fn offer(&mut self, finalist: Finalist) {
        let place = self.finishers().partition_point(|earlier| earlier.beats(&finalist));
        if place == self.wanted {
            return;
        }
        self.found = (self.found + 1).min(self.wanted);
        self.first.copy_within(place..self.found - 1, place + 1);
        self.first[place] = finalist;
        if self.found == self.wanted {
            // Where this is beyond f32, nobody can be pruned, which is right too.
            let last = self.first[self.wanted - 1].score;
            self.limit = (64.0 * exp(MARGIN - last)).min(f64::from(f32::MAX)) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_keeps_the_first_ones_in_order() {
        let finalist = |score: f64, token| Finalist { score, key: Key::new(1.0, token) };
        let offers = [(1.0, 5), (3.0, 6), (2.0, 7), (3.0, 2), (-1.0, 9), (2.5, 1)];
        let lead_of = |wanted| {
            let mut lead = Lead::new(wanted);
            offers.iter().for_each(|&(score, token)| lead.offer(finalist(score, token)));
            (lead.finishers().iter().map(|finalist| finalist.key.token()).collect::<Vec<_>>(), lead.limit)
        };
        let (all, limit) = lead_of(8);
        assert_eq!((all, limit), (vec![2, 6, 1, 7, 5, 9], f32::MAX), "there are fewer than wanted");
        for wanted in 1..=6 {
            let (first, limit) = lead_of(wanted);
            assert_eq!(first, [2, 6, 1, 7, 5, 9][..wanted]);
            let last = [3.0, 3.0, 2.5, 2.0, 1.0, -1.0][wanted - 1];
            assert_eq!(limit, (64.0 * exp(MARGIN - last)) as f32);
        }
        assert!(Lead::new(3).winner().is_none());
    }
}
