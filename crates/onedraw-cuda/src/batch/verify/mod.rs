//! Verification of drafts, with the verdicts of [`onedraw::Batch::verify`].
//!
//! All rows of all drafts are launched at once: a row's task names the tokens on the way to its node, and the
//! kernels edit and draw as if the text went on with them. Nothing is appended. In exact mode the host then
//! goes down each tree from what was drawn. By rejection and by blocks, the device first writes each row's
//! law and then judges, and the rows are launched once more if logprobs of the accepted tokens are asked for.

mod drafts;
mod judge;
mod paths;
mod trials;

pub use drafts::DraftTurn;
