//! What the model's logits are contrasted with: `--contrast`, `--guidance` and `--dola`.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use onedraw::Contrast;
use onedraw_lm::contrast::{Contrasted, Dola, Guided};
use onedraw_lm::trace::Counterpart as Traced;
use onedraw_lm::{Llama, Tokenizer, stories};

use crate::model::Model;

/// At most one of the three.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Contrast")]
pub struct ContrastFlags {
    /// Set the model off against a weaker one with the same tokens [without DIR: the embedded model's
    /// drafter]
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(group = "contrasting")]
    contrast: Option<String>,
    /// A token must be so many times as likely as the best to be plausible
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, requires = "contrasting")]
    alpha: f64,
    /// As O'Brien and Lewis 2023: (1 + BETA) times the model less BETA times the other. Without it as Li and
    /// others 2022: the difference
    #[arg(long, value_name = "BETA", requires = "contrast", conflicts_with = "amateur_temperature")]
    beta: Option<f64>,
    /// The temperature of the weaker model
    #[arg(long, value_name = "T", default_value_t = 1.0, requires = "contrast")]
    amateur_temperature: f64,
    /// Away from what would follow another prompt: 1 is not at all
    #[arg(long, value_name = "SCALE", allow_negative_numbers = true, conflicts_with = "contrasting")]
    guidance: Option<f64>,
    /// That other prompt; without it, the beginning of any text
    #[arg(long, value_name = "TEXT")]
    negative_prompt: Option<String>,
    /// Set the last layer off against earlier ones, such as 1,2,4 [without LAYERS: the lower half]
    #[arg(long, value_name = "LAYERS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(group = "contrasting")]
    dola: Option<String>,
}

/// What the model is contrasted with.
pub enum Counterpart<'a> {
    None,
    Amateur(Box<Amateur>),
    NegativePrompt(Guided<'a, Llama>),
    Layers(Dola<'a>),
}

/// A weaker model, and how the two rows of logits become one.
pub struct Amateur {
    llama: Arc<Llama>,
    contrast: Contrast,
}

impl Amateur {
    pub fn new(llama: Arc<Llama>, contrast: Contrast) -> Self {
        Self { llama, contrast }
    }

    /// The model that both make together.
    pub fn with<'a>(&'a self, expert: &'a Llama) -> Result<Contrasted<'a, Llama, Llama>> {
        Ok(Contrasted::new(expert, &*self.llama, self.contrast)?)
    }
}

/// Runs `$body` with the model that `$expert` and `$counterpart` make together. Each counterpart makes a
/// model of another type, so this is a macro and not a function.
macro_rules! with_counterpart {
    ($expert:expr, $counterpart:expr, |$model:ident| $body:expr) => {
        match $counterpart {
            $crate::flags::contrast::Counterpart::None => {
                let $model = $expert;
                $body
            }
            $crate::flags::contrast::Counterpart::Amateur(amateur) => {
                let $model = &amateur.with($expert)?;
                $body
            }
            $crate::flags::contrast::Counterpart::NegativePrompt($model) => {
                let $model = &$model;
                $body
            }
            $crate::flags::contrast::Counterpart::Layers($model) => {
                let $model = &$model;
                $body
            }
        }
    };
}
pub(crate) use with_counterpart;

impl ContrastFlags {
    /// The names of the flags that are numbers.
    pub const NUMBERS: [&str; 4] = ["alpha", "beta", "amateur_temperature", "guidance"];

    /// The same flags with another value for the number of that name. An error if the number has no effect
    /// here.
    pub fn with(&self, name: &str, value: f64) -> Result<Self> {
        let flags = self.clone();
        let (has_amateur, has_layers) = (self.contrast.is_some(), self.dola.is_some());
        Ok(match name {
            "alpha" if has_amateur || has_layers => Self { alpha: value, ..flags },
            "beta" if has_amateur && self.amateur_temperature == 1.0 => Self { beta: Some(value), ..flags },
            "beta" if has_amateur => bail!("cannot be used with --amateur-temperature"),
            "amateur_temperature" if has_amateur && self.beta.is_none() => {
                Self { amateur_temperature: value, ..flags }
            }
            "amateur_temperature" if has_amateur => bail!("cannot be used with --beta"),
            "guidance" if !has_amateur && !has_layers => Self { guidance: Some(value), ..flags },
            "guidance" => bail!("cannot be used with --contrast or --dola"),
            "alpha" => bail!("needs --contrast or --dola"),
            _ => bail!("needs --contrast"),
        })
    }

    /// What `model` is contrasted with, for a prompt of so many tokens.
    pub fn counterpart<'a>(&self, model: &'a Model, prompt: usize) -> Result<Counterpart<'a>> {
        let named = |error: onedraw::ParamError| {
            anyhow!("--{}: {}", error.field().replace('_', "-"), error.message())
        };
        if let Some(folder) = &self.contrast {
            let contrast = match self.beta {
                Some(beta) => Contrast::obrien(self.alpha, beta),
                None => Contrast::li(self.alpha, self.amateur_temperature),
            };
            let llama = Arc::new(amateur(model, folder, "--contrast")?);
            return Ok(Counterpart::Amateur(Box::new(Amateur::new(llama, contrast.map_err(named)?))));
        }
        if let Some(scale) = self.guidance {
            let contrast = Contrast::guidance(scale).map_err(named)?;
            let negative = model.tokenizer.encode(self.negative_prompt.as_deref().unwrap_or_default())?;
            if negative.is_empty() {
                bail!("--negative-prompt: is empty, and the model has no token that begins a text");
            }
            return Ok(Counterpart::NegativePrompt(Guided::new(&model.llama, prompt, &negative, contrast)?));
        }
        if self.dola.is_some() {
            let contrast = Contrast::dola(self.alpha).map_err(named)?;
            return Ok(Counterpart::Layers(Dola::new(&model.llama, &self.layers()?, contrast)?));
        }
        if self.negative_prompt.is_some() {
            bail!("--negative-prompt: needs --guidance");
        }
        Ok(Counterpart::None)
    }

    /// What a trace says of it.
    pub fn traced(&self, model: &Model, counterpart: &Counterpart<'_>) -> Result<Option<Traced>> {
        Ok(match counterpart {
            Counterpart::None => None,
            Counterpart::Amateur(amateur) => Some(Traced::Amateur {
                model: amateur.llama.sha256().to_owned(),
                alpha: self.alpha,
                beta: self.beta,
                amateur_temperature: self.amateur_temperature,
            }),
            Counterpart::NegativePrompt(_) => Some(Traced::Guidance {
                scale: self.guidance.unwrap_or(1.0),
                negative_prompt_token_ids: model
                    .tokenizer
                    .encode(self.negative_prompt.as_deref().unwrap_or_default())?,
            }),
            Counterpart::Layers(_) => Some(Traced::Dola { alpha: self.alpha, layers: self.layers()? }),
        })
    }

    /// The layers of `--dola`; none: the lower half.
    fn layers(&self) -> Result<Vec<usize>> {
        let number = |layer: &str| {
            let number = layer.trim().parse::<usize>().ok().filter(|layer| *layer > 0);
            number.ok_or_else(|| anyhow!("--dola: `{layer}` is not the number of a layer"))
        };
        match self.dola.as_deref().unwrap_or_default() {
            "" => Ok(Vec::new()),
            layers => layers.split(',').map(number).collect(),
        }
    }
}

/// The weaker model in a folder, or the embedded model's drafter if the folder is empty. `flag` names it in errors.
pub fn amateur(model: &Model, folder: &str, flag: &str) -> Result<Llama> {
    let path = Path::new(folder);
    let (llama, tokenizer) = match folder.is_empty() {
        true if model.is_embedded() => (stories::drafter()?, stories::tokenizer()?),
        true => bail!("{flag}: only the embedded model comes with a weaker one; name a folder"),
        false => (Llama::open(path)?, Tokenizer::open(path)?),
    };
    model.tokenizer.check_same(&tokenizer).map_err(|error| anyhow!("{flag}: {error}"))?;
    Ok(model.on_its_threads(llama)?)
}
