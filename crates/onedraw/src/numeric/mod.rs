//! The arithmetic that tokens depend on: every function here gives the same bits on every machine.
//!
//! - [`math`]: the only exponential and logarithm, in f64.
//! - [`mass`]: weights as integers, whose sums do not depend on the order of the additions.
//! - [`temperature`]: the factor between logits and weights.
//! - [`key`]: a token's place in the order, as one integer.
//! - [`noise`]: the random numbers, each of which can be computed on its own.
//! - [`float_mode`]: the processor's floating-point mode, set to the standard while we compute.

pub(crate) mod digest;
pub mod float_mode;
pub mod key;
pub mod mass;
pub mod math;
pub mod noise;
pub mod temperature;
