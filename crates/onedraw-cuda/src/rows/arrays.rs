//! The device memory that all sequences and rows of a batch share.

use super::capacity::Capacity;
use crate::device::Device;
use crate::error::CudaError;
use crate::memory::Array;
use crate::record::layout::{Entry, Outcome, Report, Sequence, pitch};
use crate::record::shared::{EDIT_LIST_CAPACITY, SUMMIT_PITCH};
use crate::stream::Stream;

/// The arrays that `StepArguments` points to: `kernels/record.cuh` says what each holds.
#[derive(Debug)]
pub(crate) struct Arrays {
    /// One for each slot, and one more for rows that no sequence has.
    pub sequences: Array<Sequence>,
    pub peaks: Array<f32>,
    pub sums: Array<f32>,
    pub references: Array<f32>,
    pub gains: Array<f32>,
    pub raw_peaks: Array<f32>,
    pub summits: Array<u32>,
    pub raw_summits: Array<u32>,
    pub raw_masses: Array<u64>,
    /// For each token the unmodified and the edited logit.
    pub edited: Array<[f32; 2]>,
    pub bad_tokens: Array<u32>,
    pub results: Array<Outcome>,
    pub reports: Array<Report>,
    pub entries: Array<Entry>,
}

impl Arrays {
    pub(crate) fn new(device: &Device, capacity: &Capacity) -> Result<Self, CudaError> {
        let context = device.context();
        let rows = capacity.rows;
        let blocks = rows * pitch(capacity.vocabulary);
        Ok(Self {
            sequences: Array::filled(context, capacity.sequences + 1, 0)?,
            peaks: Array::filled(context, blocks, 0)?,
            sums: Array::filled(context, blocks, 0)?,
            references: Array::filled(context, blocks, 0)?,
            gains: Array::filled(context, blocks, 0)?,
            raw_peaks: Array::filled(context, blocks, 0)?,
            summits: Array::filled(context, rows * SUMMIT_PITCH, 0)?,
            raw_summits: Array::filled(context, rows * SUMMIT_PITCH, 0)?,
            raw_masses: Array::filled(context, rows, 0)?,
            edited: Array::filled(context, rows * EDIT_LIST_CAPACITY, 0)?,
            bad_tokens: Array::filled(context, rows, 0xff)?,
            // A status that says that nothing was drawn yet (`results.rs`).
            results: Array::filled(context, rows, 0xff)?,
            reports: Array::filled(context, rows, 0)?,
            entries: Array::filled(context, rows * capacity.width(), 0)?,
        })
    }

    /// Brings the arrays into the state that a complete step leaves them in, after a step whose kernels were
    /// not all launched.
    pub(crate) fn clear(&self, stream: Stream<'_>) -> Result<(), CudaError> {
        self.bad_tokens.fill(stream, 0xff)?;
        self.summits.fill(stream, 0)?;
        self.raw_summits.fill(stream, 0)?;
        self.raw_masses.fill(stream, 0)
    }
}
