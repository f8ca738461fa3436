//! onedraw for C. `include/onedraw.h`, which is made from this crate, is its documentation.
//!
//! - [`call`](mod@call): what every function does: no panic and no unwinding leaves it, and an error is told.
//! - [`error`]: statuses, and the words of the library.  [`memory`]: the only place that follows the caller's
//!   pointers.  [`table`]: handles, which are numbers, and the values that they stand for.
//! - [`rows`] and [`records`]: logits and masks.  [`sampled`]: results.  [`json`](mod@json): values as JSON.
//! - [`params`], [`sampler`], [`batch`], [`verify`], [`stop`], [`grammar`], [`beam`], [`version`]: the functions, by
//!   what they are for.

// The names of C.
#![allow(non_camel_case_types)]
// For the attribute that gives a function its name in C, and for the blocks of `memory`. A test finds any other.
#![allow(unsafe_code)]

mod batch;
mod beam;
mod call;
mod error;
mod grammar;
mod json;
mod memory;
mod params;
mod records;
mod rows;
mod sampled;
mod sampler;
mod stop;
mod table;
#[cfg(test)]
mod tests;
mod verify;
mod version;
