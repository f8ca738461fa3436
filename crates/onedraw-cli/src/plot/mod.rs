//! `onedraw plot`: pictures of what parameters do.
//!
//! A figure is made first: `panels` (distributions side by side), `generation` (a whole text) or `tree` (a
//! beam search). Then `picture` paints it to a file, or `terminal` prints it.

mod generation;
pub(crate) mod label;
mod panels;
mod picture;
mod terminal;
mod tree;
mod vary;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use onedraw::beam::Expansion;
use onedraw::{Constraint, SamplingParams};
use onedraw_grammar::Matcher;
use onedraw_lm::{Beams, GenerationConfig, Generator, LanguageModel, Run, Tokenizer};
use serde_json::Value;

use crate::destination::Destination;
use crate::exit::DONE;
use crate::flags::beams::BeamFlags;
use crate::flags::constraint::ConstraintFlags;
use crate::flags::contrast::{ContrastFlags, with_counterpart};
use crate::flags::parameters::ParameterFlags;
use crate::flags::unused;
use crate::kernel::check_kernel;
use crate::logits;
use crate::matrix::{Matrix, Values};
use crate::model::{Model, ModelFlags};
use crate::plot::generation::Generation;
use crate::plot::label::{end_of, label, plain, shorten};
use crate::plot::panels::{Panels, Setting};
use crate::plot::picture::{Form, Picture};
use crate::plot::tree::Tree;
use crate::plot::vary::varied;
use crate::redrawn::{redraw, sampler};

/// The most characters of a panel's heading.
const HEADING: usize = 24;

/// The arguments of `onedraw plot`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --vary, --pipeline, --generation or --beams: the next token at temperatures 0.5, 1 and 2. What --seed (0 by default) draws is orange, in the
terminal marked by an arrow. Parameters: a flag goes before --params, that before --preset, that before the model's
generation_config.json with --pipeline, --generation and --beams, that before the defaults. --vary begins with the model's own
distribution.

Examples:
  onedraw plot --prompt \"Tom saw a big\" --vary top_p=0.5,0.9,1 --output top-p.svg
  onedraw plot --prompt \"Tom saw a big\" --pipeline --temperature 0.8 --top-k 20 --min-p 0.05
  onedraw plot --prompt \"Tom saw a big\" --beams 3 --max-tokens 5 --output beams.png
  onedraw plot --logits examples/logits.npy --row 1 --vary temperature=0.7,1.3")]
pub struct Arguments {
    /// The text whose next token is looked at
    #[arg(long, value_name = "TEXT", default_value = "Once upon a time, there was a little")]
    prompt: String,
    /// Look at a row of this file instead (.npy or .safetensors, or - for a .npy on standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "generation", "beams"])]
    #[arg(conflicts_with_all = ["contrast", "guidance", "dola", "ConstraintFlags"])]
    logits: Option<PathBuf>,
    /// Which row of the file
    #[arg(long, value_name = "N", default_value_t = 0, requires = "logits")]
    row: usize,
    /// Several values of any one parameter, or of alpha, beta or guidance, side by side: NAME=VALUE,VALUE,…
    #[arg(long, value_name = "NAME=VALUES", conflicts_with_all = ["pipeline", "generation", "beams"])]
    vary: Option<String>,
    /// What each stage of the chain does to the row
    #[arg(long, conflicts_with_all = ["generation", "beams"])]
    pipeline: bool,
    /// A whole text: of each step the probability of what was drawn, the entropy, and how many tokens could
    /// be drawn
    #[arg(long, conflicts_with = "beams")]
    generation: bool,
    /// How many tokens a distribution shows, the most likely ones
    #[arg(long, value_name = "N", default_value_t = 12)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=100))]
    tokens: u8,
    /// Write a picture to this .svg or .png file; without it, bars in the terminal
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    model: ModelFlags,
    #[command(flatten)]
    beams: BeamFlags,
    #[command(flatten)]
    constraint: ConstraintFlags,
    #[command(flatten)]
    contrast: ContrastFlags,
    #[command(flatten)]
    parameters: ParameterFlags,
}

/// What is shown. Panels and trees come with the labels of their tokens.
enum Figure {
    Panels(Panels, Vec<String>),
    Generation(Generation),
    Tree(Tree, Vec<String>),
}

impl Figure {
    fn picture(&self) -> Picture {
        match self {
            Self::Panels(panels, labels) => picture::panels::picture(panels, labels),
            Self::Generation(generation) => picture::generation::picture(generation),
            Self::Tree(tree, labels) => picture::tree::picture(tree, labels),
        }
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        match self {
            Self::Panels(panels, labels) => terminal::panels(out, panels, labels),
            Self::Generation(generation) => terminal::generation(out, generation),
            Self::Tree(tree, labels) => terminal::tree(out, tree, labels),
        }
    }
}

/// Draws a figure and writes it.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8> {
    let output = match &arguments.output {
        Some(path) => {
            let form = Form::of(path).map_err(|error| anyhow!("--output {}: {error}", path.display()))?;
            Some((form, path, Destination::open("--output", path.clone())?))
        }
        None => None,
    };
    unused::reports(&arguments.parameters, "a picture", "onedraw generate --format json shows it")?;
    if arguments.beams.is_asked() {
        unused::by_beams(&arguments.parameters, arguments.beams.is_stochastic(), None)?;
    }
    let figure = match (arguments.generation, arguments.beams.is_asked()) {
        (true, _) => Figure::Generation(arguments.generation()?),
        (_, true) => arguments.tree()?,
        _ => arguments.panels()?,
    };
    match output {
        Some((form, path, file)) => {
            file.write(&figure.picture().encode(form)?)?;
            writeln!(std::io::stderr(), "wrote {}", path.display())?;
        }
        None => figure.print(out)?,
    }
    Ok(DONE)
}

/// Rows, and what is known about them.
struct Scene {
    /// A matrix and a row of it: one for each value if a number of contrast is varied, else one for all
    /// values.
    rows: Vec<(Matrix, usize)>,
    /// The tokens before them.
    prompt: Vec<u32>,
    tokenizer: Option<Arc<Tokenizer>>,
    constraint: Option<Matcher>,
    /// The model's own settings, and the tokens that end its texts. Empty if the rows come from a file.
    generation: GenerationConfig,
    title: String,
}

impl Arguments {
    fn panels(&self) -> Result<Figure> {
        let (name, values) = varied(self.vary.as_deref().unwrap_or("temperature=0.5,1,2"))?;
        let mut scene = match &self.logits {
            Some(_) if !ParameterFlags::is_parameter(&name) => {
                bail!("--vary {name}: a file has no model to set off")
            }
            Some(path) => self.row_of_file(path)?,
            None => self.rows_after_prompt(&name, &values)?,
        };
        let prepared = |mut params: SamplingParams| -> Result<SamplingParams> {
            scene.generation.end_texts(&mut params);
            if let Some(tokenizer) = &scene.tokenizer {
                self.parameters.cut(&mut params, tokenizer)?;
            }
            let seed = params.seed.or(Some(0));
            Ok(SamplingParams { prompt_token_ids: scene.prompt.clone(), seed, ..params })
        };
        let count = usize::from(self.tokens);
        let mask = scene.constraint.as_mut().map(|constraint| constraint.mask()).transpose()?;
        let row = |place: usize| {
            let (rows, row) = &scene.rows[place.min(scene.rows.len() - 1)];
            rows.row(*row)
        };
        let mut figure = if self.pipeline {
            let params = self.parameters.params(&scene.generation.params)?;
            panels::pipeline(row(0), prepared(params)?, mask, count)?
        } else {
            let each = values.into_iter().enumerate().map(|(place, (written, value))| {
                let is_parameter = ParameterFlags::is_parameter(&name);
                let own = is_parameter.then(|| (name.clone(), value)).into_iter().collect();
                let params = self.parameters.with(&own);
                let params = params.map_err(|error| anyhow!("--vary {name}={written}: {error}"))?;
                let heading = shorten(&plain(&format!("{name} {written}")), HEADING);
                Ok(Setting { heading, row: row(place), params: prepared(params)? })
            });
            panels::vary(each.collect::<Result<_>>()?, mask, count)?
        };
        figure.title = scene.title;
        let labels = figure.tokens.iter().map(|&token| label(scene.tokenizer.as_deref(), token)).collect();
        Ok(Figure::Panels(figure, labels))
    }

    fn row_of_file(&self, path: &Path) -> Result<Scene> {
        check_kernel(self.model.kernel)?;
        let rows = logits::load(path)?;
        let name = path.display();
        match rows.rows() {
            0 => bail!("{name}: there are no rows"),
            count if self.row >= count => {
                bail!("--row: {name} has rows 0 to {}, so {} is not there", count - 1, self.row)
            }
            _ => {}
        }
        let tokenizer = self.model.folder().map(Tokenizer::open).transpose()?.map(Arc::new);
        if let Some(tokens) = tokenizer.as_ref().map(|tokenizer| tokenizer.len())
            && tokens > rows.vocabulary()
        {
            bail!("--model: its tokenizer has {tokens} tokens, the row {}", rows.vocabulary());
        }
        let title = format!("Row {} of {name}", self.row);
        Ok(Scene {
            rows: vec![(rows, self.row)],
            prompt: Vec::new(),
            tokenizer,
            constraint: None,
            generation: GenerationConfig::default(),
            title,
        })
    }

    /// The row after the prompt, once for each value if a number of contrast is varied.
    fn rows_after_prompt(&self, name: &str, values: &[(String, Value)]) -> Result<Scene> {
        let model = Model::open(&self.model)?;
        let prompt = self.encode(&model)?;
        let each: Vec<ContrastFlags> = match ParameterFlags::is_parameter(name) {
            true => vec![self.contrast.clone()],
            false => {
                let with = |(written, value): &(String, Value)| {
                    let flags = match value.as_f64() {
                        Some(value) => self.contrast.with(name, value),
                        None => Err(anyhow!("is not a number")),
                    };
                    flags.map_err(|error| anyhow!("--vary {name}={written}: {error}"))
                };
                values.iter().map(with).collect::<Result<_>>()?
            }
        };
        let row = |flags: &ContrastFlags| -> Result<(Matrix, usize)> {
            let counterpart = flags.counterpart(&model, prompt.len())?;
            let logits = with_counterpart!(&model.llama, counterpart, |model| last_row(model, &prompt)?);
            let rows = Matrix::new(1, model.llama.vocabulary(), Values::F32(logits));
            Ok((rows.ok_or_else(|| anyhow!("the model gave no row"))?, 0))
        };
        let rows = each.iter().map(row).collect::<Result<_>>()?;
        let constraint = self.constraint.matcher(&model, &self.params(&model, 1)?)?;
        let Model { tokenizer, generation, .. } = model;
        let title = self.title("The next token after");
        Ok(Scene { rows, prompt, tokenizer: Some(tokenizer), constraint, generation, title })
    }

    /// The prompt's tokens.
    fn encode(&self, model: &Model) -> Result<Vec<u32>> {
        let prompt = model.tokenizer.encode(&self.prompt)?;
        if prompt.is_empty() {
            bail!("the prompt is empty, and the model has no token that begins a text");
        }
        Ok(prompt)
    }

    fn title(&self, words: &str) -> String {
        // The end of a long prompt says the most about the next token.
        format!("{words} “{}”", end_of(&plain(&self.prompt), 60))
    }

    /// The parameters that `generate` would take, with as many tokens as a picture shows well.
    fn params(&self, model: &Model, max_tokens: u32) -> Result<SamplingParams> {
        let mut params = self.parameters.params(&model.generation.params)?;
        params.seed = params.seed.or(Some(0));
        if self.parameters.given("max_tokens")?.is_none() {
            params.max_tokens = max_tokens;
            params.min_tokens = params.min_tokens.min(max_tokens);
        }
        model.generation.end_texts(&mut params);
        self.parameters.cut(&mut params, &model.tokenizer)?;
        Ok(params)
    }

    fn generation(&self) -> Result<Generation> {
        let model = Model::open(&self.model)?;
        let prompt = self.encode(&model)?;
        let params = SamplingParams { n: 1, ..self.params(&model, 48)? };
        let constraint = self.constraint.matcher(&model, &params)?;
        let counterpart = self.contrast.counterpart(&model, prompt.len())?;
        let redrawn = with_counterpart!(&model.llama, counterpart, |with| {
            let mut generator = Generator::new(with, &*model.tokenizer).kernel(self.model.kernel);
            match &constraint {
                Some(constraint) => generator.add_constrained(&prompt, params.clone(), constraint)?,
                None => generator.add(&prompt, params.clone())?,
            };
            let text = generator.finish()?.pop().ok_or_else(|| anyhow!("the model wrote nothing"))?;
            if let Some(error) = text.error {
                bail!("{error}");
            }
            let tokens: Vec<u32> = text.tokens.iter().map(|sampled| sampled.token).collect();
            let sampler = sampler(&params, &prompt, 0)?.kernel(self.model.kernel);
            redraw(with, sampler, &prompt, &tokens, constraint.map(|constraint| constraint.fork()))?
        });
        let labels = redrawn.iter().map(|one| label(Some(&model.tokenizer), one.token)).collect();
        Ok(Generation { title: self.title("A text after"), tokens: redrawn, labels })
    }

    fn tree(&self) -> Result<Figure> {
        let model = Model::open(&self.model)?;
        let prompt = self.encode(&model)?;
        let params = self.params(&model, 6)?;
        let constraint = self.constraint.matcher(&model, &params)?;
        let counterpart = self.contrast.counterpart(&model, prompt.len())?;
        let mut tree = Tree::default();
        let mut watch = |expansion: &Expansion| tree.grow(expansion);
        let best = with_counterpart!(&model.llama, counterpart, |with| {
            let mut beams = Beams::new(with, &*model.tokenizer).kernel(self.model.kernel);
            if let Some(constraint) = &constraint {
                beams = beams.constrained(constraint);
            }
            self.beams.best(beams.watched(&mut watch), &prompt, params)?
        });
        tree.mark(&best);
        let words = if self.beams.is_stochastic() { "Beams drawn after" } else { "Beams after" };
        tree.title = self.title(words);
        let labels = tree.nodes.iter().map(|node| label(Some(&model.tokenizer), node.token)).collect();
        Ok(Figure::Tree(tree, labels))
    }
}

/// The logits after a prompt.
fn last_row<M: LanguageModel>(model: &M, prompt: &[u32]) -> Result<Vec<f32>> {
    let mut sequence = model.start();
    let answer = model.forward(&mut [Run::line(&mut sequence, prompt)])?.pop();
    Ok(answer.map(|answer| answer.logits).unwrap_or_default())
}
