//! One shard of one row, loaded, ready to be asked.

use onedraw::answer::Held;
use onedraw::float_mode::Standard;
use onedraw::wire;

use super::sequence::Shard;
use crate::error::CudaError;
use crate::matrix::{Mask, Matrix};

/// One device's part of one row, ready to be asked. Made by [`Shard::row`].
#[derive(Debug)]
pub struct ShardRow<'a> {
    pub(super) shard: &'a mut Shard,
    pub(super) part: Matrix<'a>,
    /// The id of the part's first logit.
    pub(super) start: u32,
    /// The address of the row's mask, or 0.
    pub(super) mask: u64,
    /// Whether masks and edits are ignored from now on.
    pub(super) is_raw: bool,
    /// The tokens up to this key were removed.
    pub(super) head: u64,
    /// Positions after the sequence's next.
    pub(super) ahead: u32,
}

impl Shard {
    /// The device's part of the next row: a matrix of one row, whose first logit has id `start`. A mask is
    /// that of the whole row. A device whose part has no tokens need not be asked. Questions are answered on
    /// the legacy default stream.
    pub fn row<'a>(
        &'a mut self,
        part: &Matrix<'a>,
        start: usize,
        mask: Option<Mask>,
    ) -> Result<ShardRow<'a>, CudaError> {
        let ordinal = self.device.ordinal();
        if part.ordinal != ordinal {
            return Err(CudaError::NotOnDevice { address: part.address });
        }
        if part.rows != 1 {
            return Err(CudaError::Rows { rows: part.rows, turns: 1 });
        }
        let (given, capacity) = (start.saturating_add(part.vocabulary), self.vocabulary);
        if given > capacity {
            return Err(CudaError::TooMany { what: "logits", given, capacity });
        }
        if let Some(mask) = mask {
            self.admit(mask, given)?;
        }
        Ok(ShardRow {
            part: *part,
            start: start as u32,
            mask: mask.map_or(0, |mask| mask.address),
            is_raw: false,
            head: 0,
            ahead: 0,
            shard: self,
        })
    }
}

impl ShardRow<'_> {
    /// The reply to a question, both as messages. Where the device fails, or cannot answer, the reply says
    /// so, and the draw ends with an error that names this shard.
    pub fn reply(&mut self, question: &[u8]) -> Vec<u8> {
        let _mode = Standard::enter();
        let held = Held { start: self.start, length: self.part.vocabulary as u32 };
        wire::reply(self.shard.noise(self.ahead), held, question, |question, lists| {
            self.answer(question, lists).map_err(|error| error.to_string())
        })
    }
}
