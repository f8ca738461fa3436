//! Single calls: logits on a device and parameters in, results out. The memory of a call is kept for the next
//! one.

use std::sync::{Mutex, PoisonError};

use onedraw::{RowError, SamplingParams as Params};
use onedraw_cuda::once::{self, Launch, SEQUENCES_PER_LAUNCH};
use onedraw_cuda::{Capacity, CudaError, Device};
use pyo3::prelude::*;

use super::device::Current;
use super::draws::Draws;
use super::mask::Given;
use super::stream::Handle;
use super::tensor::Tensor;
use crate::error::Result;
use crate::guarded::released;
use crate::rows::drawn;

/// The most batches that are kept for the next call, all without sequences.
const KEPT: usize = 4;

/// The most logprobs of a batch that is kept. With more, rows are sorted as a whole, and the memory for this is
/// as large as the logits.
const KEPT_LOGPROBS: usize = 1024;

static IDLE: Mutex<Vec<Draws>> = Mutex::new(Vec::new());

/// A `Sampled` for one row, `Samples` for rows or several sequences.
pub fn sample<'py>(
    py: Python<'py>,
    device: &Device,
    stream: Handle,
    tensor: &Tensor,
    params: &[Params],
    mask: Option<&Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    let (vocabulary, ordinal) = (tensor.vocabulary(), device.ordinal());
    let masks = match tensor.is_row {
        true => vec![Given::read(mask, vocabulary, ordinal, stream)?],
        false => Given::read_each(mask, tensor.rows(), vocabulary, ordinal, stream)?,
    };
    let results = match vocabulary {
        // Rows without logits have nothing to read on the device.
        0 => params.iter().flat_map(|params| vec![Err(RowError::EmptyRow); params.n as usize]).collect(),
        _ => released(py, || draw(device, stream, tensor, params, &masks))??,
    };
    drawn(py, results, tensor.is_row && params.iter().all(|params| params.n == 1))
}

type Results = Vec<std::result::Result<onedraw::Sampled, RowError>>;

fn draw(
    device: &Device,
    stream: Handle,
    tensor: &Tensor,
    params: &[Params],
    masks: &[Given],
) -> std::result::Result<Results, CudaError> {
    let params: Vec<_> = params.iter().collect();
    let parts = once::parts(&params);
    let capacity = once::capacity(parts.iter().map(|part| &params[part.clone()]), tensor.vocabulary());
    let _current = Current::keep();
    let mut draws = idle(device, capacity)?;
    let mut results = Vec::new();
    // If anything fails, neither the batch nor its sequences are kept.
    draws.with(|draws| {
        for part in parts {
            let mut ids = Vec::new();
            for params in &params[part.clone()] {
                ids.extend(draws.batch.add_all(params)?);
            }
            let masks = masks.get(part.clone()).unwrap_or_default();
            for Launch { sequences, first_row, is_one_row } in once::launches(part, &ids) {
                let count = sequences.len();
                let (matrix, masks): (_, Vec<_>) = match is_one_row {
                    true => (
                        tensor.repeated(device, first_row, count)?,
                        masks.iter().cycle().take(count).collect(),
                    ),
                    false => (tensor.matrix(device, first_row, count)?, masks.iter().collect()),
                };
                results.extend(draws.sample(stream, sequences, &masks, &matrix, true)?);
            }
            for id in ids {
                draws.batch.remove(id);
            }
        }
        Ok(())
    })?;
    if capacity.logprobs <= KEPT_LOGPROBS {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        idle.insert(0, draws);
        idle.truncate(KEPT);
    }
    Ok(results)
}

/// A batch of an earlier call that has room, or a new one.
fn idle(device: &Device, capacity: Capacity) -> std::result::Result<Draws, CudaError> {
    let fits = |draws: &Draws| {
        let there = draws.batch.capacity();
        draws.batch.device().ordinal() == device.ordinal()
            && there.vocabulary == capacity.vocabulary
            && there.sequences >= capacity.sequences
            && there.rows >= capacity.rows
            // A batch with room for more would read as many for every row.
            && there.logprobs == capacity.logprobs
    };
    {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = idle.iter().position(fits) {
            return Ok(idle.remove(place));
        }
    }
    if capacity.logprobs > KEPT_LOGPROBS {
        return Draws::new(device, capacity);
    }
    // Rounded up, so that calls with a growing number of rows do not need a new batch each time.
    let sequences = capacity.sequences.checked_next_power_of_two().unwrap_or(capacity.sequences);
    Draws::new(device, Capacity { sequences, rows: sequences.min(SEQUENCES_PER_LAUNCH), ..capacity })
}
