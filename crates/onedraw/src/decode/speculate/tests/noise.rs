//! The rules with real noise over many seeds, and noise that is used twice. A right rule is accused with
//! probability 1e-6 a test; the seeds are fixed.

use onedraw_testkit::chi_square;

use super::every::law_of_texts;
use super::toy::{Descent, Guesses, Support, Toy, draft, tokens};
use crate::decode::speculate::chance::{Chance, Dice, arrivals};
use crate::decode::speculate::law::Probabilities;
use crate::decode::speculate::{Draft, Verdict, block, rejection};
use crate::numeric::noise::{Noise, Purpose};

const LENGTH: usize = 3;
const SEEDS: u64 = 60_000;
const FALSE_ALARM: f64 = 1e-6;

/// Which noise a mutant takes.
#[derive(Clone, Copy)]
struct Habit {
    /// What guesses are drawn with.
    guesses: Purpose,
    /// Whether the depth counts.
    counts_depth: bool,
}

const RIGHT: Habit = Habit { guesses: Purpose::Draft, counts_depth: true };

/// The dice of somebody who counts no depth.
struct Flat(Dice);

impl Chance for Flat {
    fn accepts(&mut self, depth: usize, guess: usize, probability: f64) -> bool {
        let noise = self.0.noise;
        Noise { position: noise.position + depth as u32, ..noise }.coin(0, guess as u32) < probability
    }

    fn draws(&mut self, depth: usize, law: &Probabilities) -> u32 {
        let noise = self.0.noise;
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

/// How well texts over many seeds follow the target's law.
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
                true => rule(&mut descent, &draft, &mut Dice { noise }),
                false => rule(&mut descent, &draft, &mut Flat(Dice { noise })),
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

/// Whoever judges guesses with the noise that drew them is biased: a guess that was rejected says something
/// of the others' noise.
#[test]
fn guesses_with_the_residuals_noise_are_seen() {
    let habit = Habit { guesses: Purpose::Residual, ..RIGHT };
    for (shape, rule) in [(&[1, 1][..], by_rejection as Rule), (&[2, 1], by_rejection), (&[1, 1], by_block)] {
        let p = p_value(shape, rule, habit);
        assert!(p < FALSE_ALARM, "{shape:?}: {p:e}");
    }
}

/// Rejection gives a position up before it has looked at its noise, so the position alone would do. A block
/// looks first.
#[test]
fn a_block_needs_noise_that_counts_the_depth() {
    let habit = Habit { counts_depth: false, ..RIGHT };
    assert!(p_value(&[1, 1], by_rejection, habit) > FALSE_ALARM);
    let p = p_value(&[1, 1], by_block, habit);
    assert!(p < FALSE_ALARM, "{p:e}");
}
