//! What the model is set off against: `--contrast`, `--guidance` and `--dola`.

use std::path::Path;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use onedraw::Contrast;
use onedraw_lm::contrast::{Contrasted, Dola, Guided};
use onedraw_lm::{Llama, Tokenizer, stories};

use crate::model::Model;

/// At most one of the three.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Contrast")]
pub struct ContrastFlags {
    /// Set the model off against a weaker one with the same tokens [without DIR: the embedded model's drafter]
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    #[arg(group = "contrasting")]
    contrast: Option<String>,
    /// A token must be so many times as likely as the best to be plausible
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, requires = "contrasting")]
    alpha: f64,
    /// As O'Brien and Lewis 2023: (1 + BETA) times the model less BETA times the other. Without it as Li and others 2022: the difference
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

/// The model that texts come from.
pub enum Opponent<'a> {
    Nobody,
    Amateur(Box<Amateur>),
    Negative(Guided<'a, Llama>),
    Layers(Dola<'a>),
}

/// A weaker model, and how it is set off.
pub struct Amateur {
    llama: Llama,
    contrast: Contrast,
}

impl Amateur {
    pub fn with<'a>(&'a self, expert: &'a Llama) -> Result<Contrasted<'a, Llama, Llama>> {
        Ok(Contrasted::new(expert, &self.llama, self.contrast)?)
    }
}

/// Gives the model that `$opponent` makes of `$expert` to `$body`, whatever its type.
macro_rules! set_off {
    ($expert:expr, $opponent:expr, |$model:ident| $body:expr) => {
        match $opponent {
            $crate::flags::contrast::Opponent::Nobody => {
                let $model = $expert;
                $body
            }
            $crate::flags::contrast::Opponent::Amateur(amateur) => {
                let $model = &amateur.with($expert)?;
                $body
            }
            $crate::flags::contrast::Opponent::Negative($model) => {
                let $model = &$model;
                $body
            }
            $crate::flags::contrast::Opponent::Layers($model) => {
                let $model = &$model;
                $body
            }
        }
    };
}
pub(crate) use set_off;

impl ContrastFlags {
    /// The names of its numbers.
    pub const NUMBERS: [&str; 4] = ["alpha", "beta", "amateur_temperature", "guidance"];

    /// The same with another value of the number of that name, where there is something that it belongs to.
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

    /// Against what `model` is set off, for a prompt of so many tokens.
    pub fn opponent<'a>(&self, model: &'a Model, prompt: usize) -> Result<Opponent<'a>> {
        let named = |error: onedraw::ParamError| {
            anyhow!("--{}: {}", error.field().replace('_', "-"), error.message())
        };
        if let Some(folder) = &self.contrast {
            let contrast = match self.beta {
                Some(beta) => Contrast::obrien(self.alpha, beta),
                None => Contrast::li(self.alpha, self.amateur_temperature),
            };
            let llama = self.amateur(model, folder)?;
            return Ok(Opponent::Amateur(Box::new(Amateur { llama, contrast: contrast.map_err(named)? })));
        }
        if let Some(scale) = self.guidance {
            let contrast = Contrast::guidance(scale).map_err(named)?;
            let negative = model.tokenizer.encode(self.negative_prompt.as_deref().unwrap_or_default())?;
            if negative.is_empty() {
                bail!("--negative-prompt: is empty, and the model has no token that begins a text");
            }
            return Ok(Opponent::Negative(Guided::new(&model.llama, prompt, &negative, contrast)?));
        }
        if let Some(layers) = &self.dola {
            let contrast = Contrast::dola(self.alpha).map_err(named)?;
            let number = |layer: &str| {
                let number = layer.trim().parse::<usize>().ok().filter(|layer| *layer > 0);
                number.ok_or_else(|| anyhow!("--dola: `{layer}` is not the number of a layer"))
            };
            let layers = match layers.as_str() {
                "" => Vec::new(),
                layers => layers.split(',').map(number).collect::<Result<_>>()?,
            };
            return Ok(Opponent::Layers(Dola::new(&model.llama, &layers, contrast)?));
        }
        if self.negative_prompt.is_some() {
            bail!("--negative-prompt: needs --guidance");
        }
        Ok(Opponent::Nobody)
    }

    /// The weaker model in a folder; without one, that of the embedded model.
    fn amateur(&self, model: &Model, folder: &str) -> Result<Llama> {
        let path = Path::new(folder);
        let (llama, tokenizer) = match folder.is_empty() {
            true if model.is_embedded() => (stories::drafter()?, stories::tokenizer()?),
            true => bail!("--contrast: only the embedded model comes with a weaker one; name a folder"),
            false => (Llama::open(path)?, Tokenizer::open(path)?),
        };
        model.tokenizer.check_same(&tokenizer).map_err(|error| anyhow!("--contrast: {error}"))?;
        Ok(model.on_its_threads(llama)?)
    }
}
