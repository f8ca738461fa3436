//! A drafter that continues from the target's own states.

use crate::draft::ahead::Ahead;
use crate::draft::drafter::Drafter;
use crate::error::ModelError;
use crate::llama::{EagleHead, HeadRun, Llama, Memory, Next};
use crate::model::{LanguageModel, Sequence};

/// Guesses with an [`EagleHead`].
pub struct Eagle<'a> {
    head: &'a EagleHead,
    /// The layers whose states are wanted: the last.
    layers: [usize; 1],
    target: &'a Llama,
}

impl<'a> Eagle<'a> {
    /// With a head that was trained for the target.
    pub fn new(head: &'a EagleHead, target: &'a Llama) -> Self {
        Self { head, layers: [target.layers()], target }
    }
}

/// What the head knows of one text.
#[derive(Clone)]
pub struct Followed {
    /// The target's states after its last norm, for every position that it has read.
    states: Vec<f32>,
    memory: Memory,
    /// The first position of the text that the memory has.
    begins: usize,
    /// Up to which position of the text the memory comes from the target's own states.
    certain: usize,
    /// The head's own state at the last token of the text, and the guesses that the memory has after it, each with the
    /// state there.
    last: Vec<f32>,
    guesses: Vec<(u32, Vec<f32>)>,
}

impl Followed {
    /// Goes back to where the memory parts from the text. Whether the head can guess after it.
    fn go_to_text<M: LanguageModel>(&mut self, ahead: &Ahead<'_, M>, head: &EagleHead) -> bool {
        let read = ahead.text().len() - 1;
        // If a constraint forced tokens, the target has to read them first.
        if ahead.unread() > 1 || read == 0 || self.states.len() != read * head.width() {
            return false;
        }
        self.certain = self.certain.min(read - 1);
        if self.certain < self.begins || read - self.certain > ahead.most_missed() {
            self.begins = read.saturating_sub(ahead.most_missed());
            self.certain = self.begins;
        }
        self.memory.cut(self.certain - self.begins);
        self.guesses.clear();
        read - self.begins <= head.context()
    }

    /// Goes back to where the memory parts from the guesses. Returns those that it has not, or none if the head cannot
    /// guess after them.
    fn go_to_guesses<M: LanguageModel>(&mut self, ahead: &Ahead<'_, M>, head: &EagleHead) -> Vec<u32> {
        let (length, path) = (self.certain - self.begins, ahead.path());
        if length + path.len() > head.context() {
            return Vec::new();
        }
        let kept = self.guesses.iter().zip(path).take_while(|((one, _), other)| one == *other).count();
        let kept = kept.min(path.len() - 1);
        self.guesses.truncate(kept);
        self.memory.cut(length + kept);
        path[kept..].to_vec()
    }
}

/// A text while the head reads on.
struct Going<'t, 'g, M: LanguageModel> {
    followed: &'t mut Followed,
    ahead: &'t mut Ahead<'g, M>,
    /// The guesses that the head has not read; none if it reads the text itself.
    unread: Vec<u32>,
}

impl<'t, 'g, M: LanguageModel> Going<'t, 'g, M> {
    /// `None` if the head cannot guess there.
    fn new(followed: &'t mut Followed, ahead: &'t mut Ahead<'g, M>, head: &EagleHead) -> Option<Self> {
        let (unread, goes_on) = match ahead.path().is_empty() {
            true => (Vec::new(), followed.go_to_text(ahead, head)),
            false => {
                let unread = followed.go_to_guesses(ahead, head);
                let goes_on = !unread.is_empty();
                (unread, goes_on)
            }
        };
        goes_on.then_some(Self { followed, ahead, unread })
    }

    /// What the head reads next: all of the text, or one guess, because the state after it comes from the head.
    fn run(&mut self, width: usize) -> HeadRun<'_> {
        let Followed { states, memory, certain, last, guesses, .. } = &mut *self.followed;
        match self.unread.first() {
            None => HeadRun {
                memory,
                states: &states[*certain * width..],
                tokens: &self.ahead.text()[*certain + 1..],
            },
            Some(_) => HeadRun {
                memory,
                states: guesses.last().map_or(last, |(_, state)| state),
                tokens: &self.unread[..1],
            },
        }
    }

    /// Takes what the head says. `None` if it has come to the place where guesses are wanted.
    fn take(mut self, next: Next) -> Option<Self> {
        if self.unread.is_empty() {
            self.followed.certain = self.ahead.text().len() - 1;
            self.followed.last = next.state;
        } else {
            self.followed.guesses.push((self.unread.remove(0), next.state));
        }
        if self.unread.is_empty() {
            self.ahead.grow(&next.logits);
            return None;
        }
        Some(self)
    }
}

impl Drafter<Llama> for Eagle<'_> {
    type Memory = Followed;

    fn start(&self) -> Followed {
        let (states, last, guesses) = (Vec::new(), Vec::new(), Vec::new());
        Followed { states, memory: self.head.start(), begins: 0, certain: 0, last, guesses }
    }

    fn states(&self) -> &[usize] {
        &self.layers
    }

    fn see(&self, followed: &mut Followed, first: usize, states: &[Vec<f32>]) {
        followed.states.truncate(first * self.head.width());
        followed.certain = followed.certain.min(first);
        if let [states] = states {
            followed.states.extend(self.target.normed(states));
        }
    }

    fn guess(
        &self,
        _target: &Llama,
        texts: &mut [(&mut Followed, &mut Ahead<'_, Llama>)],
    ) -> Result<(), ModelError> {
        let texts = texts.iter_mut();
        let mut going: Vec<_> =
            texts.filter_map(|(followed, ahead)| Going::new(followed, ahead, self.head)).collect();
        while !going.is_empty() {
            let mut runs: Vec<_> = going.iter_mut().map(|text| text.run(self.head.width())).collect();
            let said = self.head.advance(&mut runs)?;
            going = going.into_iter().zip(said).filter_map(|(text, next)| text.take(next)).collect();
        }
        Ok(())
    }
}
