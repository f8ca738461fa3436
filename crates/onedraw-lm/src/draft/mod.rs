//! Drafters, and how much they guess. [`speculate`](crate::speculate) shows this to users.
//!
//! A *drafter* guesses what follows a text; the *target* verifies the guesses in one pass; a *draft* is what
//! was guessed, a tree of tokens. Read [`drafter`] (the trait) and [`ahead`] (the tree as it grows, with the sampler
//! that a [`cursor`] moves along it) first; then a drafter: [`companion`] is a smaller model, [`early_exit`] the
//! target's own first layers, [`eagle`] a head on its last states, [`ngram`] copies from the text. The drafts of all
//! texts of a pass grow together, in [`rounds`]; [`planned`] tells what that took and gave. [`policy`] decides how much to
//! guess, from what passes [`cost`] [lately](recent) and the [`chance`] of a guess, and rests when its [`purse`] is
//! empty; [`speculator`] brings all of it together for the decode loop, as the [`settings`] say.

mod ahead;
mod chance;
mod companion;
mod cost;
mod cursor;
mod drafter;
mod eagle;
mod early_exit;
mod ngram;
mod planned;
mod policy;
mod purse;
mod recent;
mod rounds;
mod settings;
mod speculator;

pub use ahead::Ahead;
pub(crate) use ahead::{Plan, Text};
pub use companion::Companion;
pub use drafter::{AnyDrafter, AnyMemory, Drafter};
pub use eagle::Eagle;
pub use early_exit::EarlyExit;
pub use ngram::Ngram;
pub(crate) use planned::Planned;
pub(crate) use policy::PassResult;
pub(crate) use rounds::Drafts;
pub use settings::{Guessed, PassLog, Speculation};
pub(crate) use speculator::Speculator;
