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
        let member = self.members.get_mut(id).ok_or(RowError::UnknownSequence)?;
        self.rows.device.synchronize()?;
        let mut record = [member.record];
        self.rows.arrays.sequences.read(self.rows.device.uploads(), id.slot() as usize, &mut record)?;
        let [Sequence { position, .. }] = record;
        // What is drawn and not read yet will be counted when it is read.
        if !self.is_prepared {
            member.position = position;
        }
        Ok(position)
    }

    /// Makes the next draw that of another position, once the device has done what was launched. Penalties
    /// still see the text so far, so that several draws can be made from one text; `min_tokens` goes by the
    /// position, and must not be in such a chain. A sequence whose last tokens are kept by their positions,
    /// for `penalty_window` or for bad words of several tokens, cannot be moved: that is
    /// [`CudaError::Unsupported`].
    pub fn set_position(&mut self, id: SequenceId, position: u32) -> Result<(), CudaError> {
        let member = self.members.get_mut(id).ok_or(RowError::UnknownSequence)?;
        check_movable(&member.record)?;
        self.rows.device.synchronize()?;
        let start = id.slot() as usize * size_of::<Sequence>() + std::mem::offset_of!(Sequence, position);
        self.rows.arrays.sequences.write_bytes(
            self.rows.device.uploads(),
            start,
            bytemuck::bytes_of(&position),
        )?;
        member.position = position;
        Ok(())
    }

    /// Takes back a sequence's tokens after the first `length` of its output, once the device has done what was
    /// launched: an undo, as [`onedraw::Batch::rewind`]. The device does not keep the tokens of a text, so a
    /// sequence that depends on them, by penalties or by bad words of several tokens, cannot do this: that is
    /// [`CudaError::Unsupported`]. Such a sequence can be added anew with the shorter text.
    pub fn rewind(&mut self, id: SequenceId, length: u32) -> Result<(), CudaError> {
        let position = self.position(id)?;
        let member = self.members.get(id).ok_or(RowError::UnknownSequence)?;
        if length >= position {
            return Ok(());
        }
        if member.record.counts != 0 || member.record.ring != 0 {
            return Err(CudaError::unsupported(
                "taking tokens back with penalties or with bad words of several tokens",
            ));
        }
        self.set_position(id, length)
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
        self.rows.arrays.sequences.read(stream, 0, &mut records)?;
        for id in ids {
            if let Some(member) = self.members.get_mut(id) {
                member.position = records[id.slot() as usize].position;
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
            }
        }
        Ok(())
    }
}

/// The ring of last tokens is addressed by positions: after a move, tokens would be looked for in the wrong
/// places.
fn check_movable(record: &Sequence) -> Result<(), CudaError> {
    match record.ring {
        0 => Ok(()),
        _ => Err(CudaError::unsupported(
            "another position with a penalty_window or with bad words of several tokens",
        )),
    }
}

#[cfg(test)]
mod tests {
    use onedraw::SamplingParams;

    use super::*;
    use crate::record::chain::Record;
    use crate::record::tables::Tables;

    #[test]
    fn a_sequence_whose_last_tokens_are_kept_stays_where_it_is() {
        let movable = |params: SamplingParams| {
            let record = Record::new(&params).expect("parameters that the device takes");
            check_movable(&Tables::new(&params, &record, 100).point(&record.sequence, 0)).is_ok()
        };
        let penalties = SamplingParams { frequency_penalty: 0.5, ..Default::default() };
        assert!(
            movable(SamplingParams { penalty_window: 4, ..Default::default() }),
            "nobody asks for the window"
        );
        assert!(movable(penalties.clone()));
        assert!(!movable(SamplingParams { penalty_window: 4, ..penalties }));
        assert!(movable(SamplingParams { bad_words_ids: vec![vec![4], vec![5]], ..Default::default() }));
        assert!(!movable(SamplingParams { bad_words_ids: vec![vec![4, 5]], ..Default::default() }));
    }
}
