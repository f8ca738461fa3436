//! Speculation: a drafter guesses several tokens ahead, the target computes the logits after all guesses in
//! one pass, and this module decides which guesses are accepted.
//!
//! A [`Draft`] is a tree of tokens after a text. The target gives one row of logits after the text and one
//! after every node. [`Batch::verify`], or [`Sampler::verify`] for one sequence, walks down from the root. It
//! returns the accepted nodes and the token that comes after them:
//!
//! - [`Verify::Exact`]: at each node the target makes its own draw, with the noise of that position, and
//!   continues where a child is the drawn token. The text is that of plain decoding, bit for bit, whatever
//!   the drafter guesses.
//! - [`Verify::Rejection`], [`Verify::Block`]: other tokens than those of plain decoding, from the same
//!   distribution. They need the [`Law`] (the distribution) that each guess was drawn from; [`Batch::guess`]
//!   draws guesses and returns it.
//! - [`Verify::Typical`]: guesses that are likely enough are accepted, and the token after them is the
//!   target's own draw. The result has another distribution than the target's.
//!
//! Edits, penalties, masks and truncations act at every node with the history along its path. Every token is
//! reported as a plain draw of that token would report it. Greedy rows accept a guess if it is the best
//! token, in every mode. XTC's coin belongs to the target's distribution at a position: in every mode it is
//! the coin of plain decoding.
//!
//! The files: `tree`, `draft` and `law` (what a drafter returns), `guess` (drawing guesses), `mode` (the ways
//! to verify), `text` (the target, walking down the tree), `chance` (the noise), then one file per mode, and
//! `verdict` (the result).

mod block;
mod chance;
mod draft;
mod exact;
mod guess;
mod law;
mod mode;
mod rejection;
#[cfg(test)]
mod tests;
mod text;
mod tree;
mod typical;
mod verdict;

pub use draft::Draft;
pub use law::{Law, Probabilities};
pub use mode::{Typical, Verify};
pub use tree::DraftTree;
pub use verdict::Verdict;

use crate::batch::{Batch, SequenceId};
use crate::decode::constraint::Constraint;
use crate::engine::workspace::Workspace;
use crate::error::RowError;
use crate::kernels::row::Row;
use crate::numeric::float_mode::Standard;
use crate::sampler::Sampler;
use crate::sequence::Sequence;
use chance::VerificationNoise;
use text::{Target, Text};

impl Batch {
    /// Verifies a draft. `rows[0]` are the target's logits after the text so far, `rows[i + 1]` those after
    /// node i. The sequence and the constraint are left unchanged. The caller must
    /// [accept](Batch::accept_sampled) the tokens of the verdict that it uses, one by one; that is also where
    /// a text may end.
    ///
    /// Where the constraint forces tokens, the path ends before them, because they need no draw.
    ///
    /// Errors: the number of rows or laws does not fit the draft, a guess cannot come from its law,
    /// [`Verify::Block`] got a draft that is no chain, or the sequence is not known. A row that cannot be
    /// drawn from is reported in [`Verdict::error`], with the tokens accepted before it.
    ///
    /// ```
    /// use onedraw::speculate::{Draft, Verify};
    /// use onedraw::{Batch, Row, SamplingParams};
    ///
    /// let mut batch = Batch::new();
    /// let id = batch.add(SamplingParams::builder().temperature(0.0).build()?)?;
    /// let rows = [[0.0_f32, 2.0, 1.0], [3.0, 0.0, 1.0], [0.0, 0.0, 5.0]].map(|row| row.to_vec());
    /// let rows: Vec<Row<'_>> = rows.iter().map(Row::from).collect();
    /// let verdict = batch.verify(id, &Draft::chain(&[1, 1]), &rows, None, Verify::Exact)?;
    /// let tokens: Vec<u32> = verdict.sampled.iter().map(|sampled| sampled.token).collect();
    /// assert_eq!((verdict.path.as_slice(), tokens.as_slice()), (&[0][..], &[1, 0][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn verify(
        &mut self,
        id: SequenceId,
        draft: &Draft,
        rows: &[Row<'_>],
        constraint: Option<&mut dyn Constraint>,
        verify: Verify,
    ) -> Result<Verdict, RowError> {
        verified(self.parts(id)?, draft, rows, constraint, verify)
    }
}

impl Sampler {
    /// As [`Batch::verify`], for the sequence of a sampler. The caller must [accept](Sampler::accept_sampled) the tokens
    /// of the verdict that it uses.
    pub fn verify(
        &mut self,
        draft: &Draft,
        rows: &[Row<'_>],
        constraint: Option<&mut dyn Constraint>,
        verify: Verify,
    ) -> Result<Verdict, RowError> {
        verified(self.parts(), draft, rows, constraint, verify)
    }
}

fn verified(
    (sequence, workspace): (&mut Sequence, &mut Workspace),
    draft: &Draft,
    rows: &[Row<'_>],
    constraint: Option<&mut dyn Constraint>,
    verify: Verify,
) -> Result<Verdict, RowError> {
    let _mode = Standard::enter();
    let mut noise = VerificationNoise { start: sequence.noise(sequence.position()) };
    let mut text = Text::new((sequence, workspace), draft, rows, constraint, verify)?;
    let verdict = match verify {
        Verify::Exact => Ok(exact::verify(&mut text, draft)),
        Verify::Rejection => Ok(rejection::verify(&mut text, draft, &mut noise)),
        Verify::Block => block::verify(&mut text, draft, &mut noise),
        Verify::Typical(typical) => typical::verify(&mut text, draft, typical),
    };
    text.climb(0)?;
    verdict
}
