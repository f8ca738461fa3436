//! How likely the target accepts a guess, learned from its verdicts.

use onedraw::Runner;

/// How many guesses may follow one place, at most. A limit of the tables here; the chance of a fourth guess
/// is a tenth at best ([`FIRST_CHANCES_OF_OTHERS`]).
pub(super) const MAX_WIDTH: usize = 4;

/// How many ranges of a runner's margin are told apart, and also how many depths of copied tokens; the last
/// range and depth include all that is larger.
const RANGES: usize = 8;

/// Ranges per unit of a margin: margins are differences of logarithms, and half a unit is a factor of 1.65.
const RANGES_PER_UNIT: f64 = 2.0;

/// The chance of the first runner before anything is learned, by the range of its margin over the second.
/// Chosen by hand, near what small drafters reached; [`WEIGHT_OF_FIRST_CHANCES`] lets the text correct them
/// soon.
const FIRST_CHANCES_OF_WINNER: [f64; RANGES] = [0.4, 0.55, 0.65, 0.7, 0.77, 0.83, 0.88, 0.95];

/// The same for the second runner, by the range of its distance to the first; the third has half of it, the
/// fourth a third.
const FIRST_CHANCES_OF_OTHERS: [f64; RANGES] = [0.3, 0.2, 0.14, 0.1, 0.07, 0.05, 0.03, 0.01];

/// The chance of a copied token before anything is learned, by how many tokens before it were the same: 1, 2,
/// 3, and 4 or more. Chosen by hand: the more tokens agree, the better.
const FIRST_CHANCES_OF_COPIED: [f64; MAX_WIDTH] = [0.3, 0.5, 0.65, 0.75];

/// How many verdicts the first chances count as. Chosen by hand, small, so that a few verdicts outweigh them.
const WEIGHT_OF_FIRST_CHANCES: f64 = 4.0;

/// What a verdict still counts after each later one of its class: a hundred are remembered. Chosen by hand,
/// to follow a text that becomes easier or harder to guess.
const DECAY: f64 = 0.99;

/// Guesses that share one chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// A runner of the drafter's race: its place among the runners, and the range of its margin.
    Runner { place: usize, range: usize },
    /// A token copied from earlier in the text: how many tokens before it were the same, less one, and how
    /// far it is from there.
    Copied { length: usize, depth: usize },
}

impl Class {
    /// The class of one of several runners: the first by its distance to the second, the others by theirs to
    /// the first.
    pub(super) fn runner(runners: &[Runner], place: usize) -> Self {
        let margin = runners.get(place.max(1)).map_or(f64::INFINITY, |runner| runner.behind);
        let range = (margin * RANGES_PER_UNIT).clamp(0.0, (RANGES - 1) as f64) as usize;
        Self::Runner { place: place.min(MAX_WIDTH - 1), range }
    }

    pub(super) fn copied(length: usize, depth: usize) -> Self {
        Self::Copied { length: length.clamp(1, MAX_WIDTH) - 1, depth: depth.min(RANGES - 1) }
    }
}

/// How many guesses of a class were verified, and how many of them accepted; older ones count less.
#[derive(Clone, Copy, Debug)]
struct Chance {
    accepted: f64,
    verified: f64,
}

impl Chance {
    fn new(chance: f64) -> Self {
        Self { accepted: WEIGHT_OF_FIRST_CHANCES * chance, verified: WEIGHT_OF_FIRST_CHANCES }
    }

    fn learn(&mut self, is_accepted: bool) {
        self.accepted = self.accepted * DECAY + f64::from(u8::from(is_accepted));
        self.verified = self.verified * DECAY + 1.0;
    }
}

/// The chances of all classes.
#[derive(Clone, Debug)]
pub(super) struct Chances {
    runners: [[Chance; RANGES]; MAX_WIDTH],
    copied: [[Chance; RANGES]; MAX_WIDTH],
}

impl Chances {
    pub(super) fn new() -> Self {
        let runners = std::array::from_fn(|place| match place {
            0 => FIRST_CHANCES_OF_WINNER.map(Chance::new),
            place => FIRST_CHANCES_OF_OTHERS.map(|chance| Chance::new(chance / place as f64)),
        });
        Self { runners, copied: FIRST_CHANCES_OF_COPIED.map(|chance| [Chance::new(chance); RANGES]) }
    }

    /// The chance that a guess is accepted if the text comes to its place.
    pub(super) fn of(&self, class: Class) -> f64 {
        let chance = match class {
            Class::Runner { place, range } => self.runners[place][range],
            Class::Copied { length, depth } => self.copied[length][depth],
        };
        chance.accepted / chance.verified
    }

    /// Learns from the verdict on a guess whose place the text came to.
    pub(super) fn learn(&mut self, class: Class, is_accepted: bool) {
        match class {
            Class::Runner { place, range } => self.runners[place][range].learn(is_accepted),
            Class::Copied { length, depth } => self.copied[length][depth].learn(is_accepted),
        }
    }

    /// The chance of a first runner whose margin is not known yet.
    pub(super) fn of_any_winner(&self) -> f64 {
        let winners = &self.runners[0];
        winners.iter().map(|chance| chance.accepted).sum::<f64>()
            / winners.iter().map(|chance| chance.verified).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_learned() {
        let mut chances = Chances::new();
        let runners = [
            Runner { token: 1, behind: 0.0 },
            Runner { token: 2, behind: 0.7 },
            Runner { token: 3, behind: 9.0 },
        ];
        let first = Class::runner(&runners, 0);
        assert_eq!(first, Class::Runner { place: 0, range: 1 });
        assert_eq!(Class::runner(&runners, 2), Class::Runner { place: 2, range: 7 });
        assert_eq!(Class::runner(&runners[..1], 0), Class::Runner { place: 0, range: 7 });
        assert_eq!(Class::copied(9, 20), Class::Copied { length: 3, depth: 7 });
        let before = chances.of(first);
        (0..400).for_each(|i| chances.learn(first, i % 4 == 0));
        assert!(before > 0.5 && (chances.of(first) - 0.25).abs() < 0.02, "{before} {}", chances.of(first));
        let other = Class::runner(&runners, 2);
        assert_eq!(chances.of(other), Chances::new().of(other));
    }
}
