//! Draws from one text at several positions.

use onedraw::RowError;

use super::Batch;
use crate::error::CudaError;
use crate::record::Sequence;
use crate::slots::SequenceId;

impl Batch {
    /// The next draw is that of another position, once the device has done what it was told. Penalties still see the text so far, so that several draws can be
    /// made from one text; `min_tokens` and bad words of several tokens go by the position, and must not be in such a chain.
    pub fn set_position(&mut self, id: SequenceId, position: u32) -> Result<(), CudaError> {
        let member = self.members.get_mut(id).ok_or(RowError::UnknownSequence)?;
        self.device.synchronize()?;
        let start = id.slot() as usize * size_of::<Sequence>() + std::mem::offset_of!(Sequence, position);
        self.arrays.sequences.write_bytes(self.device.uploads(), start, bytemuck::bytes_of(&position))?;
        member.position = position;
        Ok(())
    }
}
