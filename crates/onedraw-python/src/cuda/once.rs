//! Single calls: logits on a device and parameters in, results out. The memory for it is kept for the next call.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use onedraw::{RowError, SamplingParams as Params};
use onedraw_cuda::{Capacity, CudaError, Device, SequenceId};
use pyo3::prelude::*;

use super::device::Current;
use super::draws::Draws;
use super::mask::Given;
use super::stream::Handle;
use super::tensor::Tensor;
use crate::error::Result;
use crate::guarded::released;
use crate::once::drawn;

/// Sequences of one launch: what a draw remembers of them takes memory.
const AT_A_TIME: usize = 1024;
/// Batches that wait for the next call, all without sequences.
const KEPT: usize = 4;

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
        // There is nothing to read on the device.
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
    let is_one_each = params.iter().all(|params| params.n == 1);
    // Several sequences of one row draw by themselves: their rows are one row.
    let at_a_time = if is_one_each { AT_A_TIME } else { 1 };
    let parts = (0..params.len()).step_by(at_a_time).map(|start| start..params.len().min(start + at_a_time));
    let sequences = |part: Range<usize>| params[part].iter().map(|params| params.n as usize).sum::<usize>();
    let most = parts.clone().map(sequences).max().unwrap_or(0);
    let logprobs = params.iter().filter_map(|params| params.logprobs).max().unwrap_or(0).max(0);
    let capacity = Capacity {
        sequences: most,
        rows: most.min(AT_A_TIME),
        vocabulary: tensor.vocabulary(),
        logprobs: logprobs as usize,
    };
    let _current = Current::keep();
    let mut draws = idle(device, capacity)?;
    let mut results = Vec::new();
    // Where something fails the batch is not kept, nor are its sequences.
    draws.with(|draws| {
        for part in parts {
            let mut ids = Vec::new();
            for params in &params[part.clone()] {
                ids.extend(draws.batch.add_all(params)?);
            }
            let masks: Vec<_> = masks.get(part.clone()).unwrap_or_default().iter().collect();
            results.extend(match is_one_each {
                true => {
                    let matrix = tensor.matrix(device, part.start, part.len())?;
                    draws.sample(stream, &ids, &masks, &matrix)?
                }
                false => repeated(draws, device, stream, tensor, part.start, &ids, &masks)?,
            });
            for id in ids {
                draws.batch.remove(id);
            }
        }
        Ok(())
    })?;
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    idle.insert(0, draws);
    idle.truncate(KEPT);
    Ok(results)
}

/// Several sequences of one row.
fn repeated(
    draws: &mut Draws,
    device: &Device,
    stream: Handle,
    tensor: &Tensor,
    row: usize,
    ids: &[SequenceId],
    masks: &[&Given],
) -> std::result::Result<Results, CudaError> {
    let mut results = Vec::new();
    for ids in ids.chunks(AT_A_TIME) {
        let matrix = tensor.repeated(device, row, ids.len())?;
        let masks: Vec<_> = ids.iter().map_while(|_| masks.first().copied()).collect();
        results.extend(draws.sample(stream, ids, &masks, &matrix)?);
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
            // Whoever asks for fewer would read as many as there is room for.
            && there.logprobs == capacity.logprobs
    };
    {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = idle.iter().position(fits) {
            return Ok(idle.remove(place));
        }
    }
    // Rounded up, so that a batch that grows does not need a new one each time.
    let sequences = capacity.sequences.checked_next_power_of_two().unwrap_or(capacity.sequences);
    Draws::new(device, Capacity { sequences, rows: sequences.min(AT_A_TIME), ..capacity })
}
