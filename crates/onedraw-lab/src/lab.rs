//! The laboratory: a model, who guesses for it, and the rows of what was written with it.

use onedraw::Kernel;
use onedraw_lm::speculate::{Drafter, EarlyExit, Ngram};
use onedraw_lm::{LanguageModel, ModelError};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::rows::Rows;
use crate::subject::Subject;

/// How many of the last tokens the drafter that copies looks up at most.
const NGRAM: usize = 3;

/// Answers questions about a model.
pub struct Lab<'a, M: LanguageModel> {
    pub(crate) model: &'a M,
    pub(crate) subject: &'a Subject,
    pub(crate) kernel: Kernel,
    pub(crate) drafters: Vec<Offer<'a, M>>,
    pub(crate) rows: Rows,
}

/// A drafter that texts can be written with.
pub(crate) struct Offer<'a, M: LanguageModel> {
    pub name: String,
    pub sentence: String,
    pub drafter: Box<dyn Drafter<'a, M> + 'a>,
}

impl<'a, M: LanguageModel> Lab<'a, M> {
    /// A laboratory for a model and what belongs to it.
    pub fn new(model: &'a M, subject: &'a Subject) -> Self {
        Self { model, subject, kernel: Kernel::Auto, drafters: Vec::new(), rows: Rows::default() }
    }

    /// Draws with this instruction set. No token depends on it.
    pub fn kernel(self, kernel: Kernel) -> Self {
        Self { kernel, ..self }
    }

    /// Lets texts be written with this drafter, too. `sentence` says what it does.
    pub fn offering(
        mut self,
        name: impl Into<String>,
        sentence: impl Into<String>,
        drafter: impl Drafter<'a, M> + 'a,
    ) -> Self {
        let (name, sentence) = (name.into(), sentence.into());
        self.drafters.push(Offer { name, sentence, drafter: Box::new(drafter) });
        self
    }

    /// Lets texts be written with the drafters that need no weights of their own.
    pub fn offering_own(self) -> Result<Self, ModelError> {
        let sentence = "Copies what followed the last tokens where they stood before";
        let lab = self.offering("ngram", sentence, Ngram::new(NGRAM)?);
        Ok(match EarlyExit::new(lab.model.layers() / 2, lab.model) {
            Ok(exit) => {
                lab.offering("early-exit", "Guesses with the first half of the model's own layers", exit)
            }
            // A model with one layer, or without the means.
            Err(_) => lab,
        })
    }

    pub(crate) fn offer(&self, name: &str) -> Result<&Offer<'a, M>, Failure> {
        self.drafters.iter().find(|offer| offer.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.drafters.iter().map(|offer| offer.name.as_str()).collect();
            let message = match names.is_empty() {
                true => "nobody guesses ahead for this model".to_owned(),
                false => format!("`{name}` does not guess for this model; there is {}", names.join(", ")),
            };
            Failure::field("question", "draft", message)
        })
    }

    pub(crate) fn offers(&self) -> Vec<Value> {
        let offer = |offer: &Offer<'a, M>| json!({"name": offer.name, "sentence": offer.sentence});
        self.drafters.iter().map(offer).collect()
    }
}
