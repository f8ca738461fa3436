//! What the text must match: `--json-schema`, `--regex`, `--choice` and `--grammar`.

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::Args;
use onedraw::SamplingParams;
use onedraw_grammar::{Grammar, GrammarError, Matcher, Vocabulary};
use onedraw_lm::LanguageModel;

use crate::model::Model;

/// At most one of these.
#[derive(Debug, Args)]
#[group(multiple = false)]
#[command(next_help_heading = "Constraints")]
pub struct ConstraintFlags {
    /// Only JSON that this schema allows, without white space between its parts
    #[arg(long, value_name = "FILE")]
    json_schema: Option<PathBuf>,
    /// Only text that this regular expression matches as a whole
    #[arg(long, value_name = "RE")]
    regex: Option<String>,
    /// Only this text, or another one given so
    #[arg(long, value_name = "TEXT")]
    choice: Vec<String>,
    /// Only text of this grammar: Lark, or llguidance's JSON
    #[arg(long, value_name = "FILE")]
    grammar: Option<PathBuf>,
}

impl ConstraintFlags {
    /// The matcher of a text that has not begun, if a grammar is asked for.
    pub fn matcher(&self, model: &Model, params: &SamplingParams) -> Result<Option<Matcher>> {
        let vocabulary = || vocabulary(model, &params.eos_token_id);
        let named = |flag: &str| {
            let flag = flag.to_owned();
            move |error: GrammarError| anyhow!("{flag}: {error}")
        };
        let grammar = if let Some(path) = &self.json_schema {
            let name = format!("--json-schema {}", path.display());
            // If white space were allowed, a model that has not learned JSON could write it for ever.
            Grammar::compact_json_schema(&vocabulary()?, &read(path, &name)?).map_err(named(&name))?
        } else if let Some(expression) = &self.regex {
            Grammar::regex(&vocabulary()?, expression).map_err(named("--regex"))?
        } else if !self.choice.is_empty() {
            Grammar::choices(&vocabulary()?, &self.choice).map_err(named("--choice"))?
        } else if let Some(path) = &self.grammar {
            let name = format!("--grammar {}", path.display());
            Grammar::llguidance(&vocabulary()?, &read(path, &name)?).map_err(named(&name))?
        } else {
            return Ok(None);
        };
        Ok(Some(grammar.start()))
    }
}

fn read(path: &Path, name: &str) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| anyhow!("{name}: {error}"))
}

/// The model's tokens in the form that grammars take, as many as it has logits, and those that end a text.
pub fn vocabulary(model: &Model, eos: &[u32]) -> Result<Vocabulary> {
    onedraw_lab::grammar_tokens(&model.tokenizer, model.llama.vocabulary(), eos)
        .map_err(|error| anyhow!("a grammar cannot be used with this model: {error}"))
}
