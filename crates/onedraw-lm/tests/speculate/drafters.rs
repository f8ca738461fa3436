//! Everybody who guesses: those of the library, and some that no one would use; and the trees in which they guess.

use onedraw_lm::speculate::{Ahead, Companion, Drafter, Eagle, EarlyExit, Ngram, Speculation};
use onedraw_lm::{EagleHead, Generator, LanguageModel, Llama, ModelError, Run, Sequence, Tokenizer, stories};

/// The models that they need.
pub struct Models {
    pub target: Llama,
    pub drafter: Llama,
    pub eagle: EagleHead,
    pub tokenizer: Tokenizer,
}

impl Models {
    pub fn new() -> Self {
        let target = stories::model().expect("a model");
        let eagle = stories::eagle(&target).expect("a head");
        Self {
            target,
            drafter: stories::drafter().expect("a drafter"),
            eagle,
            tokenizer: stories::tokenizer().expect("a tokenizer"),
        }
    }
}

/// Who guesses.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Companion,
    EarlyExit(usize),
    Eagle,
    Ngram,
    Random,
    Adversary,
    Target,
}

pub const KINDS: [Kind; 8] = [
    Kind::Companion,
    Kind::EarlyExit(2),
    Kind::EarlyExit(3),
    Kind::Eagle,
    Kind::Ngram,
    Kind::Random,
    Kind::Adversary,
    Kind::Target,
];

/// A tree that is always as large as it may be.
pub fn fixed(width: usize, depth: usize) -> Speculation {
    Speculation { width, depth, adapts: false, ..Speculation::default() }
}

/// How much is guessed: trees that are always full, and one that adapts.
pub fn shapes() -> [Speculation; 6] {
    [fixed(1, 1), fixed(1, 4), fixed(2, 3), fixed(3, 2), fixed(4, 1), Speculation::default()]
}

impl Kind {
    /// The generator with such a drafter.
    pub fn of<'a>(
        self,
        models: &'a Models,
        generator: Generator<'a, Llama>,
        speculation: Speculation,
    ) -> Generator<'a, Llama> {
        let target = &models.target;
        match self {
            Self::Companion => {
                generator.speculate(Companion::new(&models.drafter, target).expect("a drafter"), speculation)
            }
            Self::EarlyExit(layers) => {
                generator.speculate(EarlyExit::new(layers, target).expect("an exit"), speculation)
            }
            Self::Eagle => generator.speculate(Eagle::new(&models.eagle, target), speculation),
            Self::Ngram => generator.speculate(Ngram::new(3).expect("a drafter"), speculation),
            Self::Random => generator.speculate(Random { state: 1 }, speculation),
            Self::Adversary => generator.speculate(Adversary { target }, speculation),
            Self::Target => {
                generator.speculate(Companion::new(target, target).expect("a drafter"), speculation)
            }
        }
        .expect("a generator")
    }
}

/// Guesses by logits that have nothing to do with the text.
#[derive(Clone)]
struct Random {
    state: u64,
}

impl<'a, M: LanguageModel> Drafter<'a, M> for Random {
    fn fork(&self) -> Box<dyn Drafter<'a, M> + 'a> {
        Box::new(self.clone())
    }

    fn guess(&mut self, ahead: &mut Ahead<'_, M>) -> Result<(), ModelError> {
        let vocabulary = ahead.target().0.vocabulary();
        let mut next = Some(None);
        while let Some(node) = next {
            let logits: Vec<f32> = (0..vocabulary)
                .map(|_| {
                    self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (self.state >> 40) as f32 / 1e6
                })
                .collect();
            next = ahead.grow(node, &logits).map(Some);
        }
        Ok(())
    }
}

/// Guesses what the target finds least likely.
#[derive(Clone)]
struct Adversary<'a> {
    target: &'a Llama,
}

impl<'a> Drafter<'a, Llama> for Adversary<'a> {
    fn fork(&self) -> Box<dyn Drafter<'a, Llama> + 'a> {
        Box::new(self.clone())
    }

    fn guess(&mut self, ahead: &mut Ahead<'_, Llama>) -> Result<(), ModelError> {
        let text = ahead.text();
        let mut next = Some(None);
        while let Some(node) = next {
            let path = node.map(|node| ahead.path(node)).unwrap_or_default();
            let mut memory = ahead.target().1.clone();
            let tokens = [&text[memory.len()..], &path].concat();
            let mut answer = self.target.forward(&mut [Run::line(&mut memory, &tokens)])?;
            let logits: Vec<f32> = answer.remove(0).logits.into_iter().map(|logit| -logit).collect();
            next = ahead.grow(node, &logits).map(Some);
        }
        Ok(())
    }
}
