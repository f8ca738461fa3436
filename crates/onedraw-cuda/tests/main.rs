//! The integration tests of this crate, in one program: it is compiled and linked once.
//!
//! A new file needs its line here.

mod device;
mod edits;
mod proof;
mod ranks;
mod refusals;
mod reports;
mod requests;
mod shards;
mod steps;
mod texts;
mod verify;
mod words;

// What several of them use.
mod beside;
