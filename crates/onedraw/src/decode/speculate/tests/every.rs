//! A [`Chance`] that goes through every outcome instead of using noise.

use std::collections::BTreeMap;

use crate::decode::speculate::chance::Chance;
use crate::decode::speculate::law::Probabilities;

/// Goes through the outcomes one by one. A run makes the choices of a script, and adds the first outcome of
/// every choice beyond its end.
#[derive(Default)]
pub struct Every {
    /// For each choice, the outcomes that are still to come with their probabilities; the current one is
    /// last.
    script: Vec<Vec<(usize, f64)>>,
    made: usize,
}

impl Every {
    /// Chooses one of the outcomes that have a positive probability.
    pub fn choose(&mut self, probabilities: &[f64]) -> usize {
        if self.made == self.script.len() {
            let outcomes = probabilities.iter().copied().enumerate().rev();
            self.script.push(outcomes.filter(|(_, p)| *p > 0.0).collect());
        }
        self.made += 1;
        self.script[self.made - 1].last().expect("an outcome").0
    }

    /// Chooses a token of a law.
    pub fn token(&mut self, law: &Probabilities) -> u32 {
        law.tokens()[self.choose(law.values())]
    }

    /// The probability of the current script.
    fn probability(&self) -> f64 {
        self.script.iter().map(|outcomes| outcomes.last().expect("an outcome").1).product()
    }

    /// Moves on to the next outcome; returns whether there is one.
    fn advance(&mut self) -> bool {
        self.made = 0;
        while let Some(outcomes) = self.script.last_mut() {
            outcomes.pop();
            if !outcomes.is_empty() {
                return true;
            }
            self.script.pop();
        }
        false
    }
}

impl Chance for Every {
    fn accepts(&mut self, _: usize, _: usize, probability: f64) -> bool {
        let probability = probability.min(1.0);
        self.choose(&[1.0 - probability, probability]) == 1
    }

    fn draws(&mut self, _: usize, law: &Probabilities) -> u32 {
        self.token(law)
    }
}

/// Every outcome of `run` with its probability.
pub fn outcomes<T>(mut run: impl FnMut(&mut Every) -> T) -> Vec<(f64, T)> {
    let (mut every, mut outcomes) = (Every::default(), Vec::new());
    loop {
        let outcome = run(&mut every);
        outcomes.push((every.probability(), outcome));
        if !every.advance() {
            return outcomes;
        }
    }
}

/// The distribution of the texts of `length` tokens, where each run of `extend` makes a text longer.
pub fn law_of_texts(
    length: usize,
    mut extend: impl FnMut(&mut Every, &[u32]) -> Vec<u32>,
) -> BTreeMap<Vec<u32>, f64> {
    let mut texts = vec![BTreeMap::new(); length + 1];
    texts[0].insert(Vec::new(), 1.0);
    for begun in 0..length {
        for (text, probability) in std::mem::take(&mut texts[begun]) {
            for (outcome, more) in outcomes(|every| extend(every, &text)) {
                let longer: Vec<u32> = text.iter().chain(&more).copied().take(length).collect();
                *texts[longer.len()].entry(longer).or_default() += probability * outcome;
            }
        }
    }
    texts.pop().expect("the longest")
}

/// The total variation distance: half the sum of the absolute differences.
pub fn total_variation(a: &BTreeMap<Vec<u32>, f64>, b: &BTreeMap<Vec<u32>, f64>) -> f64 {
    let of = |law: &BTreeMap<Vec<u32>, f64>, text| law.get(text).copied().unwrap_or(0.0);
    let texts: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
    texts.into_iter().map(|text| (of(a, text) - of(b, text)).abs()).sum::<f64>() / 2.0
}

#[test]
fn every_outcome_comes_once() {
    let found = outcomes(|every| {
        let first = every.choose(&[0.25, 0.0, 0.75]);
        if first == 0 { (first, every.choose(&[0.5, 0.5])) } else { (first, 7) }
    });
    assert_eq!(found, [(0.125, (0, 0)), (0.125, (0, 1)), (0.75, (2, 7))]);
}
