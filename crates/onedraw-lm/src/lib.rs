//! A language model under onedraw.

pub mod config;
mod error;
mod kernels;
pub mod llama;
mod matrix;
mod model;
mod weights;

pub use error::ModelError;
pub use llama::Llama;
pub use model::{Answer, Asks, LanguageModel, Run, Sequence, Wanted};
