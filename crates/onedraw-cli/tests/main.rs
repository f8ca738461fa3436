//! The integration tests of this crate, in one program: it is compiled and linked once.
//!
//! A new file needs its line here.

mod audit;
mod bench;
mod compare;
mod first_minutes;
mod fuzz_corpus;
mod generate;
mod guide;
mod params_import;
mod plot;
mod presets;
mod readme;
mod sample;
mod sample_device;
mod sample_errors;
mod sample_files;
mod search;
mod serve;
mod speculate;
mod stories;

// What several of them use.
mod support;
