//! How much a batch has room for.

use onedraw::RowError;

use crate::device::Device;
use crate::error::CudaError;
use crate::launch;
use crate::record::shared::MAX_LISTED;

/// How much a batch has room for. What rows need is allocated when the batch is made, or with the first sequence that
/// needs it; a sequence's own memory comes from a pool that grows ([`Capacity::sequence_bytes`]). A step allocates
/// only for texts that become longer than any before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Sequences.
    pub sequences: usize,
    /// Rows of a step, 65,535 at most.
    pub rows: usize,
    /// Logits of a row.
    pub vocabulary: usize,
    /// The largest `logprobs` and `prompt_logprobs` of a sequence; the vocabulary where all are asked for (−1). If a
    /// sequence of a step asks for logprobs, so many entries are read for each of its rows. More than 1024 are
    /// listed by sorting whole rows, which takes longer.
    pub logprobs: usize,
}

impl Capacity {
    /// Entries of a row: the drawn token's, and those of the best tokens.
    pub(crate) fn width(&self) -> usize {
        self.logprobs + 1
    }

    /// Checks that there is room for the entries that a sequence asks for, and returns how many these are at most.
    pub(crate) fn admit(&self, what: &'static str, entries: u32) -> Result<u32, CudaError> {
        // More than there are tokens are as many as there are.
        let needed = (self.vocabulary + 1).min(entries as usize);
        if needed > self.width() {
            let given = if entries == u32::MAX { self.vocabulary } else { entries as usize - 1 };
            return Err(CudaError::TooMany { what, given, capacity: self.logprobs });
        }
        Ok(needed as u32)
    }

    pub(crate) fn check(&self, device: &Device) -> Result<(), CudaError> {
        if self.vocabulary == 0 {
            return Err(RowError::EmptyRow.into());
        }
        let limits = [
            ("vocabulary", self.vocabulary, device.max_vocabulary()),
            ("rows", self.rows, launch::MAX_ROWS),
            ("sequences", self.sequences, i32::MAX as usize),
            ("logprobs", self.logprobs, self.vocabulary.max(MAX_LISTED)),
        ];
        match limits.into_iter().find(|(_, given, most)| given > most) {
            Some((what, given, capacity)) => Err(CudaError::TooMany { what, given, capacity }),
            None => Ok(()),
        }
    }
}
