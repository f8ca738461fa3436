//! The integration tests of this crate, in one program: it is compiled and linked once.
//!
//! A new file needs its line here.

mod answers;
mod chats;
mod documents;
mod echoes;
mod explained;
mod faults;
mod fuzz_corpus;
mod lab;
mod one_draw;
mod refused;
mod responses;
mod scheduling;
mod security;
mod starts;
mod streams;
mod traces;

// What several of them use.
mod support;
