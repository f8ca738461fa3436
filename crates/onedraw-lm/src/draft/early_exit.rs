//! A drafter that is the target's own first layers. They write the target's memory as they guess, and the
//! pass that verifies takes these positions through the other layers.

use crate::draft::ahead::Ahead;
use crate::draft::drafter::Drafter;
use crate::error::ModelError;
use crate::model::{Asks, LanguageModel, Run, Wanted};

/// Guesses with the first layers of the target.
#[derive(Clone, Copy, Debug)]
pub struct EarlyExit {
    layers: usize,
}

impl EarlyExit {
    /// Guesses after this many layers. An error unless they are fewer than the target has.
    pub fn new(layers: usize, target: &impl LanguageModel) -> Result<Self, ModelError> {
        let all = target.layers();
        if all < 2 {
            return Err(ModelError::Request("the target has no layers to leave early from".to_owned()));
        }
        if layers == 0 || layers >= all {
            return Err(ModelError::Request(format!(
                "the target has {all} layers, so an early exit is after 1 to {}, not {layers}",
                all - 1
            )));
        }
        Ok(Self { layers })
    }
}

impl<M: LanguageModel> Drafter<M> for EarlyExit {
    type Memory = ();

    fn start(&self) {}

    fn guess(&self, target: &M, texts: &mut [(&mut (), &mut Ahead<'_, M>)]) -> Result<(), ModelError> {
        let tokens: Vec<Vec<u32>> = texts.iter().map(|(_, ahead)| unread(ahead)).collect();
        let states = [self.layers];
        let asks = Asks { logits: Wanted::Last, exit: Some(self.layers), states: &states, frequent: true };
        let runs = texts.iter_mut().zip(&tokens);
        let mut runs: Vec<_> =
            runs.map(|((_, ahead), tokens)| Run { asks, ..Run::line(ahead.memory(), tokens) }).collect();
        let answers = target.forward(&mut runs)?;
        for (((_, ahead), tokens), mut answer) in texts.iter_mut().zip(&tokens).zip(answers) {
            // Positions that exited early follow each other.
            ahead.keep_to_a_line();
            ahead.take_on(self.layers, answer.states.pop().unwrap_or_default(), tokens.len());
            ahead.grow(&answer.logits);
        }
        Ok(())
    }
}

/// What the target has not read up to here: the last tokens of the text, then one guess after the other.
fn unread<M: LanguageModel>(ahead: &Ahead<'_, M>) -> Vec<u32> {
    match ahead.path().last() {
        Some(&guess) => vec![guess],
        None => ahead.text()[ahead.text().len() - ahead.unread()..].to_vec(),
    }
}
