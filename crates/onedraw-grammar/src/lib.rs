//! Text that keeps to a grammar: a JSON Schema, a regular expression, a list of choices or a Lark grammar becomes the masks that
//! [`onedraw::Sampler::sample_masked`] draws under. The engine below is [llguidance](https://github.com/guidance-ai/llguidance).
//!
//! A [`Vocabulary`] is made once for a tokenizer, a [`Grammar`] once for a schema, a [`Matcher`] for each text:
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
//!     let logits = [0.0_f32, 1.0, 2.0, 0.5, 0.1, 3.0, 0.0, 0.0, 1.0, 9.0]; // a model's; it would love to say maybe
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
//! - A mask holds a token if and only if what is written and the token's bytes are the beginning of some text that keeps to the grammar. A token
//!   that ends a text is in it only where the text may end; once nothing more can be written, the mask is those tokens and no other.
//!   Other special tokens are never in it.
//! - There is one exception: bytes that every such text goes on with are written in the tokens that the tokenizer would cut them into, because these
//!   are what a model has seen. The mask then holds one token, and [`forced`](onedraw::Constraint::forced) gives the whole run without a draw.
//! - A [`Matcher`] is a function of its grammar and the tokens it was given. It shares nothing that changes with other matchers, so
//!   no text depends on another, on threads, or on what was written and taken back.
//! - A grammar that cannot be read is a [`GrammarError`] before the first token, with the line and the column where there is one. So is one that
//!   no text keeps to, as far as the compiler sees or if no token can begin it.
//!
//! # What is not
//!
//! - Not every text that a grammar begins must end: a rule that always needs itself again (`start: "a" start`) is not noticed, and whoever draws decides
//!   when a long string is over. A vocabulary that cannot write every byte can come to a dead end, which is an error of the mask.
//! - JSON Schema is what llguidance has of it: a keyword that it knows and does not have is an error, and `$ref` stays within the schema.
//! - Where a mask or a grammar would take too long, llguidance gives up, and that is an error, too: at most a megabyte of grammar,
//!   and so much work a mask.
//!
//! Where to look: [`vocabulary`](Vocabulary), [`grammar`](Grammar), [`matcher`](Matcher), [`error`](GrammarError): one file each.

mod error;
mod grammar;
mod matcher;
mod vocabulary;

pub use error::{GrammarError, Place};
pub use grammar::Grammar;
pub use matcher::Matcher;
pub use vocabulary::{Vocabulary, VocabularyBuilder};
