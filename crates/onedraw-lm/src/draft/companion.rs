//! A drafter that is a second, smaller model.

use crate::draft::ahead::Ahead;
use crate::draft::drafter::Drafter;
use crate::error::ModelError;
use crate::model::{Asks, LanguageModel, Run, Sequence};

/// Guesses with a model that has the same tokens as the target and is much faster.
pub struct Companion<'a, D: LanguageModel> {
    model: &'a D,
    memory: D::Sequence,
    /// The tokens that the model has read: a text, and guesses after it.
    read: Vec<u32>,
}

impl<'a, D: LanguageModel> Companion<'a, D> {
    /// An error if the two do not have the same number of tokens.
    pub fn new(model: &'a D, target: &impl LanguageModel) -> Result<Self, ModelError> {
        let (own, its) = (model.vocabulary(), target.vocabulary());
        if own != its {
            return Err(ModelError::Request(format!(
                "the drafter has {own} tokens and the target {its}: they must be the same"
            )));
        }
        Ok(Self { model, memory: model.start(), read: Vec::new() })
    }

    /// The logits after a text and guesses. Only tokens that were not read yet go through the model.
    fn logits(&mut self, text: &[u32], guesses: &[u32]) -> Result<Vec<f32>, ModelError> {
        let tokens = || text.iter().chain(guesses).copied();
        let common = tokens().zip(&self.read).take_while(|(token, read)| token == *read).count();
        // The last token is read again if necessary, for its logits.
        let kept = common.min(text.len() + guesses.len() - 1);
        let new: Vec<u32> = tokens().skip(kept).collect();
        self.memory.cut(kept);
        self.read.truncate(kept);
        let asks = Asks { frequent: true, ..Asks::default() };
        let mut answers = self.model.forward(&mut [Run { asks, ..Run::line(&mut self.memory, &new) }])?;
        self.read.extend(new);
        Ok(answers.pop().map(|answer| answer.logits).unwrap_or_default())
    }
}

impl<'a, M: LanguageModel, D: LanguageModel> Drafter<'a, M> for Companion<'a, D> {
    fn fork(&self) -> Box<dyn Drafter<'a, M> + 'a> {
        Box::new(Self { model: self.model, memory: self.memory.clone(), read: self.read.clone() })
    }

    fn guess(&mut self, ahead: &mut Ahead<'_, M>) -> Result<(), ModelError> {
        let text = ahead.text();
        let context = self.model.context();
        if text.len() > context {
            return Ok(());
        }
        let logits = self.logits(text, &[])?;
        let mut next = ahead.grow(None, &logits);
        while let Some(node) = next {
            let path = ahead.path(node);
            if text.len() + path.len() > context {
                break;
            }
            let logits = self.logits(text, &path)?;
            next = ahead.grow(Some(node), &logits);
        }
        Ok(())
    }
}
