//! The target's text, which walks down a tree of guesses and comes back.

use super::draft::{Draft, place};
use super::law::Probabilities;
use super::mode::Verify;
use super::verdict::Verdict;
use crate::batch::{Batch, Step};
use crate::decode::constraint::Constraint;
use crate::engine::workspace::Workspace;
use crate::error::RowError;
use crate::kernels::row::Row;
use crate::sampled::Sampled;
use crate::sequence::Sequence;

/// A target that walks down a tree. In a method, `node` is the node where the target stands; `None` is the
/// text before the tree.
pub(super) trait Target {
    /// The distribution of the token after `node`.
    fn law(&mut self, node: Option<usize>) -> Result<Probabilities, RowError>;

    /// Appends a token after `node`, and returns what a draw of this token would report.
    fn take(&mut self, node: Option<usize>, token: u32) -> Result<Sampled, RowError>;

    /// Whether there is a choice after `token`, which was just appended. If a constraint does not accept it,
    /// or forces the next token, the loop that drives the target must handle that.
    fn goes_on(&mut self, token: u32) -> bool;

    /// Goes back up: takes back all but the first `depth` tokens of the draft.
    fn climb(&mut self, depth: usize) -> Result<(), RowError>;
}

/// Walks down the tree as long as the chosen token is a guess. `choose` gets the node and its depth, and
/// appends a token to the target.
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
    sequence: &'a mut Sequence,
    workspace: &'a mut Workspace,
    /// The length of the output before the tree.
    length: usize,
    rows: &'a [Row<'a>],
    constraint: Option<&'a mut (dyn Constraint + 'c)>,
    /// How many tokens of the tree the constraint has accepted.
    taken: usize,
}

impl<'a, 'c> Text<'a, 'c> {
    /// Checks that the rows, and for some modes the laws and the shape of the draft, fit together.
    pub(super) fn new(
        (sequence, workspace): (&'a mut Sequence, &'a mut Workspace),
        draft: &Draft,
        rows: &'a [Row<'a>],
        constraint: Option<&'a mut (dyn Constraint + 'c)>,
        verify: Verify,
    ) -> Result<Self, RowError> {
        let length = sequence.output().len();
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
        Ok(Self { sequence, workspace, length, rows, constraint, taken: 0 })
    }

    /// Asks about the row after `node`, with what the constraint allows there.
    fn ask<T>(
        &mut self,
        node: Option<usize>,
        question: impl FnOnce(&Sequence, Row<'_>, Option<&[u32]>, &mut Workspace) -> Result<T, RowError>,
    ) -> Result<T, RowError> {
        let mask = self.constraint.as_mut().map(|constraint| constraint.mask());
        let mask = mask.transpose().map_err(|error| error.of_row())?;
        question(self.sequence, self.rows[place(node)], mask, self.workspace)
    }

    /// Asks about a token after `node`, and appends it.
    fn append(
        &mut self,
        node: Option<usize>,
        question: impl FnOnce(&Sequence, Row<'_>, Option<&[u32]>, &mut Workspace) -> Result<Sampled, RowError>,
    ) -> Result<Sampled, RowError> {
        let sampled = self.ask(node, question)?;
        self.sequence.accept(sampled.token, sampled.mirostat_mu);
        Ok(sampled)
    }

    /// Draws the token after `node` with the noise of its position, and appends it.
    pub(super) fn draw(&mut self, node: Option<usize>) -> Result<Sampled, RowError> {
        self.append(node, |sequence, row, mask, workspace| sequence.draw(row, mask, 0, None, workspace))
    }

    /// Advances the constraint by a token. Returns whether the next token needs a draw, that is, whether the
    /// constraint forces none.
    fn advance_constraint(&mut self, token: u32) -> Result<bool, RowError> {
        let Some(constraint) = &mut self.constraint else { return Ok(true) };
        constraint.accept(token).map_err(|error| error.of_row())?;
        self.taken += 1;
        Ok(constraint.forced().map_err(|error| error.of_row())?.is_empty())
    }
}

impl Target for Text<'_, '_> {
    fn law(&mut self, node: Option<usize>) -> Result<Probabilities, RowError> {
        self.ask(node, next_law)
    }

    fn take(&mut self, node: Option<usize>, token: u32) -> Result<Sampled, RowError> {
        self.append(node, |sequence, row, mask, workspace| sequence.report(row, mask, token, workspace))
    }

    fn goes_on(&mut self, token: u32) -> bool {
        self.advance_constraint(token) == Ok(true)
    }

    fn climb(&mut self, depth: usize) -> Result<(), RowError> {
        self.sequence.rewind(self.length + depth);
        let back = self.taken.saturating_sub(depth);
        self.taken -= back;
        let climbed = self.constraint.as_mut().map_or(Ok(()), |constraint| constraint.rollback(back));
        climbed.map_err(|error| error.of_row())
    }
}

/// The distribution that a sequence's next token is drawn from.
pub(super) fn next_law(
    sequence: &Sequence,
    row: Row<'_>,
    mask: Option<&[u32]>,
    workspace: &mut Workspace,
) -> Result<Probabilities, RowError> {
    let distribution = sequence.distribution(row, mask, workspace)?;
    Probabilities::of(distribution).ok_or(RowError::NothingLeft { stage: None })
}

impl Batch {
    /// Runs `question` on the sequence of one step, with a workspace of the batch.
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
