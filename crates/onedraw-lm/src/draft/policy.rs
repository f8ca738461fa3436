//! How much to guess: as much as pays, given what passes cost and how often guesses are accepted.
//!
//! ```text
//! rate  = tokens per second at present: of plain passes, or of the last passes with guesses if that is more
//! worth = the product of the chances on the path to a guess: the tokens that it is expected to gain
//! expand the worthiest guess (let the drafter guess after it)
//!     while the worth of what it adds > rate · (time of an expansion + time of one more position in the pass)
//! put the worthiest guesses into the pass
//!     as many as maximise: sum of their worths − rate · time of their positions
//! rest from guessing for a while
//!     if passes with guesses were slower than plain ones would have been
//! ```
//!
//! None of the constants here changes a token in `exact` mode, the only mode that uses the policy. Those
//! without another source were chosen by hand; the ratios of bench/results/2026-11-16-speculation.md were
//! measured with them.

use std::time::Duration;

use crate::draft::chance::Chances;
use crate::draft::cost::{Estimate, INTERRUPTED, LEARNING_RATE, PassCosts};

/// How many passes are made without guesses after guesses did not pay for the first time; each time after
/// that twice as many. About as many as a trial, so that at most half of a short text is spent on trials.
const SHORTEST_REST: u32 = 16;

/// How many at most: trials are then one pass in eighty, and a text that becomes easy to guess is still
/// noticed.
const LONGEST_REST: u32 = 1024;

/// How many passes with guesses are made before they are compared with plain ones.
const TRIAL: u32 = 12;

/// After how many passes with guesses that paid the next rest is the shortest again.
const TRIALS_THAT_PAY: u32 = 4 * TRIAL;

/// What a pass with guesses still counts after each later one: some thirty are remembered.
const DECAY: f64 = 0.97;

/// The time of an expansion that is not the first of its text, as a share of the first one's, until one was
/// measured: the first reads more than one token and finds its weights far from the processor. A drafter of
/// 0.6 million parameters took 48 µs for one token and 68 µs for two
/// (bench/results/2026-11-16-speculation.md).
const FIRST_SHARE_OF_LATER_EXPANSIONS: f64 = 0.5;

/// Over how many positions the cost of one more is averaged. The cost goes up in steps, because tiles of
/// products take up to four positions (1.00, 1.02, 1.17, 1.36, 1.70 in the table): the next step alone says
/// too little.
const POSITIONS_AVERAGED: usize = 3;

/// What is known of costs and chances, and what follows from it.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    pub costs: PassCosts,
    pub chances: Chances,
    /// The first expansion of a text in a pass.
    first_expansion: Estimate,
    /// The time of one more, as a share of the first's, which follows the pace of the machine.
    later_share: Option<f64>,
    /// One draw.
    draw: Estimate,
    /// Tokens of the last passes with guesses, and the plain passes that could have been made in the same
    /// time.
    recent: (f64, f64),
    /// How many passes with guesses there were since the last rest.
    trials: u32,
    /// How many passes are still to be made without guesses, and how many it will be the next time.
    rest: u32,
    next_rest: u32,
}

/// What a pass gained, and what it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassResult {
    /// Tokens of all texts.
    pub tokens: usize,
    pub texts: usize,
    /// From the first expansion to the last draw.
    pub time: Duration,
    /// The part of it that the draws took.
    pub draws: Duration,
    pub expansions: usize,
    /// Positions without guesses, and with them.
    pub plain: usize,
    pub positions: usize,
}

impl Policy {
    pub(super) fn new() -> Self {
        Self {
            costs: PassCosts::default(),
            chances: Chances::new(),
            first_expansion: Estimate::default(),
            later_share: None,
            draw: Estimate::default(),
            recent: (0.0, 0.0),
            trials: 0,
            rest: 0,
            next_rest: SHORTEST_REST,
        }
    }

    /// Learns how long the first of some expansions took, and the others together.
    pub(super) fn learn_expansions(&mut self, expansions: usize, (first, others): (Duration, Duration)) {
        let first = first.as_secs_f64();
        if expansions > 0 {
            self.first_expansion.learn(first);
        }
        // A first expansion that read a whole text, or was interrupted, is no measure for the others.
        let is_usual =
            self.first_expansion.measured > 1 && first < INTERRUPTED * self.first_expansion.seconds;
        if expansions > 1 && is_usual {
            let share = (others.as_secs_f64() / (expansions - 1) as f64 / first.max(1e-9)).min(1.0);
            let learned = |before: f64| before + LEARNING_RATE * (share - before);
            self.later_share = Some(self.later_share.map_or(share, learned));
        }
    }

    /// Seconds of an expansion that is not the first of its text.
    fn later_expansion(&self) -> f64 {
        self.later_share.unwrap_or(FIRST_SHARE_OF_LATER_EXPANSIONS) * self.first_expansion.seconds
    }

    /// The tokens that a second is worth where the pass has `plain` positions without guesses: what the last
    /// passes with guesses gained, or what plain ones do, whichever is more.
    fn rate(&self, plain: usize) -> f64 {
        let (tokens, passes) = self.recent;
        let gain = if self.trials < TRIAL { 1.0 } else { (tokens / passes).max(1.0) };
        gain * plain as f64 / self.costs.of(plain).max(1e-12)
    }

    /// Whether the next pass is to have guesses. Counts the rest down.
    pub(super) fn is_drafting(&mut self) -> bool {
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        true
    }

    /// Whether it pays to expand a guess of this worth, where the pass has `positions` so far, and without
    /// guesses `plain`.
    pub(super) fn is_worth_expanding(&self, worth: f64, plain: usize, positions: usize) -> bool {
        let more = self.costs.of(positions + POSITIONS_AVERAGED) - self.costs.of(positions);
        let position = more / POSITIONS_AVERAGED as f64;
        worth * self.chances.of_any_winner() > self.rate(plain) * (self.later_expansion() + position)
    }

    /// How many of these guesses, the worthiest first, to put into a pass that has `positions` beside them,
    /// and without any guess `plain`.
    pub(super) fn choose(&self, worths: &[f64], plain: usize, positions: usize) -> usize {
        let rate = self.rate(plain);
        let (mut best, mut chosen, mut worth_so_far) = (0.0, 0, 0.0);
        for (count, worth) in (1..).zip(worths) {
            worth_so_far += worth;
            let gain = worth_so_far - rate * (self.costs.of(positions + count) - self.costs.of(positions));
            if gain > best {
                (best, chosen) = (gain, count);
            }
        }
        chosen
    }

    /// Learns what a pass gained, and decides whether to rest.
    pub(super) fn learn_pass(&mut self, pass: &PassResult) {
        let PassResult { tokens, texts, time, draws, expansions, plain, positions } = *pass;
        self.draw.learn(draws.as_secs_f64() / tokens.max(1) as f64);
        if expansions + positions == plain {
            return;
        }
        let expanding = match expansions {
            0 => 0.0,
            _ => self.first_expansion.seconds + (expansions - 1) as f64 * self.later_expansion(),
        };
        let expected = self.costs.of(positions) + expanding + tokens as f64 * self.draw.seconds;
        if time.as_secs_f64() > INTERRUPTED * expected {
            // It was interrupted, or a drafter read a whole text: that says nothing about the next pass.
            return;
        }
        let plain_pass = self.costs.of(plain) + texts as f64 * self.draw.seconds;
        let passes = time.as_secs_f64() / plain_pass.max(1e-12);
        self.recent = (self.recent.0 * DECAY + tokens as f64 / texts as f64, self.recent.1 * DECAY + passes);
        self.trials += 1;
        let (tokens, passes) = self.recent;
        if self.trials >= TRIAL && tokens < passes {
            self.rest = self.next_rest;
            self.next_rest = (2 * self.next_rest).min(LONGEST_REST);
            (self.recent, self.trials) = ((0.0, 0.0), 0);
        } else if self.trials >= TRIALS_THAT_PAY {
            self.next_rest = SHORTEST_REST;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Passes of 1, 2, 4 and 8 positions take 1, 1.2, 1.6 and 3.2 ms.
    fn policy() -> Policy {
        let mut policy = Policy::new();
        policy.costs.set(
            &[(1, 10), (2, 12), (4, 16), (8, 32)]
                .map(|(positions, time)| (positions, time * MILLISECOND / 10)),
        );
        policy
    }

    /// A pass of one text with one expansion and one guess.
    fn pass(tokens: usize, time: Duration) -> PassResult {
        PassResult { tokens, texts: 1, time, draws: Duration::ZERO, expansions: 1, plain: 1, positions: 2 }
    }

    #[test]
    fn a_first_expansion_that_reads_a_text_makes_no_other_cheap() {
        let mut policy = policy();
        policy.learn_expansions(2, (100 * MILLISECOND, MILLISECOND / 2));
        (0..4).for_each(|_| policy.learn_expansions(2, (MILLISECOND, MILLISECOND / 2)));
        policy.learn_expansions(3, (100 * MILLISECOND, MILLISECOND));
        let later = policy.later_expansion() * 1e3;
        assert!((later - 0.5).abs() < 0.1, "{later}");
    }

    #[test]
    fn as_many_guesses_are_taken_as_gain_the_most() {
        // A token is worth 1 ms, so a second and a third position must gain 0.2 of one each.
        let policy = policy();
        assert_eq!(policy.choose(&[0.9, 0.6, 0.1], 1, 1), 2);
        assert_eq!(policy.choose(&[0.19, 0.18], 1, 1), 0);
        // From the fourth on 0.4: one that does not pay stays out, unless the next makes up for it.
        assert_eq!(policy.choose(&[0.9, 0.9, 0.9, 0.35], 1, 1), 3);
        assert_eq!(policy.choose(&[0.9, 0.9, 0.9, 0.45], 1, 1), 4);
        // Where four texts are written side by side, a position delays them all: 1.6 ms gain four tokens, and
        // one more position costs one of them.
        assert_eq!(policy.choose(&[0.95], 4, 4), 0);
        assert_eq!(policy.choose(&[], 1, 1), 0);
    }

    #[test]
    fn it_rests_where_guesses_do_not_pay_and_tries_again() {
        let mut policy = policy();
        let passes_until_rest = |policy: &mut Policy| {
            let trials = (0..100).take_while(|_| {
                let drafts = policy.is_drafting();
                if drafts {
                    policy.learn_expansions(1, (MILLISECOND / 2, Duration::ZERO));
                    policy.learn_pass(&pass(1, 17 * MILLISECOND / 10));
                }
                drafts
            });
            trials.count()
        };
        for rest in [16, 32, 64] {
            assert_eq!(passes_until_rest(&mut policy), TRIAL as usize);
            // The first pass of the rest was asked for already.
            assert_eq!((1..rest).filter(|_| policy.is_drafting()).count(), 0);
        }
        // Two tokens in the time of 1.7 plain passes pay.
        for _ in 0..200 {
            assert!(policy.is_drafting());
            policy.learn_pass(&pass(2, 17 * MILLISECOND / 10));
        }
        assert!(policy.rate(1) > 1.1 / MILLISECOND.as_secs_f64(), "{}", policy.rate(1));
    }

    #[test]
    fn draws_count_on_both_sides() {
        // A draw of 1 ms: two tokens in 3.5 ms are better than two plain passes, of 2 ms each.
        let mut policy = policy();
        policy.learn_expansions(1, (MILLISECOND / 10, Duration::ZERO));
        for _ in 0..100 {
            assert!(policy.is_drafting());
            policy.learn_pass(&PassResult { draws: 2 * MILLISECOND, ..pass(2, 35 * MILLISECOND / 10) });
        }
    }
}
