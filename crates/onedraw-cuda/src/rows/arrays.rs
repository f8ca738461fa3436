//! The device memory that all sequences and rows of a batch share.

use onedraw::KeptMode;
use onedraw::noise::BLOCK;

use super::capacity::Capacity;
use crate::device::Device;
use crate::error::CudaError;
use crate::memory::Array;
use crate::record::layout::{Entry, Gauge, Outcome, Report, Sequence, kept_mode, pitch};
use crate::record::shared::{EDIT_LIST_CAPACITY, SUMMIT_PITCH};
use crate::stream::Stream;

/// The arrays that `StepArguments` points to: `kernels/record/record.cuh` says what each holds.
#[derive(Debug)]
pub(crate) struct Arrays {
    /// One for each slot, one more for rows that no sequence has, and one for those of prompts.
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
    /// Where rows of chains with several segments are written; there is none before such a chain comes.
    pub desks: Option<Array<f32>>,
    pub gauges: Array<Gauge>,
    /// The kept tokens of each row, one bit each; there are none before a sequence comes that keeps ids.
    pub kept_bits: Option<Array<u32>>,
    /// Whether `kept_bits` is still to be made zeros. Rows that keep no ids write none, and all rows are copied to
    /// the host.
    has_new_ids: bool,
    /// Keys of rows that are sorted; there are none before a sequence comes that reports so many logprobs.
    pub sorting: Option<Array<u64>>,
    /// What the text before each row repeats; there is none before a chain comes that asks for it.
    pub repeats: Option<Array<u32>>,
    /// Whether `repeats` is still to be made zeros.
    has_new_repeats: bool,
}

impl Arrays {
    pub(crate) fn new(device: &Device, capacity: &Capacity) -> Result<Self, CudaError> {
        let context = device.context();
        let rows = capacity.rows;
        let blocks = rows * pitch(capacity.vocabulary);
        Ok(Self {
            sequences: Array::filled(context, capacity.sequences + 2, 0)?,
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
            desks: None,
            gauges: Array::filled(context, rows, 0)?,
            kept_bits: None,
            has_new_ids: false,
            sorting: None,
            repeats: None,
            has_new_repeats: false,
        })
    }

    /// The bytes of all arrays, with those that a sequence like this needs.
    pub(crate) fn bytes(capacity: &Capacity, sequence: &Sequence) -> usize {
        let Capacity { sequences, rows, vocabulary, .. } = *capacity;
        let blocks = pitch(vocabulary);
        let desk = if sequence.needs_desk != 0 { size_of::<f32>() * blocks * BLOCK } else { 0 };
        let repeats = if sequence.has_repeats() { Self::words_of_repeats(vocabulary) } else { 0 };
        let ids = if sequence.kept == kept_mode(KeptMode::Ids) { Self::words_of_ids(vocabulary) } else { 0 };
        let sorting = if sequence.lists_all() { 2 * size_of::<u64>() * blocks * BLOCK } else { 0 };
        let row = 5 * size_of::<f32>() * blocks
            + size_of::<u32>() * (2 * SUMMIT_PITCH + 1 + repeats + ids)
            + size_of::<u64>()
            + size_of::<[f32; 2]>() * EDIT_LIST_CAPACITY
            + size_of::<Outcome>()
            + size_of::<Report>()
            + size_of::<Gauge>()
            + sorting
            + size_of::<Entry>() * capacity.width()
            + desk;
        size_of::<Sequence>() * (sequences + 2) + rows * row
    }

    /// Makes room for rows of chains with several segments, if there is none.
    fn make_desks(&mut self, device: &Device, capacity: &Capacity) -> Result<(), CudaError> {
        if self.desks.is_none() {
            let logits = capacity.rows * pitch(capacity.vocabulary) * BLOCK;
            self.desks = Some(Array::uninitialised(device.context(), logits)?);
        }
        Ok(())
    }

    /// Words of a row for what its text repeats: a number, then one for each token.
    pub(crate) fn words_of_repeats(vocabulary: usize) -> usize {
        (1 + vocabulary).next_multiple_of(4)
    }

    /// Words of a row for its kept tokens.
    pub(crate) fn words_of_ids(vocabulary: usize) -> usize {
        pitch(vocabulary) * BLOCK / 32
    }

    /// Makes room for what a sequence needs that not all do. [`Arrays::zero_repeats_and_ids`] must come before it
    /// is used.
    pub(crate) fn make_room(
        &mut self,
        device: &Device,
        capacity: &Capacity,
        sequence: &Sequence,
    ) -> Result<(), CudaError> {
        if sequence.needs_desk != 0 {
            self.make_desks(device, capacity)?;
        }
        if sequence.kept == kept_mode(KeptMode::Ids) && self.kept_bits.is_none() {
            let words = capacity.rows * Self::words_of_ids(capacity.vocabulary);
            self.kept_bits = Some(Array::uninitialised(device.context(), words)?);
            self.has_new_ids = true;
        }
        if sequence.lists_all() && self.sorting.is_none() {
            let keys = 2 * capacity.rows * pitch(capacity.vocabulary) * BLOCK;
            self.sorting = Some(Array::uninitialised(device.context(), keys)?);
        }
        if sequence.has_repeats() && self.repeats.is_none() {
            let words = capacity.rows * Self::words_of_repeats(capacity.vocabulary);
            self.repeats = Some(Array::uninitialised(device.context(), words)?);
            self.has_new_repeats = true;
        }
        Ok(())
    }

    /// Makes zeros of what [`Arrays::make_room`] left unwritten, in the stream's order.
    pub(crate) fn zero_repeats_and_ids(&mut self, stream: Stream<'_>) -> Result<(), CudaError> {
        for (array, is_new) in
            [(&self.repeats, &mut self.has_new_repeats), (&self.kept_bits, &mut self.has_new_ids)]
        {
            if let Some(array) = array.as_ref().filter(|_| *is_new) {
                array.fill(stream, 0)?;
            }
            *is_new = false;
        }
        Ok(())
    }

    /// Brings the arrays into the state that a complete step leaves them in, after a step whose kernels were
    /// not all launched.
    pub(crate) fn clear(&self, stream: Stream<'_>) -> Result<(), CudaError> {
        self.bad_tokens.fill(stream, 0xff)?;
        self.summits.fill(stream, 0)?;
        self.raw_summits.fill(stream, 0)?;
        self.gauges.fill(stream, 0)?;
        self.raw_masses.fill(stream, 0)
    }
}
