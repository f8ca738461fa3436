//! Requests of an engine that keeps their texts on the device.
//!
//! - `members`: which request sits in which slot, and its memory.
//! - `names`: what is kept of a request that may come back.
//! - `step`: a step, from the logits to tokens where the engine wants them, without a wait.
//! - `places`: where the engine has texts and wants results.

mod members;
mod names;
mod places;
mod step;

pub use members::Requests;
pub use places::{Listed, RequestTurn, Sets, Texts, Written};
