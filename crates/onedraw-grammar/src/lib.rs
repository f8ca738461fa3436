//! Text that keeps to a grammar: a JSON Schema, a regular expression, a list of choices or a Lark grammar
//! becomes masks for [`onedraw::Sampler::sample_masked`]. The engine is
//! [llguidance](https://github.com/guidance-ai/llguidance).
//!
//! Make a [`Vocabulary`] once for each tokenizer, a [`Grammar`] once for each schema, and a [`Matcher`] for
//! each text:
//!
//! ```
//! use onedraw::{Constraint, Sampler, SamplingParams};
//! use onedraw_grammar::{Grammar, Vocabulary};
//!
//! let tokens = ["", "y", "n", "yes", "no", "e", "es", "o", "s", "maybe"]; // token 0 is a mark, not text
//! let vocabulary = Vocabulary::builder(tokens).eos([0]).build()?;
//! let grammar = Grammar::choices(&vocabulary, &["yes", "no"])?;
//!
//! let mut sampler = Sampler::new(SamplingParams::builder().temperature(0.0).build()?)?;
//! let mut matcher = grammar.start();
//! let mut text = String::new();
//! loop {
//!     // A model's logits, which prefer `maybe`.
//!     let logits = [0.0_f32, 1.0, 2.0, 0.5, 0.1, 3.0, 0.0, 0.0, 1.0, 9.0];
//!     let token = sampler.sample_masked(&logits[..], matcher.mask()?)?.token;
//!     matcher.accept(token)?;
//!     if vocabulary.is_eos(token) {
//!         break;
//!     }
//!     text += tokens[token as usize];
//! }
//! assert_eq!(text, "no");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//!
//! - A mask allows a token if and only if the text so far and the token's bytes begin some text that keeps to
//!   the grammar. Tokens that end a text are allowed only where the text may end. Once nothing more can be
//!   written, only they are allowed. Other special tokens are never allowed.
//! - There is one exception. Bytes that every such text continues with are written in the tokens that the
//!   tokenizer would divide them into, because a model has seen these. The mask then allows one token, and
//!   [`forced`](onedraw::Constraint::forced) gives the whole run without a draw.
//! - A [`Matcher`] is a function of its grammar and the tokens it was given. It shares no state with other
//!   matchers, so no text depends on another, on threads, or on text that was taken back.
//! - A grammar that cannot be read is a [`GrammarError`] before the first token, with the line and the column
//!   if there is one. So is a grammar that no text keeps to, as far as the compiler sees, or that no token
//!   can begin.
//!
//! # What is not promised
//!
//! - Not every text that begins must end. A rule that always needs itself again (`start: "a" start`) is not
//!   noticed, and the draws decide when a long string is over. With a vocabulary that cannot write every
//!   byte, a text can reach a dead end, which is an error of the mask.
//! - JSON Schema is supported as far as llguidance supports it. A keyword that it knows but does not support
//!   is an error, and `$ref` stays within the schema.
//! - If a mask or a grammar would take too long, llguidance gives up, which is an error too. A grammar may
//!   have at most a megabyte, and the work for each mask is limited.
//!
//! The files, in the order to read them: [`vocabulary`](Vocabulary), [`grammar`](Grammar),
//! [`matcher`](Matcher), [`error`](GrammarError); `compiled` is what the two in the middle share.

mod compiled;
mod error;
mod grammar;
mod matcher;
mod vocabulary;

pub use error::{GrammarError, Place};
pub use grammar::Grammar;
pub use matcher::Matcher;
pub use vocabulary::{Vocabulary, VocabularyBuilder};

/// The example of the README, compiled and run.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    struct CrateReadme;
}
