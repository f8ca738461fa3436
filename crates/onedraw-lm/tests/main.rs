//! The integration tests of this crate, in one program: it is compiled and linked once.
//!
//! A new file needs its line here. One test is a program of its own, and `Cargo.toml` says why.

mod audits;
mod bad_models;
mod bad_requests;
mod beam;
mod branches;
mod chat;
mod constrained;
mod constrained_audits;
mod contrast;
mod eagle_head;
mod early_exit;
mod generate;
mod generation_config;
mod own_drafter;
mod real_model;
mod shortlist;
mod speculate;
mod stories;
mod tokenizer;
mod transformers;

// What several of them use.
mod checkpoint;
mod parrot;
