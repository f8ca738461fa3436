//! A language model under onedraw.

mod chat;
pub mod config;
mod error;
mod folder;
pub mod generate;
mod generation_config;
mod kernels;
pub mod llama;
mod matrix;
mod model;
mod tokenizer;
mod weights;

pub use chat::{ChatTemplate, Message};
pub use error::ModelError;
pub use generate::{Event, GenerateError, Generated, Generator, RequestId};
pub use generation_config::GenerationConfig;
pub use llama::Llama;
pub use model::{Answer, Asks, LanguageModel, Run, Sequence, Wanted};
pub use tokenizer::Tokenizer;
