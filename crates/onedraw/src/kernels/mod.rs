//! The passes over rows: one source, compiled for each instruction set. The choice can change the speed,
//! never a token.
//!
//! - `kernel`: the names of the instruction sets.  `passes`: which of them runs.  `lanes`: the operations
//!   that they do in different ways.
//! - `row`: rows of any number type.  `logit`: reading them into vectors.  `block`: 64 numbers as four
//!   vectors.
//! - `skyline`: the largest logit of every block.  `sound`: finding NaN during that pass.
//! - `weight`: weights and their sums.  `deviation`: the sums for top-n-sigma.  `bend`: the curve of
//!   smoothing.
//! - `arrival`: noise, and lower bounds of arrival times, for the race.
//!
//! Each file that computes begins with the plain loop that it stands for, then says what it does differently
//! and why the result is still exact.

pub(crate) mod arrival;
pub mod bend;
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
