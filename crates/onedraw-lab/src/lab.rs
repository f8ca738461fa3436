//! The laboratory: a model, its drafters, and the rows of the texts that it wrote.

use crate::failure::Failure;
use crate::own::{COPIES, EXITS, half};
use crate::rows::Rows;
use crate::subject::Subject;
use onedraw::Kernel;
use onedraw_lm::speculate::{AnyDrafter, Drafter, Ngram};
use onedraw_lm::{LanguageModel, ModelError};

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
    pub drafter: AnyDrafter<'a, M>,
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

    /// Keeps rows of so many bytes for looks: 64 MiB unless this is set. No answer depends on it.
    pub fn memory(self, bytes: usize) -> Self {
        Self { rows: Rows::within(bytes), ..self }
    }

    /// Has a drafter that the subject [offers](Subject::offering) under this name. It may come later than the first
    /// questions; until then, a text that asks for it is an error.
    pub fn add_drafter(&mut self, name: impl Into<String>, drafter: impl Drafter<M> + 'a) {
        self.drafters.push(Offer { name: name.into(), drafter: AnyDrafter::new(drafter) });
    }

    /// Has the drafters that need no weights of their own, as far as the subject [offers](Subject::offering_own) them.
    pub fn with_own_drafters(mut self) -> Result<Self, ModelError> {
        if self.subject.offers(COPIES) {
            self.add_drafter(COPIES, Ngram::new(NGRAM)?);
        }
        if self.subject.offers(EXITS) {
            self.add_drafter(EXITS, half(self.model)?);
        }
        Ok(self)
    }

    pub(crate) fn drafter(&self, name: &str) -> Result<&AnyDrafter<'a, M>, Failure> {
        let found = self.drafters.iter().find(|offer| offer.name == name);
        found
            .map(|offer| &offer.drafter)
            .ok_or_else(|| Failure::field("question", "draft", format!("the drafter `{name}` is not loaded")))
    }
}
