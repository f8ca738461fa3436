//! The passes over rows: one source, compiled for each instruction set. The choice can change the speed,
//! never a token.
//!
//! - `kernel`: the names of the instruction sets.  `passes`: which of them runs.  `lanes`: what they do
//!   differently.
//! - `row`: rows in any type.  `logit`: reading them into vectors.  `block`: 64 numbers as four vectors.
//! - `skyline`: the largest logit of every block, with `sound`, which finds NaN on the way.
//! - `weight`: weights and their sums.  `deviation`: sums for top-n-sigma.  `bend`: smoothing's curve.
//! - `arrival`: noise, and lower bounds of arrival times, for the race.

pub(crate) mod arrival;
pub(crate) mod bend;
pub(crate) mod block;
pub(crate) mod deviation;
mod kernel;
pub(crate) mod lanes;
pub(crate) mod logit;
pub(crate) mod passes;
pub mod row;
pub(crate) mod skyline;
mod sound;
pub(crate) mod weight;

pub use kernel::Kernel;
