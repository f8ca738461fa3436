//! What a sampler tells beside the token.

use std::ffi::c_char;

use library::{Report, RowError};
use serde_json::{Value, json};

use super::{Sampler, onedraw_sampler};
use crate::call::call;
use crate::error::{Failure, Result, onedraw_error, onedraw_status};
use crate::json::{json_of, value_of};
use crate::rows::{Masked, onedraw_row, onedraw_rows, read_row, read_rows};
use crate::sampled::{
    fill_distribution, fill_logprobs, kept_of, onedraw_kept, onedraw_probability, onedraw_token_logprob,
};
use crate::table::with;

/// The drawn token and then the best others, where `logprobs` is set, of a token that the last call drew: `number` is 0
/// after a draw, and after `onedraw_sampler_verify` below its `*drawn`. Of a call that failed there are only the tokens
/// that a verification drew before. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_logprobs(
    sampler: *mut onedraw_sampler,
    number: usize,
    logprobs: *mut onedraw_token_logprob,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let buffer = memory.buffer(logprobs, capacity, count, "logprobs")?;
        with(sampler, |sampler: &mut Sampler| fill_logprobs(sampler.last(number)?, buffer))
    })
}

/// The kept set of a token that the last call drew, as in `onedraw_sampler_logprobs`, where `kept` is `summary` or
/// `ids`. `ids` receives its ids in ascending order; with a summary there are none. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_kept(
    sampler: *mut onedraw_sampler,
    number: usize,
    kept: *mut onedraw_kept,
    ids: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(kept, "kept")?;
        let mut buffer = memory.buffer(ids, capacity, count, "ids")?;
        with(sampler, |sampler: &mut Sampler| {
            let (kept, summary) = kept_of(sampler.last(number)?)?;
            buffer.fill(kept.ids.as_deref().unwrap_or_default().iter().copied())?;
            place.write(summary);
            Ok(())
        })
    })
}

/// Every token that can be drawn from a row, in order, with its probability. As many as the vocabulary has are
/// always enough. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_distribution(
    sampler: *mut onedraw_sampler,
    row: *const onedraw_row,
    distribution: *mut onedraw_probability,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let buffer = memory.buffer(distribution, capacity, count, "distribution")?;
        let Masked { row, mask } = read_row(memory, row)?;
        with(sampler, |sampler: &mut Sampler| {
            let distribution = match mask {
                None => sampler.sampler.distribution(row),
                Some(mask) => sampler.sampler.distribution_masked(row, mask),
            };
            fill_distribution(&distribution?, buffer)
        })
    })
}

/// Finds out what each stage does to a row, as JSON for `onedraw_sampler_json`: for each stage the tokens left, the share
/// of the mass, the most likely tokens that it removes and leaves (`listed` of each), the entropy, and in the end the
/// token that is drawn. The history stays as it is. `*length` is the number of bytes. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_explain(
    sampler: *mut onedraw_sampler,
    row: *const onedraw_row,
    listed: usize,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let length = memory.place(length, "length")?;
        let Masked { row, mask } = read_row(memory, row)?;
        with(sampler, |sampler: &mut Sampler| {
            let explanation = match mask {
                None => sampler.sampler.explain(row, listed),
                Some(mask) => sampler.sampler.explain_masked(row, mask, listed),
            };
            sampler.json = json_of(&explanation?)?;
            length.write(sampler.json.len());
            Ok(())
        })
    })
}

/// Finds the logprobs of the prompt (`prompt_token_ids`), as a JSON list for `onedraw_sampler_json`: row i predicts
/// token i + 1. There is an entry for each token: null for the first, which nothing predicts, {"token", "logprob",
/// "probability", "rank", "logprobs"}, or {"error": {"kind", "message"}}. The best `prompt_logprobs` others are listed.
/// The rows are in one buffer and have no masks. `*length` is the number of bytes. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_prompt_logprobs(
    sampler: *mut onedraw_sampler,
    rows: *const onedraw_rows,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let length = memory.place(length, "length")?;
        let rows = read_rows(memory, rows)?.bare_buffer()?;
        with(sampler, |sampler: &mut Sampler| {
            let reports = sampler.sampler.prompt_logprobs(rows).into_iter();
            let entry = |report: std::result::Result<Option<Report>, RowError>| match report {
                Ok(report) => value_of(&report),
                Err(error) => Ok(json!({"error": {"kind": error.kind(), "message": error.to_string()}})),
            };
            let entries: Vec<Value> = reports.map(entry).collect::<Result<_>>()?;
            sampler.json = Value::Array(entries).to_string();
            length.write(sampler.json.len());
            Ok(())
        })
    })
}

/// The JSON of the last `onedraw_sampler_explain` or `onedraw_sampler_prompt_logprobs`, with a zero at the end; `*length`
/// is the number of bytes without it. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_json(
    sampler: *mut onedraw_sampler,
    json: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(json, capacity, length, "json")?;
        with(sampler, |sampler: &mut Sampler| match sampler.json.is_empty() {
            true => Err(Failure::nothing("this sampler has explained nothing yet")),
            false => buffer.fill_text(&sampler.json),
        })
    })
}
