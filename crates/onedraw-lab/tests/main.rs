//! The integration tests of this crate, in one program: it is compiled and linked once.
//!
//! A new file needs its line here.

mod about;
mod beams;
mod code;
mod links;
mod looks;
mod refused;
mod texts;

// What several of them use.
mod support;
