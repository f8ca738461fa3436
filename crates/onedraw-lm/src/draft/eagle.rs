//! A drafter that continues from the target's own states.

use crate::draft::ahead::Ahead;
use crate::draft::drafter::Drafter;
use crate::error::ModelError;
use crate::llama::{EagleHead, Llama, Memory};
use crate::model::{LanguageModel, Sequence};

/// Guesses with an [`EagleHead`].
pub struct Eagle<'a> {
    head: &'a EagleHead,
    target: &'a Llama,
    /// The layers whose states are wanted: the last.
    layers: [usize; 1],
    /// The target's states after its last norm, for every position that it has read.
    states: Vec<f32>,
    memory: Memory,
    /// The first position of the text that the memory has.
    begins: usize,
    /// Up to which position of the text the memory comes from the target's own states.
    certain: usize,
}

/// A guess that was expanded, and the state after it.
struct Followed {
    token: u32,
    state: Vec<f32>,
}

impl<'a> Eagle<'a> {
    /// With a head that was trained for the target.
    pub fn new(head: &'a EagleHead, target: &'a Llama) -> Self {
        let layers = [target.layers()];
        Self { head, target, layers, states: Vec::new(), memory: head.start(), begins: 0, certain: 0 }
    }
}

impl<'a> Drafter<'a, Llama> for Eagle<'a> {
    fn fork(&self) -> Box<dyn Drafter<'a, Llama> + 'a> {
        let Self { head, target, layers, begins, certain, .. } = *self;
        let (states, memory) = (self.states.clone(), self.memory.clone());
        Box::new(Self { head, target, layers, states, memory, begins, certain })
    }

    fn states(&self) -> &[usize] {
        &self.layers
    }

    fn see(&mut self, first: usize, states: &[Vec<f32>]) {
        self.states.truncate(first * self.head.width());
        self.certain = self.certain.min(first);
        if let [states] = states {
            self.states.extend(self.target.normed(states));
        }
    }

    fn guess(&mut self, ahead: &mut Ahead<'_, Llama>) -> Result<(), ModelError> {
        let (text, width) = (ahead.text(), self.head.width());
        let read = text.len() - 1;
        // If a constraint forced tokens, the target has to read them first.
        if ahead.unread() > 1 || read == 0 || self.states.len() != read * width {
            return Ok(());
        }
        self.certain = self.certain.min(read - 1);
        if self.certain < self.begins || read - self.certain > ahead.most_missed() {
            self.begins = read.saturating_sub(ahead.most_missed());
            self.certain = self.begins;
        }
        let length = read - self.begins;
        if length > self.head.context() {
            return Ok(());
        }
        self.memory.cut(self.certain - self.begins);
        let next = self.head.advance(
            &mut self.memory,
            &self.states[self.certain * width..],
            &text[self.certain + 1..],
        )?;
        self.certain = read;
        let mut followed: Vec<Followed> = Vec::new();
        let mut node = ahead.grow(None, &next.logits);
        while let Some(guess) = node {
            let path = ahead.path(guess);
            if length + path.len() > self.head.context() {
                break;
            }
            let common =
                followed.iter().zip(&path).take_while(|(followed, token)| followed.token == **token).count();
            followed.truncate(common.min(path.len() - 1));
            self.memory.cut(length + followed.len());
            let mut logits = Vec::new();
            for &token in &path[followed.len()..] {
                let state = followed.last().map_or(&next.state, |followed| &followed.state);
                let after = self.head.advance(&mut self.memory, state, &[token])?;
                logits = after.logits;
                followed.push(Followed { token, state: after.state });
            }
            node = ahead.grow(Some(guess), &logits);
        }
        Ok(())
    }
}
