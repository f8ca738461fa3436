//! `onedraw plot`: pictures of what parameters do.

mod course;
mod label;
mod panels;
mod picture;
mod terminal;
mod tree;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use onedraw::beam::Expansion;
use onedraw::{Constraint, SamplingParams, presets};
use onedraw_grammar::Matcher;
use onedraw_lm::{Beams, Generator, LanguageModel, Run, Tokenizer};
use serde_json::{Map, Value};

use crate::destination::Destination;
use crate::exit::DONE;
use crate::flags::beams::BeamFlags;
use crate::flags::constraint::ConstraintFlags;
use crate::flags::contrast::{ContrastFlags, set_off};
use crate::flags::parameters::ParameterFlags;
use crate::kernel::check_kernel;
use crate::logits;
use crate::matrix::{Matrix, Values};
use crate::model::{Model, ModelFlags};
use crate::plot::course::Course;
use crate::plot::label::{end_of, label, plain, shorten};
use crate::plot::panels::{Panels, Setting};
use crate::plot::picture::{Form, Picture};
use crate::plot::tree::Tree;
use crate::steps::{sampler, steps};

/// The arguments of `onedraw plot`.
#[derive(Debug, Args)]
#[command(after_help = "\
Without --vary, --pipeline, --generation or --beams: the next token at temperatures 0.5, 1 and 2. What --seed (0 by default) draws is orange, in the
terminal marked by an arrow. --vary begins with the model's own distribution, and flags change it; --pipeline and --generation take what
onedraw generate would.

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
    /// A whole text: of each step the probability of what was drawn, the entropy, and how many tokens could be drawn
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
    /// Settings with a name; see onedraw presets
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(presets::NAMES))]
    preset: Option<String>,
    #[command(flatten)]
    beams: BeamFlags,
    #[command(flatten)]
    constraint: ConstraintFlags,
    #[command(flatten)]
    contrast: ContrastFlags,
    #[command(flatten)]
    parameters: ParameterFlags,
}

/// What is shown.
enum Figure {
    Panels(Panels, Vec<String>),
    Course(Course),
    Tree(Tree, Vec<String>),
}

impl Figure {
    fn picture(&self) -> Picture {
        match self {
            Self::Panels(panels, labels) => picture::panels::picture(panels, labels),
            Self::Course(course) => picture::course::picture(course),
            Self::Tree(tree, labels) => picture::tree::picture(tree, labels),
        }
    }

    fn print(&self, out: &mut impl Write) -> std::io::Result<()> {
        match self {
            Self::Panels(panels, labels) => terminal::panels(out, panels, labels),
            Self::Course(course) => terminal::course(out, course),
            Self::Tree(tree, labels) => terminal::tree(out, tree, labels),
        }
    }
}

/// Draws a figure and writes it.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8> {
    let output = match &arguments.output {
        Some(path) => {
            let form = Form::of(path).map_err(|error| anyhow!("--output {}: {error}", path.display()))?;
            Some((form, Destination::open("--output", path.clone())?))
        }
        None => None,
    };
    let figure = match (arguments.generation, arguments.beams.is_asked()) {
        (true, _) => Figure::Course(arguments.course()?),
        (_, true) => arguments.tree()?,
        _ => arguments.panels()?,
    };
    match output {
        Some((form, file)) => file.write(&figure.picture().encode(form)?)?,
        None => figure.print(out)?,
    }
    Ok(DONE)
}

/// Rows, and what is known of them.
struct Scene {
    /// One for each value of a number of contrast, or one for all.
    rows: Vec<(Matrix, usize)>,
    /// The tokens before them.
    prompt: Vec<u32>,
    tokenizer: Option<Arc<Tokenizer>>,
    constraint: Option<Matcher>,
    /// What the model comes with: settings, and the tokens that end a text.
    settings: Map<String, Value>,
    ends: Vec<u32>,
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
        let prepared = |mut params: SamplingParams| {
            if params.eos_token_id.is_empty() {
                params.eos_token_id = scene.ends.clone();
            }
            let seed = params.seed.or(Some(0));
            SamplingParams { prompt_token_ids: scene.prompt.clone(), seed, ..params }
        };
        let count = usize::from(self.tokens);
        let mask = scene.constraint.as_mut().map(|constraint| constraint.mask()).transpose()?;
        let row = |place: usize| {
            let (rows, row) = &scene.rows[place.min(scene.rows.len() - 1)];
            rows.row(*row)
        };
        let mut figure = if self.pipeline {
            let params = self.parameters.params(self.preset.as_deref(), &scene.settings)?;
            panels::pipeline(row(0), prepared(params), mask, count)?
        } else {
            let each = values.into_iter().enumerate().map(|(place, (written, value))| {
                let flags = match ParameterFlags::is_parameter(&name) {
                    true => self.parameters.with(&name, value),
                    false => self.parameters.clone(),
                };
                let params = flags.params(self.preset.as_deref(), &Map::new());
                let params = params.map_err(|error| anyhow!("--vary {name}={written}: {error}"))?;
                let heading = shorten(&plain(&format!("{name} {written}")), HEADING);
                Ok(Setting { heading, row: row(place), params: prepared(params) })
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
            settings: Map::new(),
            ends: Vec::new(),
            title,
        })
    }

    /// The row after the prompt, once for each value of a number of contrast.
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
            let opponent = flags.opponent(&model, prompt.len())?;
            let logits = set_off!(&model.llama, opponent, |model| last_row(model, &prompt)?);
            let rows = Matrix::new(1, model.llama.vocabulary(), Values::F32(logits));
            Ok((rows.ok_or_else(|| anyhow!("the model gave no row"))?, 0))
        };
        let rows = each.iter().map(row).collect::<Result<_>>()?;
        let constraint = self.constraint.matcher(&model, &self.params(&model, 1)?)?;
        let Model { tokenizer, generation, .. } = model;
        let (settings, ends) = (generation.params, generation.eos_token_ids);
        let title = self.title("The next token after");
        Ok(Scene { rows, prompt, tokenizer: Some(tokenizer), constraint, settings, ends, title })
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
        // The next token depends most on the end.
        format!("{words} “{}”", end_of(&plain(&self.prompt), 60))
    }

    /// What `generate` would take, with as many tokens as a picture shows well.
    fn params(&self, model: &Model, max_tokens: u32) -> Result<SamplingParams> {
        let mut params = self.parameters.params(self.preset.as_deref(), &model.generation.params)?;
        params.seed = params.seed.or(Some(0));
        if !self.parameters.has("max_tokens") {
            params.max_tokens = max_tokens;
            params.min_tokens = params.min_tokens.min(max_tokens);
        }
        if params.eos_token_id.is_empty() {
            params.eos_token_id = model.generation.eos_token_ids.clone();
        }
        Ok(params)
    }

    fn course(&self) -> Result<Course> {
        let model = Model::open(&self.model)?;
        let prompt = self.encode(&model)?;
        let params = SamplingParams { n: 1, ..self.params(&model, 48)? };
        let constraint = self.constraint.matcher(&model, &params)?;
        let opponent = self.contrast.opponent(&model, prompt.len())?;
        let steps = set_off!(&model.llama, opponent, |with| {
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
            steps(with, sampler, &prompt, &tokens, constraint.map(|constraint| constraint.fork()))?
        });
        let labels = steps.iter().map(|step| label(Some(&model.tokenizer), step.token)).collect();
        Ok(Course { title: self.title("A text after"), steps, labels })
    }

    fn tree(&self) -> Result<Figure> {
        let model = Model::open(&self.model)?;
        let prompt = self.encode(&model)?;
        let params = self.params(&model, 6)?;
        let constraint = self.constraint.matcher(&model, &params)?;
        let opponent = self.contrast.opponent(&model, prompt.len())?;
        let mut tree = Tree::default();
        let mut watch = |expansion: &Expansion| tree.grow(expansion);
        let best = set_off!(&model.llama, opponent, |with| {
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

/// Characters of a panel's heading.
const HEADING: usize = 24;

/// Parameters that say nothing of one draw.
const NOT_SEEN: [&str; 10] = [
    "banned_strings",
    "ignore_eos",
    "include_stop_str_in_output",
    "logprobs",
    "logprobs_mode",
    "max_tokens",
    "mirostat_eta",
    "n",
    "prompt_logprobs",
    "stop",
];

/// The parameter that is varied, and its values as they were written and read.
fn varied(text: &str) -> Result<(String, Vec<(String, Value)>)> {
    let (name, values) = text.split_once('=').ok_or_else(|| {
        anyhow!("--vary: NAME=VALUE,VALUE is wanted, such as temperature=0.5,1,2, not `{text}`")
    })?;
    let name = name.trim().replace('-', "_");
    if !ParameterFlags::is_parameter(&name) && !ContrastFlags::NUMBERS.contains(&name.as_str()) {
        bail!("--vary: `{name}` is not a parameter");
    }
    if NOT_SEEN.contains(&name.as_str()) {
        bail!("--vary: {name} does not change what can be drawn next");
    }
    let values: Vec<(String, Value)> = apart(values)
        .into_iter()
        .map(|value| (value.to_owned(), ParameterFlags::read(value, &name)))
        .collect();
    if values.iter().any(|(written, _)| written.is_empty()) {
        bail!("--vary: a value of {name} is missing");
    }
    Ok((name, values))
}

/// What commas separate, but for those within brackets and strings.
fn apart(text: &str) -> Vec<&str> {
    let (mut depth, mut in_string, mut is_escaped, mut start) = (0_i32, false, false, 0);
    let mut parts = Vec::new();
    for (place, character) in text.char_indices() {
        let was_escaped = std::mem::take(&mut is_escaped);
        match character {
            '\\' if in_string => is_escaped = !was_escaped,
            '"' if !was_escaped => in_string = !in_string,
            '[' | '{' if !in_string => depth += 1,
            ']' | '}' if !in_string => depth -= 1,
            ',' if !in_string && depth == 0 => {
                parts.push(text[start..place].trim());
                start = place + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_between_commas() {
        assert_eq!(apart("0.5, 1,2"), ["0.5", "1", "2"]);
        assert_eq!(
            apart(r#"{"5": 1, "7": [2,3]},{},"a,\"b""#),
            [r#"{"5": 1, "7": [2,3]}"#, "{}", r#""a,\"b""#]
        );
        assert_eq!(apart(""), [""]);
    }

    #[test]
    fn what_is_varied() {
        let error = |text: &str| varied(text).expect_err(text).to_string();
        let (name, values) = varied("top-k=1,-1").expect("values");
        assert_eq!((name.as_str(), values[1].1.as_i64()), ("top_k", Some(-1)));
        assert_eq!(error("heat=1"), "--vary: `heat` is not a parameter");
        assert_eq!(error("top_k=1,,2"), "--vary: a value of top_k is missing");
        assert!(error("top_k").starts_with("--vary: NAME=VALUE,VALUE is wanted"));
    }
}
