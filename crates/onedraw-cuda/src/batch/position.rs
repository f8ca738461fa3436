//! Where sequences stand: as the host has counted, and as the device has it.

use bytemuck::Zeroable;
use onedraw::RowError;
use onedraw::slots::SequenceId;

use super::sequences::Batch;
use crate::error::CudaError;
use crate::record::layout::{Outcome, Sequence};
use crate::stream::Stream;

impl Batch {
    /// The number of a sequence's output tokens, read from the device once it has done what was launched. If
    /// nothing is prepared, [`Batch::results`] counts from this number on: it counts one per call, however
    /// often the turns were launched.
    pub fn position(&mut self, id: SequenceId) -> Result<u32, CudaError> {
        let mut record = [self.members.get(id).ok_or(RowError::UnknownSequence)?.record];
        let device = self.rows.device.clone();
        device.synchronize()?;
        self.send_pending(device.uploads())?;
        self.rows.arrays.sequences.read(device.uploads(), id.slot() as usize, &mut record)?;
        // What is drawn and not read yet will be counted when it is read.
        if let Some(member) = self.members.get_mut(id).filter(|_| !self.is_prepared) {
            member.stand(&record[0]);
        }
        Ok(record[0].position)
    }

    /// Makes the next draw that of another position. The text stays as it is, so that several draws can be made from
    /// one text: penalties, bad words and `min_tokens` go by the text. Turns that were prepared before are no longer
    /// prepared. If tokens were drawn that were not read, it waits for the device.
    pub fn set_position(&mut self, id: SequenceId, position: u32) -> Result<(), CudaError> {
        self.written(id)?;
        if let Some(member) = self.members.get_mut(id) {
            member.position = position;
        }
        self.change(id, |changed| changed.is_moved = true);
        Ok(())
    }

    /// Reads the positions of sequences from the device, once the stream has done what it has: tokens may
    /// have been drawn that were never read.
    pub(super) fn read_positions(
        &mut self,
        stream: Stream<'_>,
        ids: impl IntoIterator<Item = SequenceId>,
    ) -> Result<(), CudaError> {
        let ids: Vec<_> = ids.into_iter().filter(|&id| self.members.get(id).is_some()).collect();
        let slots = ids.iter().map(|id| id.slot() as usize + 1).max().unwrap_or(0);
        let mut records = vec![Sequence::zeroed(); slots];
        self.send_pending(stream)?;
        self.rows.arrays.sequences.read(stream, 0, &mut records)?;
        for id in ids {
            if let Some(member) = self.members.get_mut(id) {
                member.stand(&records[id.slot() as usize]);
            }
        }
        Ok(())
    }

    /// Reads the positions of all sequences, and sets them back to those before the launch whose outcomes
    /// were just read: every sequence that drew has moved on by one.
    pub(super) fn catch_up(&mut self, stream: Stream<'_>) -> Result<(), CudaError> {
        let ids: Vec<_> = self.members.ids().collect();
        self.read_positions(stream, ids)?;
        if !self.rows.form.appends {
            return Ok(());
        }
        for (row, outcome) in self.turns.iter().zip(self.outcomes.iter()) {
            let Ok(id) = row else { continue };
            if let Some(member) = self.members.get_mut(*id).filter(|_| outcome.status == Outcome::DRAWN) {
                member.position = member.position.wrapping_sub(1);
                member.written = member.written.wrapping_sub(1);
            }
        }
        Ok(())
    }
}
