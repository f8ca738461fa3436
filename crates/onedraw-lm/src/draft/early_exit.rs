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

impl<'a, M: LanguageModel> Drafter<'a, M> for EarlyExit {
    fn fork(&self) -> Box<dyn Drafter<'a, M> + 'a> {
        Box::new(*self)
    }

    fn guess(&mut self, ahead: &mut Ahead<'_, M>) -> Result<(), ModelError> {
        // Positions that exited early follow each other.
        ahead.keep_to_a_line();
        let text = ahead.text();
        let unread = ahead.unread();
        let exit = Some(self.layers);
        let asks = Asks { logits: Wanted::Last, exit, states: &[self.layers], frequent: true };
        let mut states = Vec::new();
        let mut expand = |ahead: &mut Ahead<'_, M>, tokens: &[u32]| {
            let (target, memory) = ahead.target();
            let run = Run { asks, ..Run::line(memory, tokens) };
            let mut answer = target.forward(&mut [run])?.pop().unwrap_or_default();
            states.extend(answer.states.pop().unwrap_or_default());
            Ok::<_, ModelError>(answer.logits)
        };
        let logits = expand(ahead, &text[text.len() - unread..])?;
        let mut next = ahead.grow(None, &logits);
        let mut positions = unread;
        while let Some(node) = next {
            let token = ahead.path(node).pop().unwrap_or_default();
            let logits = expand(ahead, &[token])?;
            positions += 1;
            next = ahead.grow(Some(node), &logits);
        }
        let width = states.len() / positions;
        ahead.take_on(self.layers, states, width);
        Ok(())
    }
}
