//! The sequences of a batch: their histories.

use std::ffi::c_char;

use library::Rewind;

use super::{Batch, id, onedraw_batch, onedraw_sequence, unknown};
use crate::call::call;
use crate::error::{onedraw_error, onedraw_status};
use crate::json::{json_of, saved};
use crate::sampled::onedraw_sampled;
use crate::table::with;

/// Changes a sequence; `change` says whether it is there.
fn change(
    batch: *mut onedraw_batch,
    error: *mut onedraw_error,
    change: impl FnOnce(&mut library::Batch) -> bool,
) -> onedraw_status {
    call(error, |_| {
        with(batch, |batch: &mut Batch| match change(&mut batch.batch) {
            true => Ok(()),
            false => Err(unknown()),
        })
    })
}

/// Removes a sequence. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_remove(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    error: *mut onedraw_error,
) -> onedraw_status {
    change(batch, error, |batch| batch.remove(id(sequence)))
}

/// Appends a token that was chosen elsewhere. Mirostat learns nothing from it. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_accept(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    token: u32,
    error: *mut onedraw_error,
) -> onedraw_status {
    change(batch, error, |batch| batch.accept(id(sequence), token))
}

/// Appends a token that was drawn for the sequence at the next position, by `onedraw_batch_peek` or
/// `onedraw_batch_verify`, with what mirostat learned from it. It is an error if it was drawn at another position,
/// with another seed, or for another of the `n` sequences. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_accept_sampled(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    sampled: *const onedraw_sampled,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let sampled = memory.value(sampled, "sampled")?;
        with(batch, |batch: &mut Batch| {
            let accepted = sampled.accepted(&batch.batch.standing(id(sequence)).ok_or_else(unknown)?)?;
            batch.batch.accept_sampled(id(sequence), &accepted);
            Ok(())
        })
    })
}

/// Takes back a sequence's tokens after the first `length` of its output; see `onedraw_sampler_rewind`. One thread at a
/// time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_rewind(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    length: usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    change(batch, error, |batch| batch.rewind(id(sequence), length))
}

/// Takes back a sequence's tokens because of what was drawn; see `onedraw_sampler_take_back`. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_take_back(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    length: usize,
    token: u32,
    error: *mut onedraw_error,
) -> onedraw_status {
    change(batch, error, |batch| batch.take_back(id(sequence), &Rewind { length, token, phrase: 0 }))
}

/// Replaces the prompt of a sequence; see `onedraw_sampler_set_prompt`. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_set_prompt(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    tokens: *const u32,
    count: usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let tokens = memory.array(tokens, count, "tokens")?;
        with(batch, |batch: &mut Batch| match batch.batch.set_prompt(id(sequence), tokens) {
            true => Ok(()),
            false => Err(unknown()),
        })
    })
}

/// Makes a sequence what it was when it was added or loaded; see `onedraw_sampler_reset`. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_reset(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    error: *mut onedraw_error,
) -> onedraw_status {
    change(batch, error, |batch| batch.reset(id(sequence)))
}

/// The tokens that a sequence has written so far. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_output(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(tokens, capacity, count, "tokens")?;
        with(batch, |batch: &mut Batch| {
            buffer.fill(batch.batch.output(id(sequence)).ok_or_else(unknown)?.iter().copied())
        })
    })
}

/// The seed of a sequence. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_seed(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    seed: *mut u64,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(seed, "seed")?;
        with(batch, |batch: &mut Batch| {
            place.write(batch.batch.seed(id(sequence)).ok_or_else(unknown)?);
            Ok(())
        })
    })
}

/// Everything that later draws of a sequence depend on, as JSON. A sampler can load it too. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_save(
    batch: *mut onedraw_batch,
    sequence: onedraw_sequence,
    json: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(json, capacity, length, "json")?;
        with(batch, |batch: &mut Batch| {
            buffer.fill_text(&json_of(&batch.batch.save(id(sequence)).ok_or_else(unknown)?)?)
        })
    })
}

/// Adds a sequence that `onedraw_batch_save` or `onedraw_sampler_save` wrote. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_batch_load(
    batch: *mut onedraw_batch,
    json: *const c_char,
    sequence: *mut onedraw_sequence,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(sequence, "sequence")?;
        let saved = saved(memory.text(json, "json")?)?;
        with(batch, |batch: &mut Batch| {
            place.write(batch.batch.load(&saved)?.to_bits());
            Ok(())
        })
    })
}
