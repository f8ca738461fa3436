//! What a batch tells beside the tokens.

use std::ffi::c_char;

use library::{RowError, Sampled, Step};

use super::{Batch, id, onedraw_batch, onedraw_sequence};
use crate::call::call;
use crate::error::{Failure, Result, onedraw_error, onedraw_status};
use crate::json::json_of;
use crate::rows::{Masked, onedraw_row, read_row};
use crate::sampled::{
    fill_distribution, fill_logprobs, kept_of, onedraw_kept, onedraw_probability, onedraw_token_logprob,
};
use crate::table::with;

/// A token that finishes early in the race of a draw: what a drafter guesses.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_runner {
    /// The token.
    pub token: u32,
    /// How far it is behind the winner, in the logarithm of the time; 0 for the winner.
    pub behind: f64,
}

/// What the last call drew from a row.
fn drawn(batch: &Batch, row: usize) -> Result<&Sampled> {
    batch.last(row)?.as_ref().map_err(|error| Failure::of_row(row, error))
}

/// The drawn token and then the best others, of a row of the last call, where `logprobs` is set. After
/// `onedraw_batch_verify` the rows 0 to `*drawn` - 1 are the tokens that it drew. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_logprobs(
    batch: *mut onedraw_batch,
    row: usize,
    logprobs: *mut onedraw_token_logprob,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let buffer = memory.buffer(logprobs, capacity, count, "logprobs")?;
        with(batch, |batch: &mut Batch| fill_logprobs(drawn(batch, row)?, buffer))
    })
}

/// The kept set of a row of the last call, as in `onedraw_batch_logprobs`, where `kept` is `summary` or `ids`. `ids`
/// receives its ids in ascending order; with a summary there are none. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_kept(
    batch: *mut onedraw_batch,
    row: usize,
    kept: *mut onedraw_kept,
    ids: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(kept, "kept")?;
        let mut buffer = memory.buffer(ids, capacity, count, "ids")?;
        with(batch, |batch: &mut Batch| {
            let (kept, summary) = kept_of(drawn(batch, row)?)?;
            buffer.fill(kept.ids.as_deref().unwrap_or_default().iter().copied())?;
            place.write(summary);
            Ok(())
        })
    })
}

/// A question about one sequence and a row.
fn asked<T>(
    batch: &mut Batch,
    sequence: onedraw_sequence,
    Masked { row, mask }: Masked<'_>,
    ask: impl FnOnce(&mut library::Batch, &[Step<'_>]) -> Vec<std::result::Result<T, RowError>>,
) -> Result<T> {
    let step = Step { sequence: id(sequence), row, mask };
    Ok(ask(&mut batch.batch, &[step]).pop().unwrap_or(Err(RowError::UnknownSequence))?)
}

/// Every token that a sequence can draw from a row, in order, with its probability. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_distribution(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    row: *const onedraw_row,
    distribution: *mut onedraw_probability,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let buffer = memory.buffer(distribution, capacity, count, "distribution")?;
        let row = read_row(memory, row)?;
        with(batch, |batch: &mut Batch| {
            fill_distribution(&asked(batch, sequence, row, library::Batch::distributions)?, buffer)
        })
    })
}

/// Finds out what each stage of a sequence does to a row, as JSON for `onedraw_batch_json`; see
/// `onedraw_sampler_explain`. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_explain(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    row: *const onedraw_row,
    listed: usize,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let length = memory.place(length, "length")?;
        let row = read_row(memory, row)?;
        with(batch, |batch: &mut Batch| {
            let explanation = asked(batch, sequence, row, |batch, steps| batch.explanations(steps, listed))?;
            batch.json = json_of(&explanation)?;
            length.write(batch.json.len());
            Ok(())
        })
    })
}

/// The JSON of the last `onedraw_batch_explain`, with a zero at the end; `*length` is the number of bytes without it. One
/// thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_json(
    batch: *mut onedraw_batch,
    json: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(json, capacity, length, "json")?;
        with(batch, |batch: &mut Batch| match batch.json.is_empty() {
            true => Err(Failure::nothing("this batch has explained nothing yet")),
            false => buffer.fill_text(&batch.json),
        })
    })
}

/// The first `capacity` tokens of the race of a sequence's draw: the one that it would draw, then what it would have
/// drawn without that one. A drafter guesses with these: a target with nearly the same logits draws one of them. The
/// history stays as it is. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_runners(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    row: *const onedraw_row,
    runners: *mut onedraw_runner,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(runners, capacity, count, "runners")?;
        let row = read_row(memory, row)?;
        with(batch, |batch: &mut Batch| {
            let found = asked(batch, sequence, row, |batch, steps| batch.runners(steps, capacity))?;
            buffer.fill(
                found.into_iter().map(|runner| onedraw_runner { token: runner.token, behind: runner.behind }),
            )
        })
    })
}
