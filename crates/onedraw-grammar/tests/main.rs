//! The integration tests of this crate, in one program: it is compiled and linked once.
//!
//! A new file needs its line here.

mod ends;
mod errors;
mod forced;
mod grid;
mod masks;
mod rollback;
mod schemas;
mod speculate;

// What several of them use.
mod chance;
mod schema_maker;
mod vocabularies;

// Everybody who guesses, as the tests of onedraw-lm have them.
#[path = "../../onedraw-lm/tests/speculate/drafters.rs"]
mod drafters;
