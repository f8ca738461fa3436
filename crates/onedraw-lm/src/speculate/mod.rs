//! Speculation: a drafter guesses ahead, and the target verifies all guesses in one pass.
//!
//! Give a [`Drafter`] to a [`Generator`](crate::Generator), and texts come out as before, only faster where
//! guesses are accepted. [`Companion`] is a smaller model, [`EarlyExit`] the target's own first layers,
//! [`Eagle`] a head on its last states, [`Ngram`] copies from the text. In `exact` mode, the default, a text
//! is bit for bit that of plain decoding: the drafter guesses with the target's own noise, and makes as many
//! guesses as pay. `onedraw::speculate` has the ways to verify.
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

mod decoder;
mod guesser;

pub use crate::draft::{
    Ahead, AnyDrafter, AnyMemory, Companion, Drafter, Eagle, EarlyExit, Guessed, Ngram, PassLog, Speculation,
};
pub use decoder::{SelfSpeculativeDecoder, SpeculativeDecoder};
pub use guesser::Guesser;
