//! Taking tokens back.

use onedraw::slots::SequenceId;
use onedraw::{Rewind, RowError};

use super::path::Path;
use super::sequences::Batch;
use crate::error::CudaError;
use crate::record::shared::EDIT_LIST_CAPACITY;
use crate::record::tables::words_of_bitmap;

impl Batch {
    /// Takes back a sequence's tokens after the first `length` of its output: an undo, as [`onedraw::Batch::rewind`].
    /// The next draw is that of position `length`. Turns that were prepared before are no longer prepared. If tokens
    /// were drawn that were not read, it waits for the device to know how long the text is.
    pub fn rewind(&mut self, id: SequenceId, length: u32) -> Result<(), CudaError> {
        let written = self.written(id)?;
        if length < written {
            self.go_back(id, length, |path| path.rewind(length))?;
        }
        Ok(())
    }

    /// As [`onedraw::Batch::take_back`], with the new noise for what follows, and with a ban on the token at that
    /// position. It waits as [`Batch::rewind`] does.
    pub fn take_back(&mut self, id: SequenceId, rewind: &Rewind) -> Result<(), CudaError> {
        let written = self.written(id)?;
        match u32::try_from(rewind.length) {
            Ok(length) if length <= written => {
                self.go_back(id, length, |path| path.take_back(length, rewind.token))
            }
            _ => Ok(()),
        }
    }

    /// The number of a sequence's output tokens. Nothing is prepared afterwards, and the host knows where all stand.
    pub(super) fn written(&mut self, id: SequenceId) -> Result<u32, CudaError> {
        self.members.get(id).ok_or(RowError::UnknownSequence)?;
        self.forget_turns();
        if self.is_behind {
            self.rows.device.synchronize()?;
            let ids: Vec<_> = self.members.ids().collect();
            self.read_positions(self.rows.device.clone().uploads(), ids)?;
            self.is_behind = false;
        }
        Ok(self.members.get(id).ok_or(RowError::UnknownSequence)?.written)
    }

    /// Goes back to `length` output tokens, with a path that `change` makes of the old one.
    fn go_back(
        &mut self,
        id: SequenceId,
        length: u32,
        change: impl FnOnce(&mut Path),
    ) -> Result<(), CudaError> {
        let vocabulary = self.rows.capacity.vocabulary;
        let member = self.members.get_mut(id).ok_or(RowError::UnknownSequence)?;
        let mut path = member.path.clone();
        change(&mut path);
        let mut bans = path.bans_at(length);
        // What is no token cannot be drawn.
        bans.retain(|&token| (token as usize) < vocabulary);
        let words = words_of_bitmap(vocabulary);
        // Whatever fails comes before the sequence is changed.
        let list = if bans.is_empty() { None } else { Some(self.pool.take(size_of_val(&bans[..]))?) };
        if !bans.is_empty() && member.record.touched == 0 {
            let bits = match self.pool.take(size_of::<u32>() * (words + EDIT_LIST_CAPACITY)) {
                Ok(bits) => bits,
                Err(error) => {
                    list.into_iter().for_each(|list| self.pool.give(list));
                    return Err(error);
                }
            };
            member.record.touched = bits.address;
            member.record.edit_list = bits.address + (size_of::<u32>() * words) as u64;
            // The first pass reads the whole list before it knows how long it is.
            self.pending.copy(member.record.edit_list, &[0_u32; EDIT_LIST_CAPACITY]);
            member.touched = Some(bits);
        }
        if let Some(list) = &list {
            self.pending.copy(list.address, &bans);
        }
        member.record.bans = list.as_ref().map_or(0, |list| list.address);
        member.record.ban_count = bans.len() as u32;
        member.record.ban_place = member.record.prompt.saturating_add(length);
        member.record.round = path.round();
        let old = std::mem::replace(&mut member.bans, list);
        old.into_iter().for_each(|old| self.pending.release(old));
        member.path = path;
        (member.written, member.position, member.most) = (length, length, length);
        self.change(id, |changed| (changed.is_shorter, changed.is_moved) = (true, true));
        Ok(())
    }
}
