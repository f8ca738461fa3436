//! The sampler and the constraint of a text, moved along its guesses and back.

use std::cell::RefCell;

use onedraw::speculate::Law;
use onedraw::{Batch, Constraint, RowError, Runner, SequenceId, Step};

/// A sequence of a batch, moved along guesses and back to the end of the text.
pub(super) struct Cursor<'g> {
    /// Shared with the other texts of a pass.
    batch: &'g RefCell<&'g mut Batch>,
    id: SequenceId,
    constraint: Option<&'g mut (dyn Constraint + 'static)>,
    /// The length of the output without guesses.
    length: usize,
    /// The guesses that were appended to the sequence and the constraint.
    path: Vec<u32>,
}

impl<'g> Cursor<'g> {
    pub(super) fn new(
        batch: &'g RefCell<&'g mut Batch>,
        id: SequenceId,
        constraint: Option<&'g mut (dyn Constraint + 'static)>,
    ) -> Self {
        let length = batch.borrow().output(id).map_or(0, <[u32]>::len);
        Self { batch, id, constraint, length, path: Vec::new() }
    }

    /// The first runners of the race after these guesses.
    pub(super) fn runners(
        &mut self,
        path: &[u32],
        logits: &[f32],
        count: usize,
    ) -> Result<Vec<Runner>, RowError> {
        self.go_to(path)?;
        let mask = self.constraint.as_mut().map(|constraint| constraint.mask()).transpose();
        let mask = mask.map_err(|error| error.of_row())?;
        let step = Step { sequence: self.id, row: logits.into(), mask };
        self.batch.borrow_mut().runners(&[step], count).pop().unwrap_or(Err(RowError::UnknownSequence))
    }

    /// Draws guesses after these guesses. Returns them, and the law that they were drawn from.
    pub(super) fn guess(
        &mut self,
        path: &[u32],
        logits: &[f32],
        count: usize,
    ) -> Result<(Vec<u32>, Law), RowError> {
        self.go_to(path)?;
        let mask = self.constraint.as_mut().map(|constraint| constraint.mask()).transpose();
        let mask = mask.map_err(|error| error.of_row())?;
        let step = Step { sequence: self.id, row: logits.into(), mask };
        self.batch.borrow_mut().guess(&step, count, self.length)
    }

    /// Moves to the end of these guesses. If the constraint forces what comes next, there is nothing to
    /// guess, which counts as an error.
    fn go_to(&mut self, path: &[u32]) -> Result<(), RowError> {
        let common = self.path.iter().zip(path).take_while(|(a, b)| a == b).count();
        self.back_to(common)?;
        for &token in &path[common..] {
            if let Some(constraint) = &mut self.constraint {
                constraint.accept(token).map_err(|error| error.of_row())?;
            }
            self.batch.borrow_mut().accept(self.id, token);
            self.path.push(token);
        }
        let forced = self.constraint.as_mut().map(|constraint| constraint.forced()).transpose();
        match forced.map_err(|error| error.of_row())? {
            Some(tokens) if !tokens.is_empty() => Err(RowError::NothingLeft { stage: None }),
            _ => Ok(()),
        }
    }

    /// Moves back to the first `length` guesses.
    fn back_to(&mut self, length: usize) -> Result<(), RowError> {
        let back = self.path.len() - length;
        if back > 0 {
            self.batch.borrow_mut().rewind(self.id, self.length + length);
            self.path.truncate(length);
            if let Some(constraint) = &mut self.constraint {
                constraint.rollback(back).map_err(|error| error.of_row())?;
            }
        }
        Ok(())
    }

    /// Moves back to the end of the text. If a constraint cannot, the draw that follows asks it again and
    /// reports that.
    pub(super) fn go_back(&mut self) {
        let _ = self.back_to(0);
    }
}
