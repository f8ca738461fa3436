//! The trait of everything that guesses.

use crate::draft::ahead::Ahead;
use crate::error::ModelError;
use crate::model::LanguageModel;

/// Guesses what follows one text of a target model `M`.
///
/// A guess costs a position in the target's next pass and gains a token if the target accepts it, so a
/// drafter must be much faster than its target. Guesses change how long a text takes; in `exact` mode they
/// change no token.
pub trait Drafter<'a, M: LanguageModel>: Send {
    /// A drafter like this one, for another text that begins with what this one has seen.
    fn fork(&self) -> Box<dyn Drafter<'a, M> + 'a>;

    /// The layers whose states it wants to see, as in [`Asks::states`](crate::Asks::states).
    fn states(&self) -> &[usize] {
        &[]
    }

    /// Called when the target has read on. Positions from `first` on that were seen before are no longer part
    /// of the text; `states` are the wanted states of all positions from there on, one after the other.
    fn see(&mut self, first: usize, states: &[Vec<f32>]) {
        let _ = (first, states);
    }

    /// Guesses for as long as [`Ahead`] asks for more.
    fn guess(&mut self, ahead: &mut Ahead<'_, M>) -> Result<(), ModelError>;
}

/// One of several kinds.
impl<'a, M: LanguageModel> Drafter<'a, M> for Box<dyn Drafter<'a, M> + 'a> {
    fn fork(&self) -> Box<dyn Drafter<'a, M> + 'a> {
        (**self).fork()
    }

    fn states(&self) -> &[usize] {
        (**self).states()
    }

    fn see(&mut self, first: usize, states: &[Vec<f32>]) {
        (**self).see(first, states);
    }

    fn guess(&mut self, ahead: &mut Ahead<'_, M>) -> Result<(), ModelError> {
        (**self).guess(ahead)
    }
}
