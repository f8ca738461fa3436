//! One row of logits under its edits: what can be written to it, and what can be learned about it.
//!
//! From the bottom up:
//!
//! - `span`: the part of the vocabulary that this process holds, in blocks of 64 ids.
//! - `overlay`: the edits, laid over the row.  `skyline`: the largest logit of every block.
//! - `edited`: the two together: the row as the edits left it, which the edits write and everything else
//!   reads.
//! - `measure/`: counts, masses and lists of it, each from the blocks that matter.
//! - `race`: who finishes first.  `finalist`: the tokens that may have.
//! - `slice`: all of this for one part of one row.
//! - `questions`: what a draw asks.  `answer`: the answers, and how those of several parts become one.
//!   `code`: both as bytes.
//! - `known`: what the parts of a row said at once, and the questions that this answers.
//! - `query`: how each question is answered, by a slice or from what is known.
//! - `access`: the interface of a row to a draw: one question at a time, each of which can fail.
//! - `locate`: where a given unit of mass lies, which takes several questions.

pub(crate) mod access;
pub mod answer;
mod block;
pub(crate) mod code;
pub(crate) mod edited;
pub(crate) mod finalist;
pub(crate) mod known;
pub(crate) mod locate;
pub(crate) mod measure;
pub(crate) mod overlay;
pub mod query;
mod questions;
pub(crate) mod race;
mod skyline;
pub(crate) mod slice;
pub(crate) mod span;
