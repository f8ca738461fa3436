//! What guesses may lose: a small loan, which what they gain pays back.
//!
//! A drafter that does not pay has spent its purse after a few passes, and rests until plain passes have earned it
//! another try. So no text loses much more than the loan and one pass in two hundred.

/// What a text begins with, in plain passes: enough to measure what guesses cost and how often they hold. And as much
/// as a purse holds: what guesses gained long ago does not pay for what they lose now.
const LOAN: f64 = 2.0;

/// As much as one pass may lose. The first passes of a process read weights that are far from the processor and took
/// up to four times as long as those that followed; what is lost beyond this says nothing about those.
const MOST_LOST: f64 = 1.0;

/// What a pass with guesses must gain to leave the purse as it was. Smaller gains cannot be told from losses: where a
/// text is written twice without guesses, the times differ by 1 to 7 % (bench/results/2026-11-19-speculation.md). Guesses that gain
/// nothing rest after forty passes, and those that lose as much as this after twenty.
const LEAST_GAIN: f64 = 0.05;

/// What each plain pass earns while guesses rest.
const EARNED: f64 = 0.005;

/// What a purse must hold before guesses are tried again.
const TRIAL: f64 = 1.0;

/// The purse of a generator's guesses.
#[derive(Clone, Debug)]
pub(super) struct Purse {
    held: f64,
    is_resting: bool,
    rests: usize,
}

impl Purse {
    pub(super) fn new() -> Self {
        Self { held: LOAN, is_resting: false, rests: 0 }
    }

    /// Whether there is something left to guess with.
    pub(super) fn allows_guesses(&self) -> bool {
        !self.is_resting
    }

    /// A pass with guesses gained so many plain passes, or lost them.
    pub(super) fn guessed(&mut self, gained: f64) {
        self.held = (self.held + (gained - LEAST_GAIN).max(-MOST_LOST)).min(LOAN);
        if self.held <= 0.0 && !self.is_resting {
            self.is_resting = true;
            self.rests += 1;
        }
    }

    /// A plain pass was made.
    pub(super) fn rested(&mut self) {
        if self.is_resting {
            self.held += EARNED;
            self.is_resting = self.held < TRIAL;
        }
    }

    /// What is left, in plain passes.
    pub(super) fn held(&self) -> f64 {
        self.held
    }

    /// How often guesses began to rest.
    pub(super) fn rests(&self) -> usize {
        self.rests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guesses_that_lose_rest_until_plain_passes_have_paid_for_another_try() {
        let mut purse = Purse::new();
        [0.55, -0.95, -0.45].into_iter().for_each(|gained| purse.guessed(gained));
        assert!(purse.allows_guesses());
        purse.guessed(-0.95);
        assert!(!purse.allows_guesses());
        assert_eq!(purse.rests(), 1);
        // It has half a pass of debts and has to earn one: 300 passes, but for the rounding of their sum.
        let passes = (1..).find(|_| {
            purse.rested();
            purse.allows_guesses()
        });
        assert!(matches!(passes, Some(300 | 301)), "{passes:?}");
        purse.guessed(-1.0);
        purse.guessed(-1.0);
        assert_eq!((purse.allows_guesses(), purse.rests()), (false, 2));
    }

    #[test]
    fn guesses_whose_gains_cannot_be_told_from_losses_rest() {
        let until_rest = |gained: f64| {
            let mut purse = Purse::new();
            (1..1000).find(|_| {
                purse.guessed(gained);
                !purse.allows_guesses()
            })
        };
        assert_eq!([-0.95, -0.45, -0.2, 0.0].map(until_rest), [Some(2), Some(4), Some(8), Some(40)]);
        assert_eq!([0.06, 0.5].map(until_rest), [None, None]);
    }

    #[test]
    fn one_slow_pass_does_not_end_the_guesses() {
        let mut purse = Purse::new();
        purse.guessed(-7.0);
        assert!(purse.allows_guesses());
        assert_eq!(purse.held(), LOAN - MOST_LOST);
    }

    #[test]
    fn gains_of_long_ago_do_not_pay_for_losses_of_now() {
        let mut purse = Purse::new();
        (0..100).for_each(|_| purse.guessed(1.0));
        purse.guessed(-1.0);
        assert!(purse.allows_guesses());
        purse.guessed(-1.0);
        assert!(!purse.allows_guesses());
    }
}
