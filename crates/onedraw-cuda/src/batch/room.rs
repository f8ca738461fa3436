//! The room of texts: a sequence gets more before it is needed.
//!
//! A text lies in one block of a pool. Once it is full it moves into a block that is a fourth larger, in the order of
//! the stream: the device copies it (`kernels/text/revise.cuh`), and the host waits for nothing.

use onedraw::slots::SequenceId;

use super::sequences::Batch;
use crate::error::CudaError;
use crate::memory::{bytes_of_mus, bytes_of_text};

impl Batch {
    /// Makes room for one more token of a sequence, which the stream's next launch may append.
    pub(super) fn make_room(&mut self, id: SequenceId) -> Result<(), CudaError> {
        let Some(member) = self.members.get_mut(id) else { return Ok(()) };
        let written = member.most as usize + 1;
        let length = member.record.prompt as usize + written;
        if member.text.is_some() && length > member.record.room as usize {
            let larger = self.pool.take(bytes_of_text(length))?;
            member.set_text(larger).into_iter().for_each(|old| self.pending.release(old));
            self.change(id, |_| {});
        }
        let Some(member) = self.members.get_mut(id) else { return Ok(()) };
        if member.mus.is_some() && written >= member.record.mu_room as usize {
            let larger = self.pool.take(bytes_of_mus(written))?;
            member.set_mus(larger).into_iter().for_each(|old| self.pending.release(old));
            self.change(id, |_| {});
        }
        if let Some(member) = self.members.get_mut(id) {
            member.most = member.most.saturating_add(1);
        }
        Ok(())
    }
}
