//! The drafter of a model of the Llama family, with the weights that it needs.

use std::path::{Path, PathBuf};

use onedraw::Kernel;

use crate::draft::{AnyDrafter, Companion, Eagle, EarlyExit, Ngram, Speculation};
use crate::error::ModelError;
use crate::generate::Generator;
use crate::llama::{EagleHead, Llama};
use crate::stories;
use crate::tokenizer::Tokenizer;

/// Owns what a drafter needs. It lives beside the model, because the drafters of texts borrow from both.
pub enum Guesser {
    /// No drafter: plain decoding.
    Nobody,
    /// A smaller model with the same tokens.
    Model(Box<Llama>),
    /// The model's first layers.
    Exit(EarlyExit),
    /// An EAGLE head.
    Head(Box<EagleHead>),
    /// Tokens copied from the text.
    Text(Ngram),
}

impl Guesser {
    /// The smaller model that a model comes with: that in the folder `drafter` of its folder, which has its tokens: a tokenizer.json
    /// there must be the model's. Without a folder, the drafter of the embedded model, which must be the target then.
    pub fn own(
        folder: Option<&Path>,
        target: &Llama,
        tokenizer: &Tokenizer,
        kernel: Kernel,
        threads: usize,
    ) -> Result<Self, ModelError> {
        let drafter = match folder {
            None => {
                stories::check_tokenizer(tokenizer)?;
                stories::drafter()?
            }
            Some(folder) => {
                let drafter = part(folder, "drafter")?;
                // It need not have the tokenizer's file again.
                if drafter.join("tokenizer.json").is_file() {
                    tokenizer.check_same_in(&drafter)?;
                }
                open(&drafter, target)?
            }
        };
        Self::model(drafter, kernel, threads)
    }

    /// The smaller model in a folder, on this many threads. An error if its tokens are others than the target's.
    pub fn draft(
        folder: &Path,
        target: &Llama,
        tokenizer: &Tokenizer,
        kernel: Kernel,
        threads: usize,
    ) -> Result<Self, ModelError> {
        tokenizer.check_same_in(folder)?;
        Self::model(open(folder, target)?, kernel, threads)
    }

    /// The EAGLE head in the folder `eagle` of a model's folder. Without a folder, the head of the embedded
    /// model.
    pub fn eagle(folder: Option<&Path>, target: &Llama) -> Result<Self, ModelError> {
        let head = match folder {
            None => stories::eagle(target)?,
            Some(folder) => EagleHead::open(&part(folder, "eagle")?, target)?,
        };
        Ok(Self::Head(Box::new(head)))
    }

    fn model(drafter: Llama, kernel: Kernel, threads: usize) -> Result<Self, ModelError> {
        /// With fewer bytes of weights, one thread is faster: a pass is over before another thread is awake.
        /// The embedded drafter has 1.2 MB and takes 48 µs for a pass
        /// (bench/results/2026-11-16-speculation.md).
        const WORTH_MORE_THREADS: usize = 2 << 20;
        let size: usize = drafter.weights().map(<[u8]>::len).sum();
        Ok(Self::Model(Box::new(drafter.on(kernel, if size < WORTH_MORE_THREADS { 1 } else { threads })?)))
    }

    /// The drafter for texts of the model.
    pub fn drafter<'a>(&'a self, model: &'a Llama) -> Result<Option<AnyDrafter<'a, Llama>>, ModelError> {
        Ok(Some(match self {
            Self::Nobody => return Ok(None),
            Self::Model(drafter) => AnyDrafter::new(Companion::new(&**drafter, model)?),
            Self::Exit(exit) => AnyDrafter::new(*exit),
            Self::Head(head) => AnyDrafter::new(Eagle::new(head, model)),
            Self::Text(ngram) => AnyDrafter::new(*ngram),
        }))
    }

    /// Gives the drafter to a generator of the model.
    pub fn beside<'a>(
        &'a self,
        generator: Generator<'a, Llama>,
        model: &'a Llama,
        speculation: Speculation,
    ) -> Result<Generator<'a, Llama>, ModelError> {
        match self.drafter(model)? {
            None => Ok(generator),
            Some(drafter) => generator.speculate(drafter, speculation),
        }
    }
}

/// A folder within a model's folder.
fn part(folder: &Path, name: &str) -> Result<PathBuf, ModelError> {
    let part = folder.join(name);
    match part.is_dir() {
        true => Ok(part),
        false => Err(ModelError::Request(format!("{} has no folder `{name}`", folder.display()))),
    }
}

/// The smaller model in a folder. It guesses the tokens that are frequent in the target's texts.
fn open(folder: &Path, target: &Llama) -> Result<Llama, ModelError> {
    let drafter = Llama::open(folder)?;
    let list = target.shortlist().or(drafter.shortlist()).cloned();
    Ok(drafter.among(list))
}
