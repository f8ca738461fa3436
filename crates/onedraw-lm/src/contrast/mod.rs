//! Models made of two: the logits of one are contrasted with those of the other. Each is a [`LanguageModel`],
//! so texts, beams and constraints work with it as with any other.
//!
//! [`Contrasted`] contrasts an expert with an amateur, [`Guided`] one prompt with another, [`Dola`] the last
//! layer of a model with its earlier ones. `onedraw::contrast` has the formulas.
//!
//! [`LanguageModel`]: crate::LanguageModel

mod contrasted;
mod dola;
mod guided;
mod rows;

pub use contrasted::{Contrasted, Pair};
pub use dola::Dola;
pub use guided::Guided;
