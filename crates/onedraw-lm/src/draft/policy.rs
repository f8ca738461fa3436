//! How much to guess: as much as pays, by what passes have cost and how often guesses have held.
//!
//! A pass of n positions takes `cost(n)`, and a guess with the chance `v` of being on the text's way is worth `v` tokens. A guess is made where that is more
//! than what its time is worth at the present rate of tokens.

use std::time::Duration;

use onedraw::Runner;

/// How many guesses there are after one place, at most.
pub(super) const WIDTH: usize = 4;

/// Ranges of the distance between two runners, half a unit each; the last is open.
const RANGES: usize = 8;

/// Passes without a guess after which it is tried again, at first and at most.
const REST: (u32, u32) = (16, 1024);

/// Passes with guesses after which it is asked whether they pay.
const TRIAL: u32 = 12;

/// What the chance of a guess is learned by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Which runner of a race it is, and by how far.
    Runner { rank: usize, range: usize },
    /// A token that followed the same tokens before, so many of them, and how far from there.
    Copied { length: usize, depth: usize },
}

impl Class {
    /// Of one of several runners: the first by its distance to the second, the others by theirs to the first.
    pub(super) fn runner(runners: &[Runner], rank: usize) -> Self {
        let behind = runners.get(rank.max(1)).map_or(f64::INFINITY, |runner| runner.behind);
        let range = (behind * 2.0).clamp(0.0, (RANGES - 1) as f64) as usize;
        Self::Runner { rank: rank.min(WIDTH - 1), range }
    }

    pub(super) fn copied(length: usize, depth: usize) -> Self {
        Self::Copied { length: length.clamp(1, WIDTH) - 1, depth: depth.min(RANGES - 1) }
    }
}

/// How often guesses of a class held.
#[derive(Clone, Copy, Debug)]
struct Chance {
    held: f64,
    judged: f64,
}

impl Chance {
    fn get(&self) -> f64 {
        self.held / self.judged
    }

    fn learn(&mut self, holds: bool) {
        // Older verdicts count less and less.
        const MEMORY: f64 = 0.99;
        self.held = self.held * MEMORY + f64::from(u8::from(holds));
        self.judged = self.judged * MEMORY + 1.0;
    }
}

/// What something takes, as it was seen.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    /// In seconds.
    time: f64,
    measured: usize,
}

impl Time {
    fn learn(&mut self, time: f64) {
        self.measured += 1;
        // The first look of a text reads all of it. Later ones that take long were interrupted.
        self.time = match self.measured {
            1 => time,
            2..=4 => time.min(self.time),
            _ => self.time + 0.1 * (time.min(2.0 * self.time) - self.time),
        };
    }
}

/// What is known of costs and chances.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    /// Positions of a pass and its seconds, for some numbers of positions, ascending: between them are lines. Empty until they are measured.
    costs: Vec<(usize, f64)>,
    /// The first look of a text in a pass.
    first_look: Time,
    /// One more, the logits after a guess, as a share of it: the machine has faster times and slower ones.
    share: Option<f64>,
    /// A draw.
    draw: Time,
    runners: [[Chance; RANGES]; WIDTH],
    copied: [[Chance; RANGES]; WIDTH],
    /// Tokens of the last passes with guesses, and the plain passes that could have been made in their time.
    recent: (f64, f64),
    trials: u32,
    /// Passes to make without a guess, and how many it will be the next time.
    rest: u32,
    next_rest: u32,
}

impl Policy {
    pub(super) fn new() -> Self {
        // What small drafters do; a few verdicts count more.
        const FIRST: [f64; RANGES] = [0.4, 0.55, 0.65, 0.7, 0.77, 0.83, 0.88, 0.95];
        const OTHERS: [f64; RANGES] = [0.3, 0.2, 0.14, 0.1, 0.07, 0.05, 0.03, 0.01];
        const WEIGHT: f64 = 4.0;
        let chance = |chance: f64| Chance { held: WEIGHT * chance, judged: WEIGHT };
        let runners = std::array::from_fn(|rank| match rank {
            0 => FIRST.map(chance),
            rank => OTHERS.map(|held| chance(held / rank as f64)),
        });
        // The longer the tokens that are the same, the better.
        let copied = [0.3, 0.5, 0.65, 0.75].map(|held| [chance(held); RANGES]);
        Self {
            costs: Vec::new(),
            first_look: Time::default(),
            share: None,
            draw: Time::default(),
            runners,
            copied,
            recent: (0.0, 0.0),
            trials: 0,
            rest: 0,
            next_rest: REST.0,
        }
    }

    /// Whether the cost of passes is still to be measured.
    pub(super) fn is_new(&self) -> bool {
        self.costs.is_empty()
    }

    /// Takes what passes of at least two numbers of positions cost, in ascending order.
    pub(super) fn measured(&mut self, costs: &[(usize, Duration)]) {
        self.costs = costs.iter().map(|&(positions, time)| (positions, time.as_secs_f64())).collect();
        self.order();
    }

    /// More positions never take less time: what says so was interrupted.
    fn order(&mut self) {
        for i in (1..self.costs.len()).rev() {
            self.costs[i - 1].1 = self.costs[i - 1].1.min(self.costs[i].1);
        }
    }

    /// The two measured numbers of positions around this one, the first by its place, and how much the second counts: beyond the last, more than all.
    fn between(&self, positions: usize) -> (usize, f64) {
        let upper = self.costs.iter().position(|&(measured, _)| measured >= positions);
        let upper = upper.unwrap_or(self.costs.len() - 1).max(1);
        let (low, high) = (self.costs[upper - 1].0, self.costs[upper].0);
        (upper - 1, (positions as f64 - low as f64) / (high - low) as f64)
    }

    /// Seconds of a pass.
    pub(super) fn cost(&self, positions: usize) -> f64 {
        if self.is_new() {
            return 0.0;
        }
        let (place, share) = self.between(positions);
        let (low, high) = (self.costs[place].1, self.costs[place + 1].1);
        low + share * (high - low)
    }

    /// A pass took so long.
    pub(super) fn passed(&mut self, positions: usize, time: Duration) {
        /// How fast all costs follow, for the machine has faster times and slower ones; and how fast those around the pass do besides.
        const ALL: f64 = 0.1;
        const AROUND: f64 = 0.05;
        let cost = self.cost(positions);
        if cost <= 0.0 {
            return;
        }
        // A pass that was interrupted says nothing of the next.
        let change = (time.as_secs_f64() / cost).clamp(0.5, 2.0) - 1.0;
        let (place, share) = self.between(positions);
        for (i, (_, seconds)) in self.costs.iter_mut().enumerate() {
            let around = match i.checked_sub(place) {
                Some(0) => 1.0 - share,
                Some(1) => share,
                _ => 0.0,
            };
            *seconds *= 1.0 + change * (ALL + AROUND * around.clamp(0.0, 1.0));
        }
        self.order();
    }

    /// The first of so many looks took so long, and the others together so long.
    pub(super) fn looked(&mut self, looks: usize, (first, others): (Duration, Duration)) {
        if looks > 0 {
            self.first_look.learn(first.as_secs_f64());
        }
        // A first look that read a whole text, or was interrupted, is no measure for the others.
        let first = first.as_secs_f64();
        if looks > 1 && self.first_look.measured > 1 && first < 2.0 * self.first_look.time {
            let share = (others.as_secs_f64() / (looks - 1) as f64 / first.max(1e-9)).min(1.0);
            self.share = Some(self.share.map_or(share, |before| before + 0.1 * (share - before)));
        }
    }

    /// Seconds of a look that is not the first of its text.
    fn look(&self) -> f64 {
        // Until there was one: the first reads more than one token, and finds nothing in the caches.
        self.share.unwrap_or(0.5) * self.first_look.time
    }

    pub(super) fn chance(&self, class: Class) -> f64 {
        match class {
            Class::Runner { rank, range } => self.runners[rank][range].get(),
            Class::Copied { length, depth } => self.copied[length][depth].get(),
        }
    }

    /// A guess whose place the text came to held, or did not.
    pub(super) fn learn(&mut self, class: Class, holds: bool) {
        match class {
            Class::Runner { rank, range } => self.runners[rank][range].learn(holds),
            Class::Copied { length, depth } => self.copied[length][depth].learn(holds),
        }
    }

    /// Tokens that a second is worth, in a pass of so many positions without guesses: what passes with guesses gave of late, or what plain ones do,
    /// whichever is more.
    fn rate(&self, plain: usize) -> f64 {
        let (tokens, passes) = self.recent;
        let gain = if self.trials < TRIAL { 1.0 } else { (tokens / passes).max(1.0) };
        gain * plain as f64 / self.cost(plain).max(1e-12)
    }

    /// Whether this pass is to have guesses.
    pub(super) fn is_drafting(&mut self) -> bool {
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        true
    }

    /// Whether a look after a guess of this worth pays, where the pass has `positions`, and without guesses `plain`.
    pub(super) fn is_worth_a_look(&self, worth: f64, plain: usize, positions: usize) -> bool {
        let first = &self.runners[0];
        let usual = first.iter().map(|chance| chance.held).sum::<f64>()
            / first.iter().map(|chance| chance.judged).sum::<f64>();
        // The cost of a position goes up in steps: what several of them take together says more than the next step.
        let position = (self.cost(positions + 3) - self.cost(positions)) / 3.0;
        worth * usual > self.rate(plain) * (self.look() + position)
    }

    /// How many of these guesses, the worthiest first, to put into a pass that has `positions` beside them, and without any guess `plain`.
    pub(super) fn choose(&self, worths: &[f64], plain: usize, positions: usize) -> usize {
        let rate = self.rate(plain);
        let (mut best, mut taken, mut gain) = (0.0, 0, 0.0);
        for (count, worth) in (1..).zip(worths) {
            gain += worth;
            let total = gain - rate * (self.cost(positions + count) - self.cost(positions));
            if total > best {
                (best, taken) = (total, count);
            }
        }
        taken
    }

    /// A pass took so long, from the first of its looks to the last draw.
    pub(super) fn brought(&mut self, pass: &Brought) {
        const MEMORY: f64 = 0.97;
        let Brought { tokens, texts, time, draws, looks, plain, positions } = *pass;
        self.draw.learn(draws.as_secs_f64() / tokens.max(1) as f64);
        if looks + positions == plain {
            return;
        }
        let looking = if looks > 0 { self.first_look.time + (looks - 1) as f64 * self.look() } else { 0.0 };
        let usual = self.cost(positions) + looking + tokens as f64 * self.draw.time;
        if time.as_secs_f64() > 2.0 * usual {
            // It was interrupted, or a drafter read a whole text: that says nothing of the next.
            return;
        }
        let alone = self.cost(plain) + texts as f64 * self.draw.time;
        let passes = time.as_secs_f64() / alone.max(1e-12);
        self.recent =
            (self.recent.0 * MEMORY + tokens as f64 / texts as f64, self.recent.1 * MEMORY + passes);
        self.trials += 1;
        let (tokens, passes) = self.recent;
        if self.trials >= TRIAL && tokens < passes {
            self.rest = self.next_rest;
            self.next_rest = (2 * self.next_rest).min(REST.1);
            (self.recent, self.trials) = ((0.0, 0.0), 0);
        } else if self.trials >= 4 * TRIAL {
            self.next_rest = REST.0;
        }
    }
}

/// What a pass brought, and what it took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Brought {
    /// Of all texts.
    pub tokens: usize,
    pub texts: usize,
    /// From the first look to the last draw.
    pub time: Duration,
    /// Of it, the draws.
    pub draws: Duration,
    pub looks: usize,
    /// Positions without guesses, and with them.
    pub plain: usize,
    pub positions: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: Duration = Duration::from_millis(1);

    /// Passes of 1, 2, 4 and 8 positions take 1, 1.2, 1.6 and 3.2 ms.
    fn policy() -> Policy {
        let mut policy = Policy::new();
        policy.measured(
            &[(1, 10), (2, 12), (4, 16), (8, 32)]
                .map(|(positions, time)| (positions, time * MILLISECOND / 10)),
        );
        policy
    }

    /// A pass of one text with one look and one guess.
    fn pass(tokens: usize, time: Duration) -> Brought {
        Brought { tokens, texts: 1, time, draws: Duration::ZERO, looks: 1, plain: 1, positions: 2 }
    }

    #[test]
    fn costs_are_lines_between_what_was_measured() {
        let policy = policy();
        for (positions, cost) in [(1, 1.0), (2, 1.2), (3, 1.4), (6, 2.4), (8, 3.2), (16, 6.4), (20, 8.0)] {
            assert!(
                (policy.cost(positions) * 1e3 - cost).abs() < 1e-9,
                "{positions}: {}",
                policy.cost(positions)
            );
        }
    }

    #[test]
    fn costs_follow_what_passes_take_but_not_an_interruption() {
        let mut policy = policy();
        for _ in 0..100 {
            policy.passed(4, 2 * MILLISECOND);
        }
        assert!((policy.cost(4) * 1e3 - 2.0).abs() < 1e-3, "{}", policy.cost(4));
        // The machine has become slower, and passes of four positions have most of all.
        let relative = policy.cost(1) / policy.cost(4);
        assert!(relative > 0.55 && relative < 1.0 / 1.6, "{relative}");
        policy.passed(4, Duration::from_secs(1));
        assert!(policy.cost(4) * 1e3 < 2.31, "{}", policy.cost(4));
        // Nor is one that seems far too short believed: the line beyond what was measured falls by a tenth.
        let before = policy.cost(40);
        policy.passed(40, MILLISECOND);
        let fallen = policy.cost(40) / before;
        assert!(fallen > 0.85 && fallen < 0.95, "{fallen}");
    }

    #[test]
    fn a_first_look_that_reads_a_text_makes_no_other_look_cheap() {
        let mut policy = policy();
        policy.looked(2, (100 * MILLISECOND, MILLISECOND / 2));
        (0..4).for_each(|_| policy.looked(2, (MILLISECOND, MILLISECOND / 2)));
        policy.looked(3, (100 * MILLISECOND, MILLISECOND));
        let look = policy.look() * 1e3;
        assert!((look - 0.5).abs() < 0.1, "{look}");
    }

    #[test]
    fn more_positions_never_cost_less() {
        let mut policy = Policy::new();
        policy.measured(&[(1, 3), (2, 1), (4, 2)].map(|(positions, time)| (positions, time * MILLISECOND)));
        assert_eq!([1, 2, 4].map(|positions| policy.cost(positions) * 1e3), [1.0, 1.0, 2.0]);
    }

    #[test]
    fn as_many_guesses_are_taken_as_gain_the_most() {
        // A token is worth 1 ms, so a second and a third position must bring 0.2 of one each.
        let policy = policy();
        assert_eq!(policy.choose(&[0.9, 0.6, 0.1], 1, 1), 2);
        assert_eq!(policy.choose(&[0.19, 0.18], 1, 1), 0);
        // From the fourth on 0.4: one that does not pay stays out, unless the next makes up for it.
        assert_eq!(policy.choose(&[0.9, 0.9, 0.9, 0.35], 1, 1), 3);
        assert_eq!(policy.choose(&[0.9, 0.9, 0.9, 0.45], 1, 1), 4);
        // Where four texts are written side by side, a position delays them all: 1.6 ms bring four tokens, and one more position costs one of them.
        assert_eq!(policy.choose(&[0.95], 4, 4), 0);
        assert_eq!(policy.choose(&[], 1, 1), 0);
    }

    #[test]
    fn chances_are_learned() {
        let mut policy = policy();
        let runners = [
            Runner { token: 1, behind: 0.0 },
            Runner { token: 2, behind: 0.7 },
            Runner { token: 3, behind: 9.0 },
        ];
        let first = Class::runner(&runners, 0);
        assert_eq!(first, Class::Runner { rank: 0, range: 1 });
        assert_eq!(Class::runner(&runners, 2), Class::Runner { rank: 2, range: 7 });
        assert_eq!(Class::runner(&runners[..1], 0), Class::Runner { rank: 0, range: 7 });
        assert_eq!(Class::copied(9, 20), Class::Copied { length: 3, depth: 7 });
        let before = policy.chance(first);
        (0..400).for_each(|i| policy.learn(first, i % 4 == 0));
        assert!(
            before > 0.5 && (policy.chance(first) - 0.25).abs() < 0.02,
            "{before} {}",
            policy.chance(first)
        );
        assert_eq!(
            policy.chance(Class::runner(&runners, 2)),
            Policy::new().chance(Class::runner(&runners, 2))
        );
    }

    #[test]
    fn it_rests_where_guesses_do_not_pay_and_tries_again() {
        let mut policy = policy();
        let passes_until_rest = |policy: &mut Policy| {
            let trials = (0..100).take_while(|_| {
                let drafts = policy.is_drafting();
                if drafts {
                    policy.looked(1, (MILLISECOND / 2, Duration::ZERO));
                    policy.brought(&pass(1, 17 * MILLISECOND / 10));
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
            policy.brought(&pass(2, 17 * MILLISECOND / 10));
        }
        assert!(policy.rate(1) > 1.1 / MILLISECOND.as_secs_f64(), "{}", policy.rate(1));
    }

    #[test]
    fn draws_count_on_both_sides() {
        // A draw of 1 ms: two tokens in 3.5 ms are better than two plain passes, of 2 ms each.
        let mut policy = policy();
        policy.looked(1, (MILLISECOND / 10, Duration::ZERO));
        for _ in 0..100 {
            assert!(policy.is_drafting());
            policy.brought(&Brought { draws: 2 * MILLISECOND, ..pass(2, 35 * MILLISECOND / 10) });
        }
    }
}
