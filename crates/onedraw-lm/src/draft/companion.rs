//! A drafter that is a second, smaller model.

use crate::draft::ahead::Ahead;
use crate::draft::drafter::Drafter;
use crate::error::ModelError;
use crate::model::{Asks, LanguageModel, Run, Sequence};

/// Guesses with a model that has the same tokens as the target and is much faster.
pub struct Companion<'a, D> {
    model: &'a D,
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
        Ok(Self { model })
    }
}

/// What the model has read of one text, and of guesses after it.
#[derive(Clone, Debug)]
pub struct Reading<S> {
    sequence: S,
    /// The position of the text where it began.
    begins: usize,
    /// The tokens from there on.
    read: Vec<u32>,
}

impl<S: Sequence> Reading<S> {
    fn new(sequence: S) -> Self {
        Self { sequence, begins: 0, read: Vec::new() }
    }

    /// Begins with the last tokens of a text if more than so many were not read.
    fn catch_up(&mut self, text: &[u32], most: usize) {
        let missed = self.begins + common(&self.read, text.get(self.begins..).unwrap_or_default());
        if text.len() <= self.begins || text.len() - missed > most {
            self.begins = text.len().saturating_sub(most);
            self.sequence.cut(0);
            self.read.clear();
        }
    }

    /// Goes back to where what was read parts from a text with guesses. Returns the tokens to read from there: at
    /// least the last, for its logits. `None` if there are more tokens than the model can read.
    fn go_back(&mut self, text: &[u32], guesses: &[u32], context: usize) -> Option<Vec<u32>> {
        let mut tokens = [&text[self.begins..], guesses].concat();
        if tokens.len() > context {
            return None;
        }
        let kept = common(&self.read, &tokens).min(tokens.len() - 1);
        self.sequence.cut(kept);
        self.read.truncate(kept);
        Some(tokens.split_off(kept))
    }
}

/// How many tokens two texts have in common at their beginning.
fn common(one: &[u32], other: &[u32]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

impl<M: LanguageModel, D: LanguageModel> Drafter<M> for Companion<'_, D> {
    type Memory = Reading<D::Sequence>;

    fn start(&self) -> Self::Memory {
        Reading::new(self.model.start())
    }

    fn guess(
        &self,
        _target: &M,
        texts: &mut [(&mut Self::Memory, &mut Ahead<'_, M>)],
    ) -> Result<(), ModelError> {
        let (mut guessing, mut unread) = (Vec::new(), Vec::new());
        for (reading, ahead) in texts {
            if ahead.path().is_empty() {
                reading.catch_up(ahead.text(), ahead.most_missed());
            }
            if let Some(tokens) = reading.go_back(ahead.text(), ahead.path(), self.model.context()) {
                guessing.push((reading, ahead));
                unread.push(tokens);
            }
        }
        // All texts may be longer than the model can read.
        if guessing.is_empty() {
            return Ok(());
        }
        let asks = Asks { frequent: true, ..Asks::default() };
        let runs = guessing.iter_mut().zip(&unread);
        let mut runs: Vec<_> = runs
            .map(|((reading, _), tokens)| Run { asks, ..Run::line(&mut reading.sequence, tokens) })
            .collect();
        let answers = self.model.forward(&mut runs)?;
        for (((reading, ahead), tokens), answer) in guessing.into_iter().zip(unread).zip(answers) {
            reading.read.extend(tokens);
            ahead.grow(&answer.logits);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stories;

    #[test]
    fn a_drafter_that_missed_much_begins_with_the_last_tokens() {
        let model = stories::drafter().expect("a model");
        let text: Vec<u32> = (10..50).collect();
        let mut reading = Reading::new(model.start());
        reading.read = [&text[..10], &[7, 8]].concat();
        // Of its guesses none came true; thirty tokens came.
        reading.catch_up(&text, 30);
        assert_eq!((reading.begins, reading.read.len()), (0, 12));
        assert_eq!(reading.go_back(&text, &[], 512).as_deref(), Some(&text[10..]));
        assert_eq!(reading.read, text[..10]);
        reading.catch_up(&text, 20);
        assert_eq!((reading.begins, reading.read.len()), (20, 0));
        assert_eq!(reading.go_back(&text, &[7], 21), Some([&text[20..], &[7]].concat()));
        assert_eq!(reading.go_back(&text, &[7], 20), None);
        // All of it was read, but the logits after the last token are wanted.
        reading.read = text[20..].to_vec();
        assert_eq!(reading.go_back(&text, &[], 512).as_deref(), Some(&text[39..]));
        // The text was cut to before where it began.
        reading.catch_up(&text[..15], 20);
        assert_eq!(reading.begins, 0);
    }
}
