//! The target's own first layers guess, and write its memory as they do; the pass that judges takes their positions on through the others.

use crate::error::ModelError;
use crate::model::{Asks, LanguageModel, Run, Wanted};
use crate::speculate::ahead::Ahead;
use crate::speculate::drafter::Drafter;

/// Guesses after a few layers of the target.
#[derive(Clone, Copy, Debug)]
pub struct EarlyExit {
    layers: usize,
}

impl EarlyExit {
    /// After so many layers, fewer than the target has.
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

impl<'a, M: LanguageModel> Drafter<'a, M> for EarlyExit {
    fn fork(&self) -> Box<dyn Drafter<'a, M> + 'a> {
        Box::new(*self)
    }

    fn guess(&mut self, ahead: &mut Ahead<'_, M>) -> Result<(), ModelError> {
        // Positions that left early lie in a line.
        ahead.keep_to_a_line();
        let text = ahead.text();
        let unread = ahead.unread();
        let exit = Some(self.layers);
        let asks = Asks { logits: Wanted::Last, exit, states: &[self.layers], frequent: true };
        let mut states = Vec::new();
        let mut look = |ahead: &mut Ahead<'_, M>, tokens: &[u32]| {
            let (target, memory) = ahead.target();
            let run = Run { asks, ..Run::line(memory, tokens) };
            let mut answer = target.forward(&mut [run])?.pop().unwrap_or_default();
            states.extend(answer.states.pop().unwrap_or_default());
            Ok::<_, ModelError>(answer.logits)
        };
        let logits = look(ahead, &text[text.len() - unread..])?;
        let mut next = ahead.grow(None, &logits);
        let mut looks = unread;
        while let Some(node) = next {
            let token = ahead.path(node).pop().unwrap_or_default();
            let logits = look(ahead, &[token])?;
            looks += 1;
            next = ahead.grow(Some(node), &logits);
        }
        let width = states.len() / looks;
        ahead.take_on(self.layers, states, width);
        Ok(())
    }
}
