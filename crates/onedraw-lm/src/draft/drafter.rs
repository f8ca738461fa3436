//! The trait of everything that guesses.

use std::any::Any;
use std::sync::Arc;

use crate::draft::ahead::Ahead;
use crate::error::ModelError;
use crate::model::LanguageModel;

/// Guesses what follows the texts of a target model `M`.
///
/// A guess costs a position in the target's next pass and gains a token if the target accepts it, so a
/// drafter must be much faster than its target. Guesses change how long a text takes; in `exact` mode they
/// change no token.
pub trait Drafter<M: LanguageModel>: Send + Sync {
    /// What it remembers of one text. A clone is for another text with the same beginning.
    type Memory: Clone + Send + 'static;

    /// What it remembers of a text that it knows nothing of.
    fn start(&self) -> Self::Memory;

    /// The layers whose states it wants to see, as in [`Asks::states`](crate::Asks::states).
    fn states(&self) -> &[usize] {
        &[]
    }

    /// Called when the target has read on. Positions from `first` on that were seen before are no longer part
    /// of the text; `states` are the wanted states of all positions from there on, one after the other.
    fn see(&self, memory: &mut Self::Memory, first: usize, states: &[Vec<f32>]) {
        let _ = (memory, first, states);
    }

    /// Says what may come next at one place of each text, as [`Ahead`] describes it. It is called for all texts
    /// together, so that one pass of a model does for all of them, and again for as long as more guesses pay, with
    /// those texts where they do.
    fn guess(
        &self,
        target: &M,
        texts: &mut [(&mut Self::Memory, &mut Ahead<'_, M>)],
    ) -> Result<(), ModelError>;
}

/// A drafter of any kind.
pub struct AnyDrafter<'a, M: LanguageModel>(Arc<dyn Erased<M> + 'a>);

/// What [`AnyDrafter`] remembers of one text: the memory of the drafter that it was made of.
#[derive(Clone)]
pub struct AnyMemory(Box<dyn Remembered>);

impl<'a, M: LanguageModel> AnyDrafter<'a, M> {
    /// Made of this drafter.
    pub fn new(drafter: impl Drafter<M> + 'a) -> Self {
        Self(Arc::new(drafter))
    }
}

impl<M: LanguageModel> Clone for AnyDrafter<'_, M> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<M: LanguageModel> Drafter<M> for AnyDrafter<'_, M> {
    type Memory = AnyMemory;

    fn start(&self) -> AnyMemory {
        self.0.erased_start()
    }

    fn states(&self) -> &[usize] {
        self.0.erased_states()
    }

    fn see(&self, memory: &mut AnyMemory, first: usize, states: &[Vec<f32>]) {
        self.0.erased_see(memory, first, states);
    }

    /// An error if a memory was not made by this drafter.
    fn guess(&self, target: &M, texts: &mut [(&mut AnyMemory, &mut Ahead<'_, M>)]) -> Result<(), ModelError> {
        self.0.erased_guess(target, texts)
    }
}

/// A [`Drafter`] whose memory has no name.
trait Erased<M: LanguageModel>: Send + Sync {
    fn erased_start(&self) -> AnyMemory;
    fn erased_states(&self) -> &[usize];
    fn erased_see(&self, memory: &mut AnyMemory, first: usize, states: &[Vec<f32>]);
    fn erased_guess(
        &self,
        target: &M,
        texts: &mut [(&mut AnyMemory, &mut Ahead<'_, M>)],
    ) -> Result<(), ModelError>;
}

impl<M: LanguageModel, D: Drafter<M>> Erased<M> for D {
    fn erased_start(&self) -> AnyMemory {
        AnyMemory(Box::new(self.start()))
    }

    fn erased_states(&self) -> &[usize] {
        self.states()
    }

    fn erased_see(&self, memory: &mut AnyMemory, first: usize, states: &[Vec<f32>]) {
        // A memory of another drafter is an error of the next guess.
        if let Some(memory) = memory.of::<D::Memory>() {
            self.see(memory, first, states);
        }
    }

    fn erased_guess(
        &self,
        target: &M,
        texts: &mut [(&mut AnyMemory, &mut Ahead<'_, M>)],
    ) -> Result<(), ModelError> {
        let own = texts.iter_mut().map(|(memory, ahead)| Some((memory.of::<D::Memory>()?, &mut **ahead)));
        let mut own: Vec<_> = own.collect::<Option<_>>().ok_or_else(|| {
            ModelError::Request("the memory of a text is that of another drafter".to_owned())
        })?;
        self.guess(target, &mut own)
    }
}

/// A memory without its name.
trait Remembered: Any + Send {
    fn copy(&self) -> Box<dyn Remembered>;
}

impl<T: Any + Send + Clone> Remembered for T {
    fn copy(&self) -> Box<dyn Remembered> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Remembered> {
    fn clone(&self) -> Self {
        // Of what is in the box, not of the box.
        (**self).copy()
    }
}

impl AnyMemory {
    /// The memory, if it is of this type.
    fn of<T: Any>(&mut self) -> Option<&mut T> {
        let memory: &mut dyn Any = &mut *self.0;
        memory.downcast_mut()
    }
}
