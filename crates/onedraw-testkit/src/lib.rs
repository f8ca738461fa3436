//! What the tests of onedraw share. It is not published and no program depends on it.
//!
//! - [`rows`]: rows of logits of many shapes, the same on every platform, and a strategy that picks among
//!   them.
//! - [`parameters`]: a strategy for valid parameters over a vocabulary, and for whole cases.
//! - [`oracle`]: the distribution that the parameters name, in plain f64, sharing no code with the engine.
//! - [`chi_square`]: whether drawn tokens follow a distribution.
//! - [`kernels`]: every instruction set against the scalar reference, on one row after another.
//! - [`golden`]: the vectors that pin every drawn token.
//! - [`conformance`]: what other systems answered for given logits and parameters.
//! - [`mutant`]: the lazy draw in its shortest form, with deliberate mistakes that the tests must catch.
//! - [`fuzz`]: the bodies of the fuzz targets.

// The workspace bans the platform's exp and log because they would make drawn tokens differ between
// platforms. Nothing here is drawn from; and the oracle is worth something only because its exp and log are
// not the engine's.
#![allow(clippy::disallowed_methods)]

pub mod chi_square;
pub mod conformance;
pub mod fuzz;
pub mod golden;
pub mod kernels;
pub mod mutant;
pub mod oracle;
pub mod parameters;
pub mod rows;
