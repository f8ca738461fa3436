//! What a traced text was contrasted with, once more.

use std::cell::OnceCell;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use onedraw::{Contrast, ParamError};
use onedraw_lm::contrast::{Dola, Guided};
use onedraw_lm::trace::Counterpart as Traced;
use onedraw_lm::{LanguageModel, Llama};

use crate::flags::contrast::{Amateur, Counterpart, amateur};
use crate::model::{Model, short};

/// Makes counterparts of a model's texts. The weaker model is opened once.
pub struct Counterparts<'a> {
    model: &'a Model,
    folder: Option<&'a str>,
    any_model: bool,
    weaker: OnceCell<Arc<Llama>>,
}

impl<'a> Counterparts<'a> {
    /// `folder` is that of the weaker model, if one is named; with `any_model` it may have any weights.
    pub fn new(model: &'a Model, folder: Option<&'a str>, any_model: bool) -> Self {
        Self { model, folder, any_model, weaker: OnceCell::new() }
    }

    /// The counterpart of a text, which has a prompt of so many tokens.
    pub fn of(&self, traced: Option<&Traced>, prompt: usize) -> Result<Counterpart<'a>> {
        let wrong = |error: ParamError| anyhow!("`contrast`: {error}");
        let llama = &self.model.llama;
        match traced {
            None => Ok(Counterpart::None),
            Some(Traced::Amateur { model, alpha, beta, amateur_temperature }) => {
                let contrast = match beta {
                    Some(beta) => Contrast::obrien(*alpha, *beta),
                    None => Contrast::li(*alpha, *amateur_temperature),
                };
                let contrast = contrast.map_err(wrong)?;
                let weaker = self.weaker()?;
                if !self.any_model && weaker.sha256() != model {
                    bail!(
                        "was contrasted with another model: its weights have the SHA-256 {}, these {}; name its folder with --amateur",
                        short(model),
                        short(weaker.sha256())
                    );
                }
                Ok(Counterpart::Amateur(Box::new(Amateur::new(weaker, contrast))))
            }
            Some(Traced::Guidance { scale, negative_prompt_token_ids: negative }) => {
                let contrast = Contrast::guidance(*scale).map_err(wrong)?;
                let is_token = |&token: &u32| (token as usize) < llama.vocabulary();
                if negative.is_empty() || !negative.iter().all(is_token) {
                    bail!("`contrast`: the negative prompt is no text of this model");
                }
                Ok(Counterpart::NegativePrompt(Guided::new(llama, prompt, negative, contrast)?))
            }
            Some(Traced::Dola { alpha, layers }) => {
                let contrast = Contrast::dola(*alpha).map_err(wrong)?;
                Ok(Counterpart::Layers(Dola::new(llama, layers, contrast)?))
            }
        }
    }

    fn weaker(&self) -> Result<Arc<Llama>> {
        if let Some(weaker) = self.weaker.get() {
            return Ok(weaker.clone());
        }
        let opened = Arc::new(amateur(self.model, self.folder.unwrap_or_default(), "--amateur")?);
        Ok(self.weaker.get_or_init(|| opened).clone())
    }
}
