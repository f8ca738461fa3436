//! Language models for onedraw: text to tokens, tokens to logits, logits to tokens, tokens to text.
//!
//! [`Llama`] runs models of the Llama family from a Hugging Face folder. Its logits are the same bits alone
//! or in a batch, for any cut of the prompt into passes, and on any thread count and instruction set. So are
//! onedraw's draws, and one seed gives one text.
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
//! A [`Generator`] takes any [`LanguageModel`] and any number of requests. Texts join and leave between two
//! passes, and no text depends on another.
//!
//! # The modules, in the order to read them
//!
//! | module | what it is for |
//! |---|---|
//! | `model` | [`LanguageModel`]: what the decode loops need of a model |
//! | [`generate`] | the decode loop: requests in, tokens and text out |
//! | [`trace`], [`audit`] | what a text was drawn with, and whether it was |
//! | `draft`, [`speculate`] | drafters that guess ahead, how much they guess, and decoders that have one |
//! | `beam`, [`contrast`] | beam search with a model; models made of two |
//! | `tokenizer`, `chat`, `generation_config`, [`config`] | the files of a model's folder |
//! | `weights`, `hash`, `matrix`, `team` | safetensors files and their names, products with their matrices, threads |
//! | [`llama`] | the Llama family: one pass through the layers |
//! | `kernels` | the arithmetic, in one order on every machine |
//! | [`stories`] | a model that is part of the program |

pub mod audit;
mod beam;
mod chat;
pub mod config;
pub mod contrast;
mod draft;
mod error;
mod folder;
pub mod generate;
mod generation_config;
mod hash;
mod kernels;
pub mod llama;
mod matrix;
mod model;
pub mod settings;
pub mod speculate;
pub mod stories;
mod team;
mod tokenizer;
pub mod trace;
mod weights;
pub mod words;

pub use beam::{Beams, Found, Search, Steps};
pub use chat::{ChatTemplate, Message};
pub use error::ModelError;
pub use generate::{Event, GenerateError, Generated, Generator, RequestId, Tracer};
pub use generation_config::GenerationConfig;
pub use llama::{EagleHead, Llama, Shortlist};
pub use model::{Answer, Asks, CHUNK, Known, LanguageModel, Run, Sequence, Vocabulary, Wanted};
pub use tokenizer::Tokenizer;

/// The examples of the README, and of the book's page, which a package does not have.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct CrateReadme;
    #[doc = include_str!("../../../docs/src/models.md")]
    struct Models;
}
