//! A language model under onedraw: text to tokens, tokens to logits, logits to tokens, tokens to text.
//!
//! [`Llama`] runs models of the Llama family from a Hugging Face folder. Its logits are the same bits alone or in a batch, in any cut of the prompt, on any
//! thread count and instruction set; onedraw's draws are, too. So one seed gives one text.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use onedraw::SamplingParams;
//! use onedraw_lm::{Generator, Llama, Tokenizer};
//!
//! let folder = Path::new("models/mine");
//! let (model, tokenizer) = (Llama::open(folder)?, Tokenizer::open(folder)?);
//! let params = SamplingParams::builder().temperature(0.8).top_p(0.95).max_tokens(100u32).seed(7).build()?;
//! let prompt = tokenizer.encode("Once upon a time")?;
//! for event in Generator::new(&model, &tokenizer).stream(&prompt, params)? {
//!     print!("{}", event?.text);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Generator`] takes any [`LanguageModel`], and any number of requests: texts join and leave between two passes, and none depends on another.
//!
//! Where to look: [`LanguageModel`] is what a decode loop asks of a model; [`llama`] answers, from [`config`] and mapped weights; [`Tokenizer`], [`ChatTemplate`] and [`GenerationConfig`] are the other
//! files of a folder; [`generate`] is the loop; [`speculate`] lets it guess ahead; [`stories`] is a model that needs no folder.

mod beam;
mod chat;
pub mod config;
pub mod contrast;
mod error;
mod folder;
pub mod generate;
mod generation_config;
mod kernels;
pub mod llama;
mod matrix;
mod model;
pub mod settings;
pub mod speculate;
pub mod stories;
mod tokenizer;
mod weights;

pub use beam::{Beams, Found};
pub use chat::{ChatTemplate, Message};
pub use error::ModelError;
pub use generate::{Event, GenerateError, Generated, Generator, RequestId};
pub use generation_config::GenerationConfig;
pub use llama::{EagleHead, Llama, Shortlist};
pub use model::{Answer, Asks, Known, LanguageModel, Run, Sequence, Vocabulary, Wanted};
pub use tokenizer::Tokenizer;
