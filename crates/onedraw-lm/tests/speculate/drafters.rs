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
            Self::Random => generator.speculate(Random, speculation),
            Self::Adversary => generator.speculate(Adversary, speculation),
            Self::Target => {
                generator.speculate(Companion::new(target, target).expect("a drafter"), speculation)
            }
        }
        .expect("a generator")
    }
}

/// Guesses by logits that have nothing to do with the text.
struct Random;

impl<M: LanguageModel> Drafter<M> for Random {
    /// The state of a generator of random numbers.
    type Memory = u64;

    fn start(&self) -> u64 {
        1
    }

    fn guess(&self, target: &M, texts: &mut [(&mut u64, &mut Ahead<'_, M>)]) -> Result<(), ModelError> {
        for (state, ahead) in texts {
            let logits: Vec<f32> = (0..target.vocabulary())
                .map(|_| {
                    **state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (**state >> 40) as f32 / 1e6
                })
                .collect();
            ahead.grow(&logits);
        }
        Ok(())
    }
}

/// Guesses what the target finds least likely.
struct Adversary;

impl Drafter<Llama> for Adversary {
    type Memory = ();

    fn start(&self) {}

    fn guess(
        &self,
        target: &Llama,
        texts: &mut [(&mut (), &mut Ahead<'_, Llama>)],
    ) -> Result<(), ModelError> {
        for (_, ahead) in texts {
            let mut memory = ahead.memory().clone();
            let tokens = [&ahead.text()[memory.len()..], ahead.path()].concat();
            let mut answer = target.forward(&mut [Run::line(&mut memory, &tokens)])?;
            let logits: Vec<f32> = answer.remove(0).logits.into_iter().map(|logit| -logit).collect();
            ahead.grow(&logits);
        }
        Ok(())
    }
}
