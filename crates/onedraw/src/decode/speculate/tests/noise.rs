//! The rules with real noise over many seeds, and with noise that is wrongly used twice. A correct rule fails
//! a test with probability 1e-6; the seeds are fixed.

use onedraw_testkit::chi_square;

use super::every::law_of_texts;
use super::toy::{Descent, Guesses, Support, Toy, draft, tokens};
use crate::decode::speculate::chance::{Chance, VerificationNoise, arrivals};
use crate::decode::speculate::law::Probabilities;
use crate::decode::speculate::{Draft, Verdict, block, rejection};
use crate::numeric::noise::{Noise, Purpose};

const LENGTH: usize = 3;
const SEEDS: u64 = 60_000;
const FALSE_ALARM: f64 = 1e-6;

/// Which noise a drafter and its verification use. All but [`RIGHT`] are mistakes.
#[derive(Clone, Copy)]
struct Habit {
    /// The noise that guesses are drawn with.
    guesses: Purpose,
    /// Whether the noise depends on the depth in the draft.
    counts_depth: bool,
}

const RIGHT: Habit = Habit { guesses: Purpose::Draft, counts_depth: true };

/// The noise of verification with the mistake that it does not depend on the depth.
struct WithoutDepth(VerificationNoise);

impl Chance for WithoutDepth {
    fn accepts(&mut self, depth: usize, guess: usize, probability: f64) -> bool {
        let noise = self.0.start;
        Noise { position: noise.position + depth as u32, ..noise }.coin(0, guess as u32) < probability
    }

    fn draws(&mut self, depth: usize, law: &Probabilities) -> u32 {
        let noise = self.0.start;
        let noise = Noise { position: noise.position + depth as u32, ..noise };
        arrivals(&noise, Purpose::Residual, 0, law, 1)[0]
    }
}

type Rule = fn(&mut Descent, &Draft, &mut dyn Chance) -> Verdict;

fn by_rejection(descent: &mut Descent, draft: &Draft, chance: &mut dyn Chance) -> Verdict {
    rejection::verify(descent, draft, chance)
}

fn by_block(descent: &mut Descent, draft: &Draft, chance: &mut dyn Chance) -> Verdict {
    block::verify(descent, draft, chance).expect("a verdict")
}

/// The p-value of the hypothesis that texts over many seeds follow the target's distribution.
fn p_value(shape: &[usize], rule: Rule, habit: Habit) -> f64 {
    let (target, drafter) = (Toy::new(7, 3, Support::All), Toy::new(8, 3, Support::All));
    let plain = law_of_texts(LENGTH, |every, text| target.plain(every, text));
    let texts: Vec<_> = plain.keys().cloned().collect();
    let mut counts = vec![0; texts.len()];
    for seed in 0..SEEDS {
        let mut text = Vec::new();
        while text.len() < LENGTH {
            let noise = Noise { seed, position: text.len() as u32, sequence: 0, round: 0 };
            let draft = draft(&drafter, &text, shape, Guesses::Drawn, |depth, law, count| {
                let noise = Noise { position: noise.position + depth as u32, ..noise };
                let depth = if habit.counts_depth { depth as u32 } else { 0 };
                arrivals(&noise, habit.guesses, depth, law, count)
            });
            let mut descent = Descent::new(target, &text);
            let verdict = match habit.counts_depth {
                true => rule(&mut descent, &draft, &mut VerificationNoise { start: noise }),
                false => rule(&mut descent, &draft, &mut WithoutDepth(VerificationNoise { start: noise })),
            };
            text.extend(tokens(&verdict));
        }
        text.truncate(LENGTH);
        counts[texts.binary_search(&text).expect("a text of the target")] += 1;
    }
    let expected: Vec<f64> = plain.into_values().collect();
    chi_square::p_value(&counts, &expected)
}

#[test]
fn real_noise_keeps_the_law() {
    for (shape, rule) in [
        (&[1, 1][..], by_rejection as Rule),
        (&[2, 2], by_rejection),
        (&[1, 1], by_block),
        (&[1, 1, 1], by_block),
    ] {
        let p = p_value(shape, rule, RIGHT);
        assert!(p > FALSE_ALARM, "{shape:?}: {p:e}");
    }
}

/// Judging guesses with the noise that drew them is a bias: a rejected guess tells something about the noise
/// of the others.
#[test]
fn guesses_with_the_residuals_noise_are_seen() {
    let habit = Habit { guesses: Purpose::Residual, ..RIGHT };
    for (shape, rule) in [(&[1, 1][..], by_rejection as Rule), (&[2, 1], by_rejection), (&[1, 1], by_block)] {
        let p = p_value(shape, rule, habit);
        assert!(p < FALSE_ALARM, "{shape:?}: {p:e}");
    }
}

/// Rejection gives up a position before it looks at the position's noise, so counting the position alone
/// would be enough. A block looks at the noise first.
#[test]
fn a_block_needs_noise_that_counts_the_depth() {
    let habit = Habit { counts_depth: false, ..RIGHT };
    assert!(p_value(&[1, 1], by_rejection, habit) > FALSE_ALARM);
    let p = p_value(&[1, 1], by_block, habit);
    assert!(p < FALSE_ALARM, "{p:e}");
}
