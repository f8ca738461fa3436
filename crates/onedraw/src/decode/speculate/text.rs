//! A text that goes down a tree, and comes back.

use super::draft::{Draft, place};
use super::law::Probabilities;
use super::{Verdict, mode::Verify};
use crate::batch::{Batch, SequenceId, Step};
use crate::decode::constraint::Constraint;
use crate::engine::workspace::Workspace;
use crate::error::RowError;
use crate::kernels::row::Row;
use crate::sampled::Sampled;
use crate::sequence::Sequence;

/// A target that goes down a tree.
pub(super) trait Target {
    /// The law of the token after a node, or after the text, where the target stands.
    fn law(&mut self, node: Option<usize>) -> Result<Probabilities, RowError>;

    /// Appends a token after a node, or after the text, and reports what a draw that came to it would.
    fn take(&mut self, node: Option<usize>, token: u32) -> Result<Sampled, RowError>;

    /// Whether there is a choice after the token that was taken. What a constraint does not take, or what it
    /// forces next, is for the loop that drives it.
    fn goes_on(&mut self, token: u32) -> bool;

    /// Takes back all but the first `depth` tokens.
    fn climb(&mut self, depth: usize) -> Result<(), RowError>;
}

/// Goes down while `choose`, which is told the node and its depth and takes a token, comes to a guess.
pub(super) fn walk<T: Target>(
    target: &mut T,
    draft: &Draft,
    mut choose: impl FnMut(&mut T, Option<usize>, usize) -> Result<Sampled, RowError>,
) -> Verdict {
    let mut verdict = Verdict::default();
    loop {
        let node = verdict.path.last().copied();
        let sampled = match choose(target, node, verdict.path.len()) {
            Ok(sampled) => sampled,
            Err(error) => return Verdict { error: Some(error), ..verdict },
        };
        let token = sampled.token;
        verdict.sampled.push(sampled);
        match draft.tree.child(node, token) {
            Some(child) if target.goes_on(token) => verdict.path.push(child),
            _ => return verdict,
        }
    }
}

/// A sequence with its rows and its constraint.
pub(super) struct Text<'a, 'c> {
    batch: &'a mut Batch,
    id: SequenceId,
    /// Of its output before the tree.
    length: usize,
    rows: &'a [Row<'a>],
    constraint: Option<&'a mut (dyn Constraint + 'c)>,
    /// Tokens that the constraint has taken.
    taken: usize,
}

impl<'a, 'c> Text<'a, 'c> {
    /// Checks what every way to judge needs, and what this one does.
    pub(super) fn new(
        batch: &'a mut Batch,
        id: SequenceId,
        draft: &Draft,
        rows: &'a [Row<'a>],
        constraint: Option<&'a mut (dyn Constraint + 'c)>,
        verify: Verify,
    ) -> Result<Self, RowError> {
        let length = batch.sequence(id)?.output().len();
        let needed = draft.tree.len() + 1;
        if rows.len() != needed {
            return Err(RowError::DraftRows { rows: rows.len(), needed });
        }
        if matches!(verify, Verify::Rejection | Verify::Block) {
            draft.check_laws(rows[0].len())?;
        }
        if verify == Verify::Block && !draft.tree.is_chain() {
            return Err(RowError::DraftNotChain);
        }
        Ok(Self { batch, id, length, rows, constraint, taken: 0 })
    }

    /// The step after a node, or after the text.
    fn step(&mut self, node: Option<usize>) -> Result<(&mut Batch, Step<'_>), RowError> {
        let mask = self.constraint.as_mut().map(|constraint| constraint.mask());
        let mask = mask.transpose().map_err(|error| error.of_row())?;
        Ok((self.batch, Step { sequence: self.id, row: self.rows[place(node)], mask }))
    }

    /// Draws after a node with the noise of its position, and takes the token.
    pub(super) fn draw(&mut self, node: Option<usize>) -> Result<Sampled, RowError> {
        let (batch, step) = self.step(node)?;
        batch.sample(&[step]).pop().unwrap_or(Err(RowError::UnknownSequence))
    }

    /// Tells the constraint of a token, and asks it whether the next ones need a draw.
    fn tell(&mut self, token: u32) -> Result<bool, RowError> {
        let Some(constraint) = &mut self.constraint else { return Ok(true) };
        constraint.accept(token).map_err(|error| error.of_row())?;
        self.taken += 1;
        Ok(constraint.forced().map_err(|error| error.of_row())?.is_empty())
    }
}

impl Target for Text<'_, '_> {
    fn law(&mut self, node: Option<usize>) -> Result<Probabilities, RowError> {
        let (batch, step) = self.step(node)?;
        batch.law(&step)
    }

    fn take(&mut self, node: Option<usize>, token: u32) -> Result<Sampled, RowError> {
        let (batch, step) = self.step(node)?;
        let sampled =
            batch.ask(&step, |sequence, workspace| sequence.report(step.row, step.mask, token, workspace))?;
        let id = step.sequence;
        batch.accept_sampled(id, &sampled);
        Ok(sampled)
    }

    fn goes_on(&mut self, token: u32) -> bool {
        self.tell(token) == Ok(true)
    }

    fn climb(&mut self, depth: usize) -> Result<(), RowError> {
        self.batch.rewind(self.id, self.length + depth);
        let back = self.taken.saturating_sub(depth);
        self.taken -= back;
        let climbed = self.constraint.as_mut().map_or(Ok(()), |constraint| constraint.rollback(back));
        climbed.map_err(|error| error.of_row())
    }
}

impl Batch {
    /// Asks the sequence of one step.
    pub(super) fn ask<T: Send>(
        &self,
        step: &Step<'_>,
        question: impl Fn(&Sequence, &mut Workspace) -> Result<T, RowError> + Sync,
    ) -> Result<T, RowError> {
        let sequence = self.sequence(step.sequence)?;
        let mut answers = Vec::with_capacity(1);
        self.for_each(&[()], &mut answers, |(), workspace| question(sequence, workspace));
        answers.pop().unwrap_or(Err(RowError::UnknownSequence))
    }
}
