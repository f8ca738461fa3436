//! Who guesses for a model of the Llama family, with the weights that it needs for that.

use std::path::Path;

use onedraw::Kernel;

use crate::error::ModelError;
use crate::generate::Generator;
use crate::llama::{EagleHead, Llama};
use crate::speculate::{Companion, Eagle, EarlyExit, Ngram, Speculation};
use crate::stories;
use crate::tokenizer::Tokenizer;

/// Who guesses. It is kept beside the model, because drafters borrow both.
pub enum Guesser {
    /// Nobody: plain decoding.
    Nobody,
    /// A smaller model with the same tokens.
    Model(Box<Llama>),
    /// The model's first layers.
    Exit(EarlyExit),
    /// An EAGLE head.
    Head(Box<EagleHead>),
    /// The text itself.
    Text(Ngram),
}

impl Guesser {
    /// The smaller model in a folder, on so many threads; without one, that of the embedded model, which the target must be then.
    pub fn draft(
        folder: Option<&Path>,
        target: &Llama,
        tokenizer: &Tokenizer,
        kernel: Kernel,
        threads: usize,
    ) -> Result<Self, ModelError> {
        /// Bytes of weights below which a pass is over before another thread is awake.
        const SMALL: usize = 2 << 20;
        let (drafter, tokens) = match folder {
            None => (stories::drafter()?, stories::tokenizer()?),
            // What is frequent in the target's texts is what is to be guessed.
            Some(folder) => {
                let drafter = Llama::open(folder)?;
                let list = target.shortlist().or(drafter.shortlist()).cloned();
                (drafter.among(list), Tokenizer::open(folder)?)
            }
        };
        tokenizer.check_same(&tokens)?;
        let size: usize = drafter.weights().map(<[u8]>::len).sum();
        Ok(Self::Model(Box::new(drafter.on(kernel, if size < SMALL { 1 } else { threads })?)))
    }

    /// The head in the folder `eagle` of a model's folder; without a folder, that of the embedded model.
    pub fn eagle(folder: Option<&Path>, target: &Llama) -> Result<Self, ModelError> {
        let head = match folder {
            None => stories::eagle(target)?,
            Some(folder) if folder.join("eagle").is_dir() => EagleHead::open(&folder.join("eagle"), target)?,
            Some(folder) => {
                return Err(ModelError::Request(format!(
                    "{} has no folder `eagle` with a head",
                    folder.display()
                )));
            }
        };
        Ok(Self::Head(Box::new(head)))
    }

    /// A generator of the model that this one guesses for.
    pub fn beside<'a>(
        &'a self,
        generator: Generator<'a, Llama>,
        model: &'a Llama,
        speculation: Speculation,
    ) -> Result<Generator<'a, Llama>, ModelError> {
        match self {
            Self::Nobody => Ok(generator),
            Self::Model(drafter) => generator.speculate(Companion::new(&**drafter, model)?, speculation),
            Self::Exit(exit) => generator.speculate(*exit, speculation),
            Self::Head(head) => generator.speculate(Eagle::new(head, model), speculation),
            Self::Text(ngram) => generator.speculate(*ngram, speculation),
        }
    }
}
