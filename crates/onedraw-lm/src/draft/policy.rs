//! How much to guess: as much as pays, given what passes cost and how often guesses are accepted.
//!
//! ```text
//! rate  = tokens per second at present: of plain passes, or of the last passes with guesses if that is more
//! worth = the product of the chances on the path to a guess: the tokens that it is expected to gain
//! in rounds, expand the worthiest guess of each text (let the drafter guess after it)
//!     for as many texts as maximise: the worth of what they add
//!         − rate · (time of the round + time of as many more positions in the pass)
//! put the worthiest guesses of all texts into the pass
//!     as many as maximise: sum of their worths − rate · time of their positions
//!     (copied ones only if that is more than a tenth of a token)
//! gain  = tokens that the pass was expected to give − plain passes that its time is worth
//! rest from guessing
//!     while the purse is empty, which gains above a twentieth fill, and smaller gains and losses empty
//! ```
//!
//! A gain counts the tokens that were expected, corrected by how expectations held so far, rather than those that were
//! accepted, because luck would empty a [purse](Purse) that is small enough to lose. In the first passes, and now and then
//! after that, nothing is guessed: they tell what a plain pass takes now.
//!
//! None of the constants here changes a token in `exact` mode, the only mode that uses the policy.

use std::time::Duration;

use crate::draft::chance::Chances;
use crate::draft::cost::PassCosts;
use crate::draft::planned::{Planned, Round};
use crate::draft::purse::Purse;
use crate::draft::recent::{INTERRUPTED, Recent};

/// How many plain passes are made before the first guess. A process that has just begun finds its weights far from the
/// processor: the first two took 1.9 and 1.3 times as long as those that followed.
const FIRST_PLAIN_PASSES: usize = 4;

/// How many plain passes are made one after the other now and then: the first finds weights far from the processor and
/// other threads asleep, the second tells what a plain pass takes.
const PLAIN_PASSES: usize = 2;

/// How many passes with guesses are made before the next plain ones: few at first, because a processor that begins to
/// work becomes faster, and twice as many each time. At the end the plain passes take back one part in thirty where
/// guesses double the speed.
const FIRST_PASSES_BETWEEN: usize = 4;
const MOST_PASSES_BETWEEN: usize = 32;

/// What a pass with guesses still counts after each later one: some thirty are remembered.
const DECAY: f64 = 0.97;

/// How many passes that gain nothing, and as many tokens that were expected and accepted, stand before the first that
/// were measured, so that a few say little.
const WEIGHT_OF_FIRST_RATE: f64 = 12.0;
const WEIGHT_OF_EXPECTED: f64 = 10.0;

/// The time of a round that is not the first of its pass, as a share of the first one's, until one was
/// measured: the first reads more than one token and finds its weights far from the processor. A drafter of
/// 0.6 million parameters took 48 µs for one token and 68 µs for two
/// (bench/results/2026-11-16-speculation.md).
const FIRST_SHARE_OF_LATER_ROUNDS: f64 = 0.6;

/// Over how many positions the cost of one more is averaged. The cost goes up in steps, because tiles of
/// products take up to four positions (1.00, 1.02, 1.17, 1.36, 1.70 in the table): the next step alone says
/// too little.
const POSITIONS_AVERAGED: usize = 3;

/// The tokens that the copied guesses of a pass must be expected to gain. Whether to copy is decided at every pass, so
/// guesses whose chance is overestimated are chosen too often: without a margin, texts at `creative` were 2 % slower
/// with them than without (bench/results/2026-11-19-speculation.md). After a round of a drafter there is no margin:
/// its time is spent already.
const LEAST_GAIN_OF_COPIES: f64 = 0.1;

/// What is known of costs and chances, and what follows from it.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    /// Passes without guesses that follow one another.
    plain: PassCosts,
    /// Passes of steps in which somebody guessed. The guessing leaves the target's threads and weights behind, so they
    /// take longer than plain ones by more than their positions.
    drafted: PassCosts,
    pub chances: Chances,
    pub purse: Purse,
    /// The drafter's first round of a pass, and the others, by their numbers of texts.
    first_rounds: PassCosts,
    later_rounds: PassCosts,
    /// One draw.
    draw: Recent,
    /// Tokens of the last passes with guesses, as expected, and the plain passes that could have been made in the same
    /// time.
    rate: Ratio,
    /// Of the last guesses, how many were accepted and how many were expected to be.
    held: Ratio,
    /// Whether the last pass was a plain one.
    is_steady: bool,
    /// Plain passes until guesses may go on, and passes with guesses until the next plain ones.
    plain_to_make: usize,
    until_plain: usize,
    /// How many passes with guesses lie between plain ones now.
    between: usize,
}

/// Two sums of the same passes; older ones count less.
#[derive(Clone, Copy, Debug)]
struct Ratio(f64, f64);

impl Ratio {
    /// As if so much had been counted, and the ratio were 1.
    fn one(weight: f64) -> Self {
        Self(weight, weight)
    }

    fn learn(&mut self, above: f64, below: f64) {
        *self = Self(self.0 * DECAY + above, self.1 * DECAY + below);
    }

    fn value(&self) -> f64 {
        self.0 / self.1
    }
}

/// What a pass gained, and what it took.
#[derive(Clone, Debug)]
pub(crate) struct PassResult {
    /// Tokens of all texts.
    pub tokens: usize,
    pub texts: usize,
    /// From the first round of the drafter to the last draw.
    pub time: Duration,
    /// The part of it that the draws took.
    pub draws: Duration,
    /// Positions without guesses.
    pub plain: usize,
    pub planned: Planned,
}

impl Policy {
    pub(super) fn new() -> Self {
        Self {
            plain: PassCosts::default(),
            drafted: PassCosts::default(),
            chances: Chances::new(),
            purse: Purse::new(),
            first_rounds: PassCosts::default(),
            later_rounds: PassCosts::default(),
            draw: Recent::default(),
            rate: Ratio::one(WEIGHT_OF_FIRST_RATE),
            held: Ratio::one(WEIGHT_OF_EXPECTED),
            is_steady: false,
            plain_to_make: FIRST_PLAIN_PASSES,
            until_plain: FIRST_PASSES_BETWEEN,
            between: FIRST_PASSES_BETWEEN,
        }
    }

    /// Learns how long a pass of so many positions took, in a step in which somebody guessed or nobody did.
    pub(super) fn learn_time(&mut self, positions: usize, was_drafted: bool, time: Duration) {
        if was_drafted {
            self.drafted.learn(positions, time);
        } else if self.is_steady {
            self.plain.learn(positions, time);
        }
    }

    /// Seconds of a pass of so many positions in a step in which somebody guesses.
    fn cost(&self, positions: usize) -> f64 {
        let costs = if self.drafted.is_unknown() { &self.plain } else { &self.drafted };
        costs.of(positions)
    }

    /// Learns how long the drafter's rounds took.
    pub(super) fn learn_rounds(&mut self, rounds: &[Round]) {
        let Some((first, later)) = rounds.split_first() else { return };
        self.first_rounds.learn(first.texts, first.time);
        later.iter().for_each(|round| self.later_rounds.learn(round.texts, round.time));
    }

    /// Seconds of a round for so many texts that is not the first of its pass, where that is the first of these. It reads
    /// less than a first one: where the times say that it takes longer, it was interrupted, and if nobody tried another,
    /// nobody would find out.
    fn later_round(&self, texts: usize, rounds: &[Round]) -> f64 {
        if !self.later_rounds.is_unknown() {
            return self.later_rounds.of(texts).min(self.first_rounds.of(texts));
        }
        let mut first = self.first_rounds.clone();
        rounds.iter().take(1).for_each(|round| first.learn(round.texts, round.time));
        FIRST_SHARE_OF_LATER_ROUNDS * first.of(texts)
    }

    /// The tokens that a second is worth where the pass has `plain` positions without guesses: what the last
    /// passes with guesses gained, or what plain ones do, whichever is more.
    fn rate(&self, plain: usize) -> f64 {
        self.rate.value().max(1.0) * plain as f64 / self.plain.of(plain).max(1e-12)
    }

    /// Whether the next pass is to have guesses.
    pub(super) fn is_drafting(&self) -> bool {
        self.plain_to_make == 0 && self.purse.allows_guesses()
    }

    /// How many of these guesses, of one text each and the worthiest first, to expand in one more round after these,
    /// where the pass has `positions` so far, and `plain` without guesses.
    pub(super) fn expand(&self, worths: &[f64], rounds: &[Round], plain: usize, positions: usize) -> usize {
        let chance = self.chances.of_any_winner();
        let time = |texts: usize| {
            let averaged = texts.max(POSITIONS_AVERAGED);
            let more = self.cost(positions + averaged) - self.cost(positions);
            self.later_round(texts, rounds) + more * texts as f64 / averaged as f64
        };
        self.most_gained(worths.iter().map(|worth| worth * chance), plain, 0.0, time)
    }

    /// How many of these guesses, the worthiest first, to put into a pass that has `plain` positions without any, after
    /// these rounds. Where there was none, as with copied guesses, a pass without guesses is a plain one.
    pub(super) fn choose(&self, worths: &[f64], rounds: &[Round], plain: usize) -> usize {
        let without = if rounds.is_empty() { self.plain.of(plain) } else { self.cost(plain) };
        let time = |guesses: usize| self.cost(plain + guesses) - without;
        let least = if rounds.is_empty() { LEAST_GAIN_OF_COPIES } else { 0.0 };
        self.most_gained(worths.iter().copied(), plain, least, time)
    }

    /// How many of these worths to take so that, less the time for so many, they gain the most; none if that is no more
    /// than `least`.
    fn most_gained(
        &self,
        worths: impl Iterator<Item = f64>,
        plain: usize,
        least: f64,
        time: impl Fn(usize) -> f64,
    ) -> usize {
        let rate = self.rate(plain);
        let (mut best, mut chosen, mut worth_so_far) = (least, 0, 0.0);
        for (count, worth) in (1..).zip(worths) {
            worth_so_far += worth;
            let gain = worth_so_far - rate * time(count);
            if gain > best {
                (best, chosen) = (gain, count);
            }
        }
        chosen
    }

    /// Learns what a pass gained.
    pub(super) fn learn_pass(&mut self, pass: &PassResult) {
        let PassResult { tokens, texts, time, draws, ref planned, .. } = *pass;
        self.draw.learn(draws / tokens.max(1) as u32);
        self.is_steady = planned.is_plain();
        if self.is_steady {
            self.plain_to_make = self.plain_to_make.saturating_sub(1);
            self.purse.rested();
            return;
        }
        self.until_plain -= 1;
        if self.until_plain == 0 {
            self.plain_to_make = PLAIN_PASSES;
            self.between = (2 * self.between).min(MOST_PASSES_BETWEEN);
            self.until_plain = self.between;
        }
        self.held.learn(tokens.saturating_sub(texts) as f64, planned.worth);
        let gained = 1.0 + self.held.value() * planned.worth / texts as f64;
        let passes = time.as_secs_f64().min(INTERRUPTED * self.expected_time(pass)) / self.plain_time(pass);
        self.rate.learn(gained, passes);
        self.purse.guessed(gained - passes);
    }

    /// Seconds of a pass with guesses that nothing interrupts.
    fn expected_time(&self, pass: &PassResult) -> f64 {
        let rounds = &pass.planned.rounds;
        let first = rounds.first().map_or(0.0, |round| self.first_rounds.of(round.texts));
        let later: f64 = rounds.iter().skip(1).map(|round| self.later_round(round.texts, rounds)).sum();
        let draws = pass.tokens as f64 * self.draw.shortest().unwrap_or(0.0);
        self.cost(pass.plain + pass.planned.guesses) + first + later + draws
    }

    /// Seconds of a pass of the same texts without guesses, as it usually is.
    pub(super) fn plain_time(&self, pass: &PassResult) -> f64 {
        let draws = pass.texts as f64 * self.draw.usual().unwrap_or(0.0);
        (self.plain.usual(pass.plain) + draws).max(1e-12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::chance::Class;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Passes of 1, 2, 4 and 8 positions take 1, 1.2, 1.6 and 3.2 ms, and the first plain ones were made.
    fn policy() -> Policy {
        let mut policy = Policy::new();
        (0..FIRST_PLAIN_PASSES).for_each(|_| policy.learn_pass(&plain_pass()));
        for (positions, time) in [(1, 10), (2, 12), (4, 16), (8, 32)] {
            policy.learn_time(positions, false, time * MILLISECOND / 10);
        }
        policy
    }

    fn plain_pass() -> PassResult {
        PassResult {
            tokens: 1,
            texts: 1,
            time: MILLISECOND,
            draws: Duration::ZERO,
            plain: 1,
            planned: Planned::default(),
        }
    }

    /// A round of the drafter for one text.
    fn round(time: Duration) -> Round {
        Round { texts: 1, time }
    }

    /// A pass of one text with one round and one guess, of this chance.
    fn pass(tokens: usize, worth: f64, time: Duration) -> PassResult {
        let planned = Planned { rounds: vec![round(MILLISECOND / 2)], guesses: 1, worth };
        PassResult { tokens, time, planned, ..plain_pass() }
    }

    #[test]
    fn the_first_passes_are_plain() {
        let mut policy = Policy::new();
        for _ in 0..FIRST_PLAIN_PASSES {
            assert!(!policy.is_drafting());
            policy.learn_pass(&plain_pass());
        }
        assert!(policy.is_drafting());
    }

    #[test]
    fn a_pass_that_follows_guesses_is_not_taken_for_a_plain_one() {
        let mut policy = Policy::new();
        policy.learn_time(1, false, 9 * MILLISECOND);
        policy.learn_pass(&plain_pass());
        policy.learn_time(1, false, MILLISECOND);
        policy.learn_pass(&plain_pass());
        assert_eq!((policy.plain.of(1), policy.cost(1)), (1e-3, 1e-3));
        policy.learn_time(2, true, 2 * MILLISECOND);
        policy.learn_pass(&pass(1, 0.5, 2 * MILLISECOND));
        policy.learn_time(1, false, MILLISECOND / 2);
        assert_eq!((policy.plain.of(1), policy.cost(2)), (1e-3, 2e-3));
    }

    #[test]
    fn as_many_guesses_are_taken_as_gain_the_most() {
        // A token is worth 1 ms, so a second and a third position must gain 0.2 of one each.
        let policy = policy();
        assert_eq!(policy.choose(&[0.9, 0.6, 0.1], &[], 1), 2);
        assert_eq!(policy.choose(&[0.19, 0.18], &[], 1), 0);
        // From the fourth on more: one that does not pay stays out, unless the next makes up for it.
        assert_eq!(policy.choose(&[0.9, 0.9, 0.9, 0.25], &[], 1), 3);
        assert_eq!(policy.choose(&[0.9, 0.9, 0.9, 0.45], &[], 1), 4);
        // Where four texts are written side by side, a position delays them all: 1.6 ms gain four tokens, and
        // one more position costs more than one of them.
        assert_eq!(policy.choose(&[0.5], &[], 4), 0);
        assert_eq!(policy.choose(&[], &[], 1), 0);
    }

    #[test]
    fn copied_guesses_are_measured_beside_a_plain_pass() {
        // A pass of two positions took 1.3 ms when it had a guess, one without guesses takes 1 ms. A tenth of a token is
        // the least gain.
        let mut policy = policy();
        policy.learn_time(2, true, 13 * MILLISECOND / 10);
        assert_eq!((policy.choose(&[0.39], &[], 1), policy.choose(&[0.41], &[], 1)), (0, 1));
        // After a round the pass takes about as long without the guess.
        assert_eq!(policy.choose(&[0.25], &[round(MILLISECOND)], 1), 1);
    }

    #[test]
    fn guesses_are_expanded_where_that_pays() {
        let mut policy = policy();
        // One more position costs about 0.2 ms, a round 0.6 of the first, and the next guess has a chance of some two
        // thirds.
        assert_eq!(policy.expand(&[0.9], &[round(MILLISECOND / 2)], 1, 1), 1);
        assert_eq!(policy.expand(&[0.9], &[round(MILLISECOND)], 1, 1), 0);
        // The first of this pass was interrupted, or read a whole text.
        policy.learn_rounds(&[round(MILLISECOND / 2)]);
        assert_eq!(policy.expand(&[0.9], &[round(100 * MILLISECOND)], 1, 1), 1);
        policy.learn_rounds(&[round(MILLISECOND / 2), round(MILLISECOND / 2), round(MILLISECOND / 2)]);
        assert_eq!(policy.expand(&[0.9], &[round(MILLISECOND / 2)], 1, 1), 0);
        assert_eq!(policy.expand(&[], &[], 1, 1), 0);
    }

    #[test]
    fn a_later_round_that_was_interrupted_is_tried_again() {
        let mut policy = policy();
        policy.learn_rounds(&[round(MILLISECOND / 4), round(9 * MILLISECOND)]);
        assert_eq!(policy.expand(&[0.9], &[round(MILLISECOND / 4)], 1, 1), 1);
    }

    #[test]
    fn a_round_that_does_not_pay_for_one_text_may_pay_for_several() {
        // A position costs 0.02 ms.
        let mut policy = Policy::new();
        (0..FIRST_PLAIN_PASSES).for_each(|_| policy.learn_pass(&plain_pass()));
        for (positions, time) in [(1, 100), (2, 102), (4, 106), (8, 114)] {
            policy.learn_time(positions, false, time * MILLISECOND / 100);
        }
        for (texts, time) in [(1, 40), (2, 42), (4, 48)] {
            let time = time * MILLISECOND / 100;
            policy.learn_rounds(&[Round { texts, time }, Round { texts, time }]);
        }
        // Two texts in 1.02 ms: a token is worth half of one. A guess, expected to gain 0.6 tokens, would take 0.42 ms; two
        // take 0.46.
        assert_eq!(policy.expand(&[0.9], &[], 2, 2), 0);
        assert_eq!(policy.expand(&[0.9, 0.9, 0.05], &[], 2, 2), 2);
    }

    #[test]
    fn a_drafter_that_does_not_pay_is_left_within_a_few_passes_and_tried_again_seldom() {
        let mut policy = policy();
        policy.learn_rounds(&[round(MILLISECOND / 2)]);
        // All guesses are wrong, and a pass with one takes as long as 1.7 plain ones. What is expected of them falls with
        // each verdict.
        let class = Class::copied(3, 0);
        let passes: Vec<bool> = (0..1000)
            .map(|_| {
                let drafts = policy.is_drafting();
                let expected = policy.chances.of(class);
                policy.learn_pass(&match drafts {
                    true => pass(1, expected, 17 * MILLISECOND / 10),
                    false => plain_pass(),
                });
                if drafts {
                    policy.chances.learn(class, false);
                }
                drafts
            })
            .collect();
        let guessing = |range: std::ops::Range<usize>| passes[range].iter().filter(|&&drafts| drafts).count();
        assert_eq!((guessing(0..20), guessing(20..100), guessing(100..1000)), (6, 0, 8));
        assert_eq!(policy.purse.rests(), 5);
    }

    #[test]
    fn guesses_that_pay_go_on_and_a_plain_pass_now_and_then_tells_what_it_takes() {
        let mut policy = policy();
        policy.learn_rounds(&[round(MILLISECOND / 2)]);
        let plain = (0..310).filter(|_| {
            let drafts = policy.is_drafting();
            policy.learn_pass(&match drafts {
                true => pass(2, 0.9, 17 * MILLISECOND / 10),
                false => plain_pass(),
            });
            !drafts
        });
        // Two after 4, 8, 16 and then each 32.
        assert_eq!(plain.count(), 22);
        // Two tokens in the time of 1.7 plain passes.
        assert!(policy.rate(1) > 1.1 / MILLISECOND.as_secs_f64(), "{}", policy.rate(1));
    }

    #[test]
    fn draws_count_on_both_sides() {
        // A draw of 1 ms: two tokens in 3.5 ms are better than two plain passes, of 2 ms each.
        let mut policy = policy();
        policy.draw = Recent::default();
        policy.learn_pass(&PassResult { draws: MILLISECOND, time: 2 * MILLISECOND, ..plain_pass() });
        policy.learn_rounds(&[round(MILLISECOND / 10)]);
        for _ in 0..FIRST_PASSES_BETWEEN {
            assert!(policy.is_drafting());
            policy.learn_pass(&PassResult { draws: 2 * MILLISECOND, ..pass(2, 1.0, 35 * MILLISECOND / 10) });
        }
        assert_eq!(policy.purse.rests(), 0);
    }
}
