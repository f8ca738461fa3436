//! `onedraw compare`: strategies side by side on one prompt and model.
//!
//! `strategy` reads what is compared, `measure` runs each one and measures it with `metrics`, and `table` and
//! `page` show the results.

mod measure;
mod metrics;
mod page;
mod strategy;
mod table;

use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use indicatif::ProgressBar;
use onedraw::SamplingParams;
use onedraw_lm::{Llama, stories};

use crate::compare::measure::{Measured, Scene};
use crate::compare::strategy::{Search, Strategy};
use crate::destination::Destination;
use crate::exit::DONE;
use crate::flags::parameters::ParameterFlags;
use crate::flags::unused;
use crate::model::{Model, ModelFlags, bar};
use crate::output::Format;

/// The arguments of `onedraw compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --strategy: greedy, three temperatures with top-p 0.9, top-k, top-p, min-p, typical, mirostat 2, penalties, beam search, diverse and
stochastic beams, contrastive decoding, and the plain model. A strategy of your own is a name and parameters; beside the sampling parameters
there are beams, beam_style, length_penalty, diverse, diversity_penalty, stochastic, contrast, alpha and beta. Sampling parameters
on the command line hold for all strategies, where a strategy has no value of its own: a strategy goes before a flag, that before
--params, that before --preset, that before the defaults. The settings of the model play no part.

  logprob, perplexity   of a token under the model itself, whatever the strategy made of it
  d-1, d-2, d-3         distinct words, pairs and triples of words among all
  rep-4                 runs of four tokens that were there before in the same text
  zip                   bytes of the texts by bytes after zlib
  entropy, kept         bits, and tokens that could be drawn: means over the steps

Example:
  onedraw compare \"Once upon a time\" --strategy greedy --strategy 'mine:{\"temperature\":0.8,\"min_p\":0.1}'")]
pub struct Arguments {
    /// The beginning of the text
    #[arg(value_name = "PROMPT", default_value = "Once upon a time")]
    prompt: String,
    #[command(flatten)]
    model: ModelFlags,
    /// A weaker model with the same tokens for contrastive decoding [default: the embedded model's drafter]
    #[arg(long, value_name = "DIR")]
    amateur: Option<PathBuf>,
    /// A strategy, several times: NAME:JSON, or the name of a usual one
    #[arg(long = "strategy", value_name = "NAME:JSON")]
    strategies: Vec<String>,
    /// How to print: a table and the texts to read, or one JSON object a strategy
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write a page with texts, metrics and charts to this file too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    parameters: ParameterFlags,
}

/// Compares and prints.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8> {
    let model = Model::open(&arguments.model)?;
    let amateur = amateur(arguments, &model)?;
    let strategies = match &arguments.strategies[..] {
        [] => Strategy::usual(amateur.is_some())?,
        named => {
            let read = |text: &String| text.parse().map_err(|error| anyhow!("--strategy: {error:#}"));
            named.iter().map(read).collect::<Result<_>>()?
        }
    };
    unused::reports(&arguments.parameters, "a comparison", "onedraw generate --format json shows it")?;
    for Strategy { name, search, .. } in &strategies {
        if let Search::Beams(_) = search {
            unused::by_beams(&arguments.parameters, false, Some(name))?;
        }
    }
    let prompt = model.tokenizer.encode(&arguments.prompt)?;
    if prompt.is_empty() {
        bail!("the prompt is empty, and the model has no token that begins a text");
    }
    let scene = Scene {
        model: &model.llama,
        amateur: amateur.as_ref(),
        tokenizer: &model.tokenizer,
        prompt: &prompt,
        kernel: arguments.model.kernel,
    };
    let page = arguments.html.clone().map(|path| Destination::open("--html", path)).transpose()?;
    let progress = progress(strategies.len());
    let mut measured: Vec<Measured> = Vec::new();
    for strategy in &strategies {
        progress.set_message(strategy.name.clone());
        let params = params(arguments, &model, strategy)?;
        measured.push(scene.measure(strategy, &params)?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    match arguments.format {
        Format::Table => table::write(out, &arguments.prompt, &measured)?,
        Format::Json => {
            for measured in &measured {
                serde_json::to_writer(&mut *out, measured).map_err(std::io::Error::from)?;
                writeln!(out)?;
            }
        }
    }
    if let Some(file) = page {
        file.write(page::page(&arguments.prompt, &measured).as_bytes())?;
    }
    Ok(DONE)
}

/// The most texts of a strategy.
const MOST_TEXTS: u32 = 64;

/// A strategy's parameters for this model and these arguments.
fn params(arguments: &Arguments, model: &Model, strategy: &Strategy) -> Result<SamplingParams> {
    let named = |error: anyhow::Error| anyhow!("--strategy: {}: {error:#}", strategy.name);
    let mut params = arguments.parameters.with(&strategy.params).map_err(named)?;
    params.seed = params.seed.or(Some(0));
    if params.n > MOST_TEXTS {
        bail!("--n: must be in [1, {MOST_TEXTS}], not {}", params.n);
    }
    // A search cannot give more texts than it has beams.
    params.n = match &strategy.search {
        Search::Draw => params.n,
        Search::Beams(beams) => params.n.min(u32::try_from(beams.width).unwrap_or(u32::MAX)).max(1),
        Search::Stochastic(width) => params.n.min(u32::try_from(*width).unwrap_or(u32::MAX)).max(1),
    };
    model.generation.end_texts(&mut params);
    arguments.parameters.cut(&mut params, &model.tokenizer)?;
    Ok(params)
}

fn amateur(arguments: &Arguments, model: &Model) -> Result<Option<Llama>> {
    let llama = match &arguments.amateur {
        Some(folder) => {
            let tokenizer = onedraw_lm::Tokenizer::open(folder)?;
            model.tokenizer.check_same(&tokenizer).map_err(|error| anyhow!("--amateur: {error}"))?;
            Llama::open(folder)?
        }
        None if model.is_embedded() => stories::drafter()?,
        None => return Ok(None),
    };
    Ok(Some(model.on_its_threads(llama)?))
}

/// A progress bar, if standard error is a terminal.
fn progress(strategies: usize) -> ProgressBar {
    match std::io::stderr().is_terminal() {
        true => bar(strategies, "{bar:30} {pos}/{len} {msg}"),
        false => ProgressBar::hidden(),
    }
}
