//! Who guesses.

use crate::error::ModelError;
use crate::model::LanguageModel;
use crate::speculate::ahead::Ahead;

/// Guesses what follows one text of a target model `M`.
///
/// A guess costs a place in the target's next pass and is worth a token if it holds, so a drafter must be much faster than its target. What it says changes
/// how long a text takes; in `exact` mode it changes no token.
pub trait Drafter<'a, M: LanguageModel>: Send {
    /// One like it, for a text of its own that begins with what this one has seen.
    fn fork(&self) -> Box<dyn Drafter<'a, M> + 'a>;

    /// The states of the target that it wants to see, as [`Asks::states`](crate::Asks::states) has them.
    fn states(&self) -> &[usize] {
        &[]
    }

    /// The target has read the text up to here. Nothing that was seen before from position `first` on is part of it any longer; from there on these are
    /// the states that were wanted, those of all new positions one after the other.
    fn see(&mut self, first: usize, states: &[Vec<f32>]) {
        let _ = (first, states);
    }

    /// Guesses, as long as it is worth it. See [`Ahead`].
    fn guess(&mut self, ahead: &mut Ahead<'_, M>) -> Result<(), ModelError>;
}
