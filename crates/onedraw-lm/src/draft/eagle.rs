//! A head that guesses from the target's own states.

use crate::error::ModelError;
use crate::llama::{EagleHead, Llama, Memory};
use crate::model::{LanguageModel, Sequence};
use crate::speculate::ahead::Ahead;
use crate::speculate::drafter::Drafter;

/// Guesses with an [`EagleHead`].
pub struct Eagle<'a> {
    head: &'a EagleHead,
    target: &'a Llama,
    /// The target asks for states after these many layers: all.
    layers: [usize; 1],
    /// The target's states after its last norm, of every position that it has read.
    states: Vec<f32>,
    memory: Memory,
    /// Positions of the memory that came of the target's own states.
    sure: usize,
}

/// A guess that the head has gone on from, and what it made of it.
struct Followed {
    token: u32,
    state: Vec<f32>,
}

impl<'a> Eagle<'a> {
    /// With the head of a target.
    pub fn new(head: &'a EagleHead, target: &'a Llama) -> Self {
        let layers = [target.layers()];
        Self { head, target, layers, states: Vec::new(), memory: head.start(), sure: 0 }
    }
}

impl<'a> Drafter<'a, Llama> for Eagle<'a> {
    fn fork(&self) -> Box<dyn Drafter<'a, Llama> + 'a> {
        let Self { head, target, layers, sure, .. } = *self;
        Box::new(Self {
            head,
            target,
            layers,
            states: self.states.clone(),
            memory: self.memory.clone(),
            sure,
        })
    }

    fn states(&self) -> &[usize] {
        &self.layers
    }

    fn see(&mut self, first: usize, states: &[Vec<f32>]) {
        self.states.truncate(first * self.head.width());
        self.sure = self.sure.min(first);
        if let [states] = states {
            self.states.extend(self.target.normed(states));
        }
    }

    fn guess(&mut self, ahead: &mut Ahead<'_, Llama>) -> Result<(), ModelError> {
        let (text, width) = (ahead.text(), self.head.width());
        let read = text.len() - 1;
        // Where a constraint forced tokens, the target has to read them first.
        if ahead.unread() > 1 || read == 0 || self.states.len() != read * width || read > self.head.context()
        {
            return Ok(());
        }
        self.sure = self.sure.min(read - 1);
        self.memory.cut(self.sure);
        let next =
            self.head.advance(&mut self.memory, &self.states[self.sure * width..], &text[self.sure + 1..])?;
        self.sure = read;
        let mut followed: Vec<Followed> = Vec::new();
        let mut node = ahead.grow(None, &next.logits);
        while let Some(guess) = node {
            let path = ahead.path(guess);
            if read + path.len() > self.head.context() {
                break;
            }
            let common =
                followed.iter().zip(&path).take_while(|(followed, token)| followed.token == **token).count();
            followed.truncate(common.min(path.len() - 1));
            self.memory.cut(read + followed.len());
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
