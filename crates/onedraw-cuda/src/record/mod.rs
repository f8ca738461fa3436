//! What the host and the kernels say to each other.
//!
//! - [`shared`]: constants and layouts that both sides must agree on, read from `kernels/record/shared.def`.
//! - [`layout`]: the structs themselves, as `kernels/record/record.cuh` has them.
//! - [`chain`]: a sequence's parameters as such a struct.
//! - [`tables`]: what a sequence keeps on the device beside it.

pub(crate) mod chain;
pub(crate) mod layout;
pub(crate) mod shared;
pub(crate) mod tables;
