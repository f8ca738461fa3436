//! The Llama family: llama, mistral, qwen2, qwen3, smollm.
//!
//! Every number of a position comes from dot products and sums whose order only the model and the position
//! decide. So it is the same bits alone or in a batch, for any cut of the prompt into passes, along a branch
//! of a tree, and on any thread count and instruction set.
//!
//! `model` holds the weights; `check` says what may be asked; `forward` runs a pass through the layers
//! (`layer`, `attention`, `rope`) and writes what they remember (`cache`); `shortlist` is an output
//! head over frequent tokens, and `eagle` a small drafter that continues from the model's states.

mod attention;
mod cache;
mod check;
mod eagle;
mod forward;
mod layer;
mod model;
mod rope;
mod shortlist;

pub use cache::Memory;
pub use eagle::EagleHead;
pub(crate) use eagle::{HeadRun, Next};
pub use model::Llama;
pub use shortlist::Shortlist;
