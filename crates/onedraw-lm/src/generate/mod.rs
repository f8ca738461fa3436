//! The decode loop: prompts in, text out as it is written, any number of texts at a time.
//!
//! Texts join and leave between two passes. A text depends only on its prompt, its parameters and its seed:
//! other texts in the same pass, and the size of the parts in which prompts are read, change no token.
//!
//! `generator` takes requests; each becomes a `writer`; `step` makes a pass for all of them and draws,
//! with the help of `speculation` where a drafter guesses; a `tracer` writes down what it was drawn with;
//! callers get an `event` for every token, or whole `text`s from `stream`. What a pass did besides is `seen` by those who
//! watch it.

mod error;
mod event;
mod generator;
mod seen;
mod speculation;
mod step;
mod stream;
mod text;
mod tracer;
mod writer;

pub use error::GenerateError;
pub use event::{Event, RequestId};
pub use generator::{Generator, Timings};
pub use seen::{Seen, SeenGuesses, SeenRow};
pub use stream::Stream;
pub use text::{Generated, Texts};
pub use tracer::Tracer;
