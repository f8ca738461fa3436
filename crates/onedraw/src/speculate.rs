//! Speculation: a drafter guesses ahead, the target looks at all guesses in one pass, and this says how far they hold.
//!
//! A [`Draft`] is a tree of tokens after a text; the target gives a row of logits after the text and one after every node. [`Batch::verify`] walks down
//! from the root and returns the nodes that hold and the token that comes after them:
//!
//! - [`Verify::Exact`]: at each node the target makes its own draw, with the noise of that position, and goes on where a child is what it drew. The text
//!   is that of plain decoding, bit for bit, whatever the drafter says.
//! - [`Verify::Rejection`], [`Verify::Block`]: other tokens than plain decoding's, from the same law. They need the law that each guess was drawn from.
//! - [`Verify::Typical`]: what is likely enough stays. This is another law than the target's.
//!
//! Edits, penalties, masks and truncations act at every node with the history along its path. Greedy rows accept what is the best token in every mode.

mod exact;
mod tree;

pub use tree::DraftTree;

use crate::batch::{Batch, SequenceId, Step};
use crate::constraint::Constraint;
use crate::error::RowError;
use crate::row::Row;
use crate::sequence::Sampled;

/// How guesses are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Verify {
    /// By the target's own draw: the text does not depend on the drafter.
    #[default]
    Exact,
}

/// What a drafter guesses.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// The guesses.
    pub tree: DraftTree,
}

impl Draft {
    /// Guesses that come one after the other.
    pub fn chain(tokens: &[u32]) -> Self {
        Self { tree: DraftTree::chain(tokens) }
    }
}

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
    /// Judges a draft. `rows[0]` are the target's logits after the text so far, `rows[i + 1]` those after node i. The sequence and the constraint are
    /// left as they were: what is taken of the verdict must be [accepted](Batch::accept_sampled), token by token, which is also where a text may end.
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
        let Some(length) = self.output(id).map(<[u32]>::len) else { return Err(RowError::UnknownSequence) };
        let needed = draft.tree.len() + 1;
        if rows.len() != needed {
            return Err(RowError::DraftRows { rows: rows.len(), needed });
        }
        let mut text = Text { batch: self, id, length, rows, constraint, taken: 0 };
        let verdict = match verify {
            Verify::Exact => exact::verify(&mut text, draft),
        };
        text.undo()?;
        Ok(verdict)
    }
}

/// A text that goes down a tree.
struct Text<'a, 'c> {
    batch: &'a mut Batch,
    id: SequenceId,
    /// Of its output before the tree.
    length: usize,
    rows: &'a [Row<'a>],
    constraint: Option<&'a mut (dyn Constraint + 'c)>,
    /// Tokens that the constraint has taken.
    taken: usize,
}

impl Text<'_, '_> {
    /// Whether the next tokens need no draw.
    fn is_forced(&mut self) -> Result<bool, RowError> {
        let forced = self.constraint.as_mut().map(|constraint| constraint.forced());
        Ok(forced.transpose().map_err(|error| error.of_row())?.is_some_and(|tokens| !tokens.is_empty()))
    }

    /// Draws after a node with its own noise, and takes the token.
    fn draw(&mut self, node: Option<usize>) -> Result<Sampled, RowError> {
        let row = self.rows[node.map_or(0, |node| node + 1)];
        let mask = self.constraint.as_mut().map(|constraint| constraint.mask());
        let mask = mask.transpose().map_err(|error| error.of_row())?;
        let step = Step { sequence: self.id, row, mask };
        self.batch.sample(&[step]).pop().unwrap_or(Err(RowError::UnknownSequence))
    }

    /// Tells the constraint of a token that is a node.
    fn descend(&mut self, token: u32) -> Result<(), RowError> {
        if let Some(constraint) = &mut self.constraint {
            constraint.accept(token).map_err(|error| error.of_row())?;
            self.taken += 1;
        }
        Ok(())
    }

    /// Takes everything back.
    fn undo(self) -> Result<(), RowError> {
        self.batch.rewind(self.id, self.length);
        let undone = self.constraint.map_or(Ok(()), |constraint| constraint.rollback(self.taken));
        undone.map_err(|error| error.of_row())
    }
}
