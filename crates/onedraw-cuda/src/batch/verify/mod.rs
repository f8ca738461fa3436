//! Verification of drafts, with the verdicts of [`onedraw::Batch::verify`].
//!
//! All rows of all drafts are launched at once: a row's task names the tokens on the way to its node, and the
//! kernels edit and draw as if the text went on with them. Nothing is appended. In exact mode the host then
//! goes down each tree from what was drawn. In the other modes, the device first writes each row's law and then
//! judges, and the rows are launched once more if logprobs of the accepted tokens are asked for, or if the token
//! after them is the target's own draw, as in typical mode.
//!
//! Mirostat learns from each token, so with it a row depends on the guesses before it by more than the text:
//! the draw is launched level by level (`kernels/stages/mirostat.cuh`).

mod drafts;
mod judge;
mod paths;
mod trials;

pub use drafts::DraftTurn;
