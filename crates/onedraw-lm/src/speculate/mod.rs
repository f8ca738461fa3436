//! Speculation: a drafter guesses ahead, and the target looks at all guesses in one pass.
//!
//! A [`Drafter`] is given to a [`Generator`](crate::Generator), and texts come out as before, faster where guesses hold: [`Companion`] is a smaller model,
//! [`EarlyExit`] the target's own first layers, [`Eagle`] a head on its last states, [`Ngram`] looks the last tokens up in the text. In `exact` mode, the default, a
//! text is bit for bit that of plain decoding; the drafter guesses with the target's own noise, and guesses are as many as pay. `onedraw::speculate` has the ways
//! to judge.
//!
//! ```
//! use onedraw::presets;
//! use onedraw_lm::speculate::SpeculativeDecoder;
//! use onedraw_lm::stories;
//!
//! let (model, drafter, tokenizer) = (stories::model()?, stories::drafter()?, stories::tokenizer()?);
//! let mut params = presets::balanced();
//! params.seed = Some(7);
//! let mut decoder = SpeculativeDecoder::new(&model, &drafter, &tokenizer)?.params(params);
//! let story = decoder.generate(&tokenizer.encode("Once upon a time")?, 20)?;
//! assert_eq!(story.tokens.len(), 20);
//! assert!(decoder.guessed().passes < 20);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ahead;
mod companion;
mod decoder;
mod drafter;
mod eagle;
mod early_exit;
mod guesser;
mod ngram;
mod policy;
mod settings;
mod speculator;

pub use ahead::Ahead;
pub(crate) use ahead::{Plan, Text};
pub use companion::Companion;
pub use decoder::{SelfSpeculativeDecoder, SpeculativeDecoder};
pub use drafter::Drafter;
pub use eagle::Eagle;
pub use early_exit::EarlyExit;
pub use guesser::Guesser;
pub use ngram::Ngram;
pub(crate) use policy::Brought;
pub use settings::{Guessed, Speculation};
pub(crate) use speculator::{Planned, Speculator};
