//! One sequence: parameters, history and seed in, tokens out.

use std::ffi::c_char;

use library::{Report, Rewind, RowError, Sampled};
use serde_json::{Value, json};

use crate::call::call;
use crate::error::{Failure, Result, onedraw_error, onedraw_status};
use crate::json::{json_of, saved, value_of};
use crate::params::{onedraw_params, params_of};
use crate::rows::{Masked, onedraw_row, onedraw_rows, read_row, read_rows};
use crate::sampled::{
    fill_distribution, fill_logprobs, kept_of, onedraw_kept, onedraw_probability, onedraw_sampled,
    onedraw_token_logprob,
};
use crate::table::{Handle, free, give, with};

/// Draws the tokens of one sequence. One thread at a time may use it; a second one gets `ONEDRAW_IN_USE`.
pub enum onedraw_sampler {}

pub(crate) struct Sampler {
    sampler: library::Sampler,
    /// The last draw, for what it can tell beside the token.
    last: Option<Sampled>,
}

impl Handle for Sampler {
    type Pointee = onedraw_sampler;
    const NAME: &'static str = "sampler";
}

impl Sampler {
    fn new(sampler: library::Sampler) -> Self {
        Self { sampler, last: None }
    }

    fn last(&self) -> Result<&Sampled> {
        self.last.as_ref().ok_or_else(|| Failure::nothing("this sampler has drawn nothing yet"))
    }
}

/// Makes a sampler of parameters, which are checked. Of `n` sequences it is the first. The parameters may be freed
/// after that. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_new(
    params: *const onedraw_params,
    sampler: *mut *mut onedraw_sampler,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        give(memory, sampler, || Ok(Sampler::new(library::Sampler::new(params_of(params)?)?)))
    })
}

/// Makes the sampler of one of the `n` sequences of the parameters, counted from 0. They share a seed that is
/// given, and differ in the noise. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_new_sequence(
    params: *const onedraw_params,
    number: u32,
    sampler: *mut *mut onedraw_sampler,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        give(memory, sampler, || Ok(Sampler::new(library::Sampler::sequence(params_of(params)?, number)?)))
    })
}

/// Makes a sampler with the same parameters, seed and history, which goes its own way. One thread at a time may
/// use the first.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_clone(
    sampler: *const onedraw_sampler,
    clone: *mut *mut onedraw_sampler,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        give(memory, clone, || {
            with(sampler, |sampler: &mut Sampler| Ok(Sampler::new(sampler.sampler.clone())))
        })
    })
}

/// Draws the next token from a row and appends it to the history. It allocates no memory, unless logprobs or kept
/// ids are asked for. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_sample(
    sampler: *mut onedraw_sampler,
    row: *const onedraw_row,
    sampled: *mut onedraw_sampled,
    error: *mut onedraw_error,
) -> onedraw_status {
    draw(sampler, row, sampled, error, true, |sampler, Masked { row, mask }| match mask {
        None => sampler.peek(row, 0),
        Some(mask) => sampler.peek_masked(row, mask, 0),
    })
}

/// Draws `ahead` positions after the next one, and leaves the history as it is. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_peek(
    sampler: *mut onedraw_sampler,
    row: *const onedraw_row,
    ahead: u32,
    sampled: *mut onedraw_sampled,
    error: *mut onedraw_error,
) -> onedraw_status {
    draw(sampler, row, sampled, error, false, |sampler, Masked { row, mask }| match mask {
        None => sampler.peek(row, ahead),
        Some(mask) => sampler.peek_masked(row, mask, ahead),
    })
}

/// Draws the token at the share `uniform` in [0, 1) of the kept mass, for callers who have their own randomness,
/// and appends it to the history. The row must have no mask. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_sample_uniform(
    sampler: *mut onedraw_sampler,
    row: *const onedraw_row,
    uniform: f64,
    sampled: *mut onedraw_sampled,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(sampled, "sampled")?;
        let row = unmasked(read_row(memory, row)?)?;
        with(sampler, |sampler: &mut Sampler| {
            let drawn = sampler.sampler.sample_uniform(row, uniform)?;
            place.write(onedraw_sampled::from(&drawn));
            sampler.last = Some(drawn);
            Ok(())
        })
    })
}

fn unmasked(row: Masked<'_>) -> Result<library::Row<'_>> {
    match row.mask {
        None => Ok(row.row),
        Some(_) => Err(Failure::argument("mask", "must be NULL here")),
    }
}

/// Draws, keeps what was drawn and returns it.
fn draw(
    sampler: *mut onedraw_sampler,
    row: *const onedraw_row,
    sampled: *mut onedraw_sampled,
    error: *mut onedraw_error,
    accepts: bool,
    draw: impl FnOnce(&mut library::Sampler, Masked<'_>) -> std::result::Result<Sampled, RowError>,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(sampled, "sampled")?;
        let row = read_row(memory, row)?;
        with(sampler, |sampler: &mut Sampler| {
            let drawn = draw(&mut sampler.sampler, row)?;
            if accepts {
                sampler.sampler.accept_sampled(&drawn);
            }
            place.write(onedraw_sampled::from(&drawn));
            sampler.last = Some(drawn);
            Ok(())
        })
    })
}

/// The drawn token and then the best others, of the last draw, where `logprobs` is set. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_logprobs(
    sampler: *mut onedraw_sampler,
    logprobs: *mut onedraw_token_logprob,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let buffer = memory.buffer(logprobs, capacity, count, "logprobs")?;
        with(sampler, |sampler: &mut Sampler| fill_logprobs(sampler.last()?, buffer))
    })
}

/// The kept set of the last draw, where `kept` is `summary` or `ids`. `ids` receives its ids in ascending order; with
/// a summary there are none. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_kept(
    sampler: *mut onedraw_sampler,
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
            let (kept, summary) = kept_of(sampler.last()?)?;
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

/// What each stage does to a row, as JSON: for each stage the tokens left, the share of the mass, the most likely
/// tokens that it removes and leaves (`listed` of each), the entropy, and in the end the token that is drawn. The
/// history stays as it is. `*length` is the number of bytes without the zero at the end. The JSON tells times, so
/// its length may differ between two calls by a few bytes. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_explain(
    sampler: *mut onedraw_sampler,
    row: *const onedraw_row,
    listed: usize,
    json: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(json, capacity, length, "json")?;
        let Masked { row, mask } = read_row(memory, row)?;
        with(sampler, |sampler: &mut Sampler| {
            let explanation = match mask {
                None => sampler.sampler.explain(row, listed),
                Some(mask) => sampler.sampler.explain_masked(row, mask, listed),
            };
            buffer.fill_text(&json_of(&explanation?)?)
        })
    })
}

/// The logprobs of the prompt (`prompt_token_ids`) as a JSON list: row i predicts token i + 1. There is an entry for
/// each token: null for the first, which nothing predicts, {"token", "logprob", "probability", "rank", "logprobs"}, or
/// {"error": {"kind", "message"}}. The best `prompt_logprobs` others are listed. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_prompt_logprobs(
    sampler: *mut onedraw_sampler,
    rows: *const onedraw_rows,
    json: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(json, capacity, length, "json")?;
        let matrix = read_rows(memory, rows)?;
        with(sampler, |sampler: &mut Sampler| {
            let reports = sampler.sampler.prompt_logprobs(matrix.rows).into_iter();
            let entry = |report: std::result::Result<Option<Report>, RowError>| match report {
                Ok(report) => value_of(&report),
                Err(error) => Ok(json!({"error": {"kind": error.kind(), "message": error.to_string()}})),
            };
            let entries: Vec<Value> = reports.map(entry).collect::<Result<_>>()?;
            buffer.fill_text(&Value::Array(entries).to_string())
        })
    })
}

/// Appends a token that was chosen elsewhere. Mirostat learns nothing from it. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_accept(
    sampler: *mut onedraw_sampler,
    token: u32,
    error: *mut onedraw_error,
) -> onedraw_status {
    change(sampler, error, |sampler| sampler.accept(token))
}

/// Appends a token that `onedraw_sampler_peek` drew at the next position, with what mirostat learned from it. One
/// thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_accept_sampled(
    sampler: *mut onedraw_sampler,
    sampled: *const onedraw_sampled,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let sampled = memory.value(sampled, "sampled")?.accepted()?;
        with(sampler, |sampler: &mut Sampler| {
            sampler.sampler.accept_sampled(&sampled);
            Ok(())
        })
    })
}

/// Takes back the tokens after the first `length` of the output; a longer length changes nothing. This is an undo:
/// the same rows draw the same tokens again. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_rewind(
    sampler: *mut onedraw_sampler,
    length: usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    change(sampler, error, |sampler| sampler.rewind(length))
}

/// Takes back the tokens after the first `length` because of what was drawn, as a stop matcher decides: `token` is
/// banned at that position, and the next draw there has fresh noise. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_take_back(
    sampler: *mut onedraw_sampler,
    length: usize,
    token: u32,
    error: *mut onedraw_error,
) -> onedraw_status {
    change(sampler, error, |sampler| sampler.take_back(&Rewind { length, token, phrase: 0 }))
}

fn change(
    sampler: *mut onedraw_sampler,
    error: *mut onedraw_error,
    change: impl FnOnce(&mut library::Sampler),
) -> onedraw_status {
    call(error, |_| {
        with(sampler, |sampler: &mut Sampler| {
            change(&mut sampler.sampler);
            Ok(())
        })
    })
}

/// The tokens written so far, those of `output_token_ids` included. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_output(
    sampler: *mut onedraw_sampler,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(tokens, capacity, count, "tokens")?;
        with(sampler, |sampler: &mut Sampler| buffer.fill(sampler.sampler.output().iter().copied()))
    })
}

/// The seed: the one that was given, or the one drawn from the system. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_seed(
    sampler: *mut onedraw_sampler,
    seed: *mut u64,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(seed, "seed")?;
        with(sampler, |sampler: &mut Sampler| {
            place.write(sampler.sampler.seed());
            Ok(())
        })
    })
}

/// Everything that a later draw depends on, as JSON: parameters, seed, tokens, mirostat's state, rewinds and bans.
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_save(
    sampler: *mut onedraw_sampler,
    json: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(json, capacity, length, "json")?;
        with(sampler, |sampler: &mut Sampler| buffer.fill_text(&json_of(&sampler.sampler.save())?))
    })
}

/// Makes the sampler that `onedraw_sampler_save` wrote. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_load(
    json: *const c_char,
    sampler: *mut *mut onedraw_sampler,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        give(memory, sampler, || {
            Ok(Sampler::new(library::Sampler::load(&saved(memory.text(json, "json")?)?)?))
        })
    })
}

/// Frees a sampler; NULL is nothing. Any thread may call it. A call that another thread is in comes to its end.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_free(
    sampler: *mut onedraw_sampler,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |_| free::<Sampler>(sampler))
}
