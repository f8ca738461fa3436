//! One sequence: parameters, history and seed in, tokens out.

pub(crate) mod history;
mod report;

use library::{RowError, Sampled};

use crate::call::call;
use crate::error::{Failure, Result, onedraw_error, onedraw_status};
use crate::params::{onedraw_params, params_of};
use crate::rows::{Masked, onedraw_row, read_row};
use crate::sampled::onedraw_sampled;
use crate::table::{Handle, free, give, with};

/// Draws the tokens of one sequence. One thread at a time may use it; a second one gets `ONEDRAW_IN_USE`.
pub enum onedraw_sampler {}

pub(crate) struct Sampler {
    pub sampler: library::Sampler,
    /// The last draw, for what it can tell beside the token.
    last: Option<Sampled>,
    /// What `onedraw_sampler_json` returns.
    json: String,
}

impl Handle for Sampler {
    type Pointee = onedraw_sampler;
    const NAME: &'static str = "sampler";
}

impl Sampler {
    fn new(sampler: library::Sampler) -> Self {
        Self { sampler, last: None, json: String::new() }
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

/// Draws the next token from a row and appends it to the history. One thread at a time.
///
/// The first draws allocate memory. After them one does so where logprobs or kept ids are asked for, where a row is longer
/// than those before it or needs another look, and where the history outgrows its memory: that has room for `max_tokens`
/// tokens, at most 1,024, and doubles then.
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

/// Frees a sampler; NULL is nothing. Any thread may call it. A call that another thread is in comes to its end.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_free(
    sampler: *mut onedraw_sampler,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |_| free::<Sampler>(sampler))
}
