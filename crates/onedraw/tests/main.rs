//! The integration tests of this crate, in one program: it is compiled and linked once.
//!
//! A new file needs its line here. Two tests are programs of their own, and `Cargo.toml` says why.

mod audit;
mod beam;
mod beam_ends;
mod conformance;
mod contrast;
mod custom;
mod equality;
mod explain;
mod fuzz_corpus;
mod golden;
mod import;
mod kept;
mod kernels;
mod mutants;
mod oracle;
mod parameters;
mod ranks;
mod sampler;
mod shards;
mod speculate;
mod state;
mod statistics;
mod stop;
