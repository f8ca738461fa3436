//! How much a batch has room for.

use onedraw::RowError;

use crate::device::Device;
use crate::error::CudaError;
use crate::launch;
use crate::record::chain::MAX_LOGPROBS;

/// How much a batch has room for. All of it is allocated when the batch is made, so that a step allocates
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Sequences.
    pub sequences: usize,
    /// Rows of a step, 65,535 at most.
    pub rows: usize,
    /// Logits of a row.
    pub vocabulary: usize,
    /// The largest `logprobs` of a sequence, 1024 at most. If a sequence of a step asks for logprobs, so many
    /// entries are read for each of its rows.
    pub logprobs: usize,
}

impl Capacity {
    /// Entries of a row: the drawn token's, and those of the best tokens.
    pub(crate) fn width(&self) -> usize {
        self.logprobs + 1
    }

    pub(crate) fn check(&self, device: &Device) -> Result<(), CudaError> {
        if self.vocabulary == 0 {
            return Err(RowError::EmptyRow.into());
        }
        let limits = [
            ("vocabulary", self.vocabulary, device.max_vocabulary()),
            ("rows", self.rows, launch::MAX_ROWS),
            ("sequences", self.sequences, i32::MAX as usize),
            ("logprobs", self.logprobs, MAX_LOGPROBS as usize),
        ];
        match limits.into_iter().find(|(_, given, most)| given > most) {
            Some((what, given, capacity)) => Err(CudaError::TooMany { what, given, capacity }),
            None => Ok(()),
        }
    }
}
