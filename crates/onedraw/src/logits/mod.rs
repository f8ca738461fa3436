//! One row of logits under its edits: what can be written to it, and what can be learned about it.
//!
//! From the bottom up:
//!
//! - `span`: the part of the vocabulary that this process holds, in blocks of 64 ids.
//! - `overlay`: the edits, laid over the row.  `skyline`: the largest logit of every block.
//! - `edited`: the two together: the row as the edits left it, which the edits write and everything else
//!   reads.
//! - `measure/`: counts, masses and lists of it, each from the blocks that matter.
//! - `race`: who finishes first.
//! - `slice`: all of this for one part of one row.
//! - `query`: the questions that a draw asks, and how a slice finds the answers.  `answer`: the answers, and
//!   how those of several parts become one.  `code`: both as bytes.
//! - `access`: the interface of a row to a draw: one question at a time, each of which can fail.
//! - `locate`: where a given unit of mass lies, which takes several questions.

pub(crate) mod access;
pub mod answer;
mod block;
pub(crate) mod code;
pub(crate) mod edited;
pub(crate) mod locate;
pub(crate) mod measure;
pub(crate) mod overlay;
pub mod query;
pub(crate) mod race;
mod skyline;
pub(crate) mod slice;
pub(crate) mod span;
