//! A toy model whose distributions are a hash of the text, and drafts of any shape.

use onedraw_testkit::rows::SplitMix64;

use super::every::Every;
use crate::decode::speculate::law::{Law, Probabilities};
use crate::decode::speculate::text::Target;
use crate::decode::speculate::{Draft, Verdict};
use crate::error::RowError;
use crate::sampled::Sampled;

/// Which tokens have a probability.
#[derive(Clone, Copy, Debug)]
pub enum Support {
    All,
    /// Each at random, but at least one.
    Some,
    From(u32),
    Below(u32),
    /// Two tokens, the first with this many thirds of the probability, whatever the text is.
    Thirds(u32),
}

#[derive(Clone, Copy, Debug)]
pub struct Toy {
    pub seed: u64,
    pub vocabulary: u32,
    pub support: Support,
    /// Whether some texts have a forced next token.
    pub forces: bool,
}

impl Toy {
    pub fn new(seed: u64, vocabulary: u32, support: Support) -> Self {
        Self { seed, vocabulary, support, forces: false }
    }

    fn random(&self, text: &[u32]) -> SplitMix64 {
        let mix = |hash: u64, &token: &u32| SplitMix64::new(hash ^ u64::from(token + 1)).next_u64();
        SplitMix64::new(text.iter().fold(self.seed, mix))
    }

    /// The one token that may come next, where there is no choice.
    pub fn forced(&self, text: &[u32]) -> Option<u32> {
        let mut random = self.random(text);
        random.next_u64();
        let token = random.below(self.vocabulary as usize) as u32;
        (self.forces && random.below(3) == 0).then_some(token)
    }

    pub fn law(&self, text: &[u32]) -> Probabilities {
        if let Some(token) = self.forced(text) {
            return Probabilities::certain(token);
        }
        if let Support::Thirds(thirds) = self.support {
            let first = f64::from(thirds) / 3.0;
            return Probabilities::new([(0, first), (1, 1.0 - first)]).expect("a law");
        }
        let mut random = self.random(text);
        let certain = random.below(self.vocabulary as usize) as u32;
        let weights: Vec<(u32, f64)> = (0..self.vocabulary)
            .map(|token| {
                // Cubes differ more than uniform numbers do.
                let weight = 0.02 + random.uniform() * random.uniform() * random.uniform();
                let lives = match self.support {
                    Support::All => true,
                    Support::Some => random.below(2) == 0 || token == certain,
                    Support::From(first) => token >= first,
                    Support::Below(end) => token < end,
                    Support::Thirds(_) => unreachable!("said above"),
                };
                (token, if lives { weight } else { 0.0 })
            })
            .collect();
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        Probabilities::new(weights.into_iter().map(|(token, weight)| (token, weight / total))).expect("a law")
    }

    /// One step of plain decoding: one draw from the law.
    pub fn plain(&self, every: &mut Every, text: &[u32]) -> Vec<u32> {
        vec![every.token(&self.law(text))]
    }
}

/// A toy that walks down a tree.
pub struct Descent {
    /// One toy for each position; the last one also for all positions after it.
    toys: Vec<Toy>,
    begun: usize,
    text: Vec<u32>,
}

impl Descent {
    pub fn new(toy: Toy, text: &[u32]) -> Self {
        Self::by_position(vec![toy], text)
    }

    /// A target that differs from position to position, like one that tosses a coin at each.
    pub fn by_position(toys: Vec<Toy>, text: &[u32]) -> Self {
        Self { toys, begun: text.len(), text: text.to_vec() }
    }

    fn toy(&self) -> Toy {
        self.toys[self.text.len().min(self.toys.len() - 1)]
    }
}

impl Target for Descent {
    fn law(&mut self, _: Option<usize>) -> Result<Probabilities, RowError> {
        Ok(self.toy().law(&self.text))
    }

    fn take(&mut self, _: Option<usize>, token: u32) -> Result<Sampled, RowError> {
        let position = self.text.len() as u32;
        self.text.push(token);
        Ok(Sampled {
            token,
            seed: 0,
            position,
            sequence: 0,
            probability: None,
            logprob: None,
            rank: None,
            logprobs: Vec::new(),
            mirostat_mu: None,
            kept: None,
        })
    }

    fn goes_on(&mut self, _: u32) -> bool {
        self.toy().forced(&self.text).is_none()
    }

    fn climb(&mut self, depth: usize) -> Result<(), RowError> {
        self.text.truncate(self.begun + depth);
        Ok(())
    }
}

/// Where guesses come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Guesses {
    Drawn,
    /// The best few.
    Given,
    /// The best few, claimed to be drawn. This is a mistake.
    BestAsDrawn,
}

/// A draft with `shape[d]` guesses after each node of depth d, as far as the drafter's law has tokens.
pub fn draft(
    drafter: &Toy,
    text: &[u32],
    shape: &[usize],
    guesses: Guesses,
    mut draw: impl FnMut(usize, &Probabilities, usize) -> Vec<u32>,
) -> Draft {
    let mut draft = Draft::default();
    let mut open = vec![None];
    for (depth, &count) in shape.iter().enumerate() {
        for node in std::mem::take(&mut open) {
            let way = node.map_or(Vec::new(), |node| draft.tree.path(node));
            let longer: Vec<u32> =
                text.iter().copied().chain(way.iter().map(|&node| draft.tree.tokens()[node])).collect();
            let q = drafter.law(&longer);
            let tokens = if guesses == Guesses::Drawn { draw(depth, &q, count) } else { best(&q, count) };
            let law = if guesses == Guesses::Given { Law::Given } else { Law::Drawn(q) };
            open.extend(draft.grow(node, &tokens, law).into_iter().map(Some));
        }
    }
    draft
}

fn best(law: &Probabilities, count: usize) -> Vec<u32> {
    let mut pairs: Vec<(u32, f64)> = law.pairs().collect();
    pairs.sort_by(|a, b| b.1.total_cmp(&a.1));
    pairs.into_iter().take(count).map(|(token, _)| token).collect()
}

/// Draws without replacement, through every outcome.
pub fn drawn(every: &mut Every) -> impl FnMut(usize, &Probabilities, usize) -> Vec<u32> {
    |_, law, count| {
        let (mut left, mut tokens) = (Some(law.clone()), Vec::new());
        while tokens.len() < count
            && let Some(law) = left
        {
            let token = every.token(&law);
            tokens.push(token);
            left = law.without(token);
        }
        tokens
    }
}

pub fn tokens(verdict: &Verdict) -> Vec<u32> {
    verdict.sampled.iter().map(|sampled| sampled.token).collect()
}
