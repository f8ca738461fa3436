//! How to search: `--beams` and the flags that belong to it.

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use onedraw::SamplingParams;
use onedraw::beam::{BeamParams, BeamStyle, EarlyStopping};
use onedraw_lm::{Beams, GenerateError, LanguageModel};

/// Whose rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Style {
    /// Hugging Face's
    Hf,
    /// vLLM's
    Vllm,
    /// Hugging Face's with GNMT's length penalty
    Gnmt,
}

/// When to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Early {
    /// Once the best running text would not do if it ended now
    False,
    /// Once there are as many ended texts as beams
    True,
    /// Once no running text can become better
    Never,
}

/// How to search.
#[derive(Debug, Args)]
#[command(next_help_heading = "Beam search")]
pub struct BeamFlags {
    /// Search for the best texts with so many beams; -n of them are shown
    #[arg(long, alias = "num-beams", value_name = "N")]
    beams: Option<usize>,
    /// Whose rules: Hugging Face's, vLLM's, or Hugging Face's with GNMT's length penalty
    #[arg(long, value_name = "STYLE", value_enum, default_value_t = Style::Hf, requires = "beams")]
    beam_style: Style,
    /// The power of the length that scores are divided by
    #[arg(long, value_name = "P", default_value_t = 1.0, allow_negative_numbers = true, requires = "beams")]
    length_penalty: f64,
    /// When to stop: once the best running text would not do if it ended now (false), once there are as many
    /// ended texts as beams (true), once no running text can become better (never)
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Early::False, requires = "beams")]
    early_stopping: Early,
    /// So many groups of beams, each of which avoids what those before it chose
    #[arg(long, value_name = "GROUPS", requires = "beams")]
    diverse: Option<usize>,
    /// What a token loses for each beam of an earlier group that chose it
    #[arg(long, value_name = "PENALTY", default_value_t = 1.0, requires = "diverse")]
    diversity_penalty: f64,
    /// Draw as many texts as beams without replacement; temperature and truncations act, and all are shown
    #[arg(long, requires = "beams", conflicts_with_all = ["beam_style", "length_penalty", "early_stopping", "diverse"])]
    stochastic: bool,
}

impl BeamFlags {
    /// Whether a search is asked for.
    pub fn is_asked(&self) -> bool {
        self.beams.is_some()
    }

    /// The settings of the search itself.
    pub fn params(&self) -> BeamParams {
        BeamParams {
            width: self.beams.unwrap_or_default(),
            style: match self.beam_style {
                Style::Hf => BeamStyle::Hf,
                Style::Vllm => BeamStyle::Vllm,
                Style::Gnmt => BeamStyle::Gnmt,
            },
            length_penalty: self.length_penalty,
            early_stopping: match self.early_stopping {
                Early::False => EarlyStopping::Heuristic,
                Early::True => EarlyStopping::Full,
                Early::Never => EarlyStopping::Never,
            },
            groups: self.diverse.unwrap_or(1),
            diversity_penalty: if self.diverse.is_some_and(|groups| groups > 1) {
                self.diversity_penalty
            } else {
                0.0
            },
        }
    }

    /// Whether the texts are drawn without replacement, instead of searched.
    pub fn is_stochastic(&self) -> bool {
        self.stochastic
    }

    /// The tokens of the best text.
    pub fn best<M: LanguageModel>(
        &self,
        beams: Beams<'_, M>,
        prompt: &[u32],
        params: SamplingParams,
    ) -> Result<Vec<u32>> {
        let best = match self.stochastic {
            false => {
                let found = beams.search(prompt, params, self.params()).map_err(named)?;
                found.into_iter().next().map(|found| found.hypothesis.tokens)
            }
            true => {
                let (drawn, _) = beams.draw(prompt, params, self.params().width).map_err(named)?;
                drawn.into_iter().next().map(|found| found.hypothesis.tokens)
            }
        };
        Ok(best.unwrap_or_default())
    }
}

/// The error with the name of the flag that it is about.
pub(crate) fn named(error: GenerateError) -> anyhow::Error {
    match error {
        GenerateError::Param(error) => {
            let name = if error.field() == "beam_groups" { "diverse" } else { error.field() };
            anyhow!("--{}: {}", name.replace('_', "-"), error.message())
        }
        other => anyhow!(other),
    }
}
