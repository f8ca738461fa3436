//! A drafter that is a second, smaller model.

use crate::draft::ahead::Ahead;
use crate::draft::drafter::Drafter;
use crate::error::ModelError;
use crate::model::{Asks, LanguageModel, Run, Sequence};

/// Guesses with a model that has the same tokens as the target and is much faster.
pub struct Companion<'a, D: LanguageModel> {
    model: &'a D,
    memory: D::Sequence,
    /// The first position of the text that the model has read.
    begins: usize,
    /// The tokens that it has read: the text from there on, and guesses after it.
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
        Ok(Self { model, memory: model.start(), begins: 0, read: Vec::new() })
    }

    /// Begins with the last tokens of a text if more than so many were not read.
    fn catch_up(&mut self, text: &[u32], most: usize) {
        let missed = self.begins + common(&self.read, text.get(self.begins..).unwrap_or_default());
        if text.len() <= self.begins || text.len() - missed > most {
            self.begins = text.len().saturating_sub(most);
            self.memory.cut(0);
            self.read.clear();
        }
    }

    /// The logits after a text and guesses. Only tokens that were not read yet go through the model.
    fn logits(&mut self, text: &[u32], guesses: &[u32]) -> Result<Vec<f32>, ModelError> {
        let tokens = [&text[self.begins..], guesses].concat();
        // The last token is read again if necessary, for its logits.
        let kept = common(&self.read, &tokens).min(tokens.len() - 1);
        let new = &tokens[kept..];
        self.memory.cut(kept);
        self.read.truncate(kept);
        let asks = Asks { frequent: true, ..Asks::default() };
        let mut answers = self.model.forward(&mut [Run { asks, ..Run::line(&mut self.memory, new) }])?;
        self.read.extend(new);
        Ok(answers.pop().map(|answer| answer.logits).unwrap_or_default())
    }
}

/// How many tokens two texts have in common at their beginning.
fn common(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

impl<'a, M: LanguageModel, D: LanguageModel> Drafter<'a, M> for Companion<'a, D> {
    fn fork(&self) -> Box<dyn Drafter<'a, M> + 'a> {
        let Self { model, begins, .. } = *self;
        Box::new(Self { model, memory: self.memory.clone(), begins, read: self.read.clone() })
    }

    fn guess(&mut self, ahead: &mut Ahead<'_, M>) -> Result<(), ModelError> {
        let text = ahead.text();
        self.catch_up(text, ahead.most_missed());
        let room = self.model.context();
        let length = text.len() - self.begins;
        if length > room {
            return Ok(());
        }
        let logits = self.logits(text, &[])?;
        let mut next = ahead.grow(None, &logits);
        while let Some(node) = next {
            let path = ahead.path(node);
            if length + path.len() > room {
                break;
            }
            let logits = self.logits(text, &path)?;
            next = ahead.grow(Some(node), &logits);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llama::Llama;
    use crate::stories;

    #[test]
    fn a_drafter_that_missed_much_begins_with_the_last_tokens() {
        let model = stories::drafter().expect("a model");
        let mut companion = Companion::<Llama>::new(&model, &model).expect("a drafter");
        let text: Vec<u32> = (10..50).collect();
        let mut fresh = Companion::<Llama>::new(&model, &model).expect("a drafter");
        companion.catch_up(&text[..10], 20);
        companion.logits(&text[..10], &[7, 8]).expect("logits");
        // Of its guesses none came true; thirty tokens came.
        companion.catch_up(&text, 30);
        assert_eq!((companion.begins, companion.read.len()), (0, 12));
        companion.catch_up(&text, 20);
        assert_eq!((companion.begins, companion.read.len()), (20, 0));
        let logits = companion.logits(&text, &[]).expect("logits");
        assert_eq!(logits, fresh.logits(&text[20..], &[]).expect("logits"));
        // The text was cut to before where it began.
        companion.catch_up(&text[..15], 20);
        assert_eq!(companion.begins, 0);
    }
}
