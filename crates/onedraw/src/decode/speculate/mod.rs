//! Speculation: a drafter guesses ahead, the target looks at all guesses in one pass, and this says how far
//! they hold.
//!
//! A [`Draft`] is a tree of tokens after a text; the target gives a row of logits after the text and one
//! after every node. [`Batch::verify`] walks down from the root and returns the nodes that hold and the token
//! that comes after them:
//!
//! - [`Verify::Exact`]: at each node the target makes its own draw, with the noise of that position, and goes
//!   on where a child is what it drew. The text is that of plain decoding, bit for bit, whatever the drafter
//!   says.
//! - [`Verify::Rejection`], [`Verify::Block`]: other tokens than plain decoding's, from the same law. They
//!   need the [`Law`] that each guess was drawn from; [`Batch::guess`] draws guesses and returns it.
//! - [`Verify::Typical`]: what is likely enough stays, and the token after it is the target's own draw. This
//!   is another law than the target's.
//!
//! Edits, penalties, masks and truncations act at every node with the history along its path, and every token
//! is reported as a plain draw that came to it would report it. Greedy rows accept what is the best token in
//! every mode. XTC's coin belongs to the target's law at its position: in every mode it is that of plain
//! decoding.

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

pub use draft::Draft;
pub use law::{Law, Probabilities};
pub use mode::Verify;
pub use tree::DraftTree;
pub use typical::Typical;

use crate::batch::{Batch, SequenceId};
use crate::decode::constraint::Constraint;
use crate::error::RowError;
use crate::kernels::row::Row;
use crate::numeric::float_mode::Standard;
use crate::sampled::Sampled;
use chance::Dice;
use text::{Target, Text};

/// How far guesses hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The nodes that hold, from the root.
    pub path: Vec<usize>,
    /// Their tokens as the target reports them, and the one after them. Fewer only where there is an error.
    pub sampled: Vec<Sampled>,
    /// Why no token could be drawn after those.
    pub error: Option<RowError>,
}

impl Batch {
    /// Judges a draft. `rows[0]` are the target's logits after the text so far, `rows[i + 1]` those after
    /// node i. The sequence and the constraint are left as they were: what is taken of the verdict must be
    /// [accepted](Batch::accept_sampled), token by token, which is also where a text may end.
    ///
    /// Where the constraint forces tokens, the path ends before them: they need no draw.
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
        let _mode = Standard::enter();
        let sequence = self.sequence(id)?;
        let mut dice = Dice { noise: sequence.noise(sequence.position()) };
        let mut text = Text::new(self, id, draft, rows, constraint, verify)?;
        let verdict = match verify {
            Verify::Exact => Ok(exact::verify(&mut text, draft)),
            Verify::Rejection => Ok(rejection::verify(&mut text, draft, &mut dice)),
            Verify::Block => block::verify(&mut text, draft, &mut dice),
            Verify::Typical(typical) => typical::verify(&mut text, draft, typical),
        };
        text.climb(0)?;
        verdict
    }
}
