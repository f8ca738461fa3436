//! The arithmetic of a model, in one order for every instruction set, batch and thread count.
//!
//! Read [`dot`] first: it defines the order of the additions, which is the contract. The product of a matrix
//! with many positions is many dot products, and each of them is summed by itself in that order, so the
//! numbers of a position are the same bits alone and among others. [`product`] computes such products and
//! [`tile`] does the same with AVX-512, both from the loop in [`block`], into [`sums`]; [`wide`] does it with
//! no more of AVX-512 than its [`foundation`]; `strip` does it in f64 for WebAssembly; [`element`] reads
//! weights of three types; [`exponential`] is e^x; [`lanes`] lists the instruction sets.

mod block;
pub(crate) mod dot;
pub(crate) mod element;
pub(crate) mod exponential;
#[cfg(target_arch = "x86_64")]
pub(crate) mod foundation;
pub(crate) mod lanes;
pub(crate) mod product;
#[cfg(any(test, all(target_arch = "wasm32", target_feature = "simd128")))]
mod strip;
mod sums;
#[cfg(target_arch = "x86_64")]
mod tile;
#[cfg(target_arch = "x86_64")]
mod wide;
#[cfg(any(test, all(target_arch = "wasm32", target_feature = "simd128")))]
mod widened;
