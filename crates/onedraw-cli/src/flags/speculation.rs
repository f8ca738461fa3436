//! Which drafter guesses ahead, and how its guesses are verified: `--draft`, `--early-exit`, `--eagle`,
//! `--ngram`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, anyhow};
use clap::Args;
use onedraw::speculate::Verify;
use onedraw_lm::speculate::{EarlyExit, Guesser, Ngram, Speculation};
use onedraw_lm::{Generator, Llama, ModelError};

use crate::model::Model;

/// At most one of the four.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Speculation")]
pub struct SpeculationFlags {
    /// A smaller model with the same tokens guesses ahead [without DIR: the embedded model's, or that in the folder `drafter` of
    /// the model]
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(group = "drafting")]
    draft: Option<String>,
    /// The model's first LAYER layers guess ahead
    #[arg(long, value_name = "LAYER", group = "drafting")]
    early_exit: Option<usize>,
    /// The model's EAGLE head guesses ahead: the embedded model's, or that in the folder `eagle` of the model
    #[arg(long, group = "drafting")]
    eagle: bool,
    /// The text itself guesses: what came after its last tokens, up to N, where they stood before
    #[arg(long, value_name = "N", group = "drafting")]
    ngram: Option<usize>,
    /// Guess at most K tokens ahead
    #[arg(long, value_name = "K", requires = "drafting", conflicts_with = "tree")]
    speculate: Option<usize>,
    /// Guess at most W tokens for each place and D places ahead
    #[arg(long, value_name = "WxD", requires = "drafting")]
    tree: Option<Shape>,
    /// How guesses are judged: exact (the text is that of plain decoding), rejection or block (another text,
    /// from the same law), typical (another law)
    #[arg(long, value_name = "MODE", requires = "drafting", default_value = "exact")]
    verify: Verify,
    /// Write what was decided, a line of JSON for each pass
    #[arg(long, value_name = "FILE", requires = "drafting")]
    pub speculation_log: Option<PathBuf>,
}

/// The width and depth of a tree.
#[derive(Clone, Copy, Debug)]
struct Shape {
    width: usize,
    depth: usize,
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = text
            .split_once('x')
            .and_then(|(width, depth)| Some(Self { width: width.parse().ok()?, depth: depth.parse().ok()? }));
        shape.ok_or_else(|| "must be a width and a depth, such as 2x4".to_owned())
    }
}

impl SpeculationFlags {
    /// Whether a drafter is asked for.
    pub fn is_asked(&self) -> bool {
        self.draft.is_some() || self.early_exit.is_some() || self.eagle || self.ngram.is_some()
    }

    /// The drafter for a model.
    pub fn guesser(&self, model: &Model) -> Result<Guesser> {
        let named = |flag: &'static str| move |error: ModelError| anyhow!("--{flag}: {error}");
        if let Some(folder) = &self.draft {
            return self.drafter(model, folder);
        }
        if let Some(layers) = self.early_exit {
            return Ok(Guesser::Exit(EarlyExit::new(layers, &model.llama).map_err(named("early-exit"))?));
        }
        if self.eagle {
            return Guesser::eagle(model.folder(), &model.llama).map_err(named("eagle"));
        }
        match self.ngram {
            Some(longest) => Ok(Guesser::Text(Ngram::new(longest).map_err(named("ngram"))?)),
            None => Ok(Guesser::Nobody),
        }
    }

    /// How far it guesses, and how its guesses are verified.
    pub fn settings(&self) -> Speculation {
        let mut speculation = Speculation::new(self.verify);
        if let Some(depth) = self.speculate {
            speculation.depth = depth;
        }
        if let Some(Shape { width, depth }) = self.tree {
            (speculation.width, speculation.depth) = (width, depth);
        }
        speculation
    }

    /// Adds the drafter to the generator of a model.
    pub fn with<'a>(
        &self,
        generator: Generator<'a, Llama>,
        model: &'a Llama,
        guesser: &'a Guesser,
    ) -> Result<Generator<'a, Llama>> {
        let generator = guesser.beside(generator, model, self.settings());
        let flag = if self.speculate.is_some() { "--speculate" } else { "--tree" };
        let generator = generator.map_err(|error| anyhow!("{flag}: {error}"))?;
        Ok(if self.speculation_log.is_some() { generator.log_speculation() } else { generator })
    }

    /// The smaller model in a folder, or the model's own if no folder is named.
    fn drafter(&self, model: &Model, folder: &str) -> Result<Guesser> {
        let (kernel, threads) = model.on();
        let guesser = match folder {
            "" => Guesser::own(model.folder(), &model.llama, &model.tokenizer, kernel, threads),
            folder => Guesser::draft(Path::new(folder), &model.llama, &model.tokenizer, kernel, threads),
        };
        guesser.map_err(|error| match error {
            ModelError::Request(message) => anyhow!("--draft: {message}"),
            other => other.into(),
        })
    }
}
