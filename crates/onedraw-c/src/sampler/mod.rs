//! One sequence: parameters, history and seed in, tokens out.

pub(crate) mod history;
mod report;

use library::Sampled;

use crate::call::call;
use crate::error::{Failure, Result, onedraw_error, onedraw_status};
use crate::params::{onedraw_params, params_of};
use crate::rows::{Masked, onedraw_row, read_row};
use crate::sampled::{check_ahead, onedraw_sampled};
use crate::table::{Handle, free, give, with};

/// Draws the tokens of one sequence. One thread at a time may use it; a second one gets `ONEDRAW_IN_USE`.
pub enum onedraw_sampler {}

pub(crate) struct Sampler {
    pub sampler: library::Sampler,
    /// What the last call drew, for what it can tell beside the tokens: nothing if it failed.
    pub last: Vec<Sampled>,
    /// What `onedraw_sampler_json` returns.
    json: String,
}

impl Handle for Sampler {
    type Pointee = onedraw_sampler;
    const NAME: &'static str = "sampler";
}

impl Sampler {
    fn new(sampler: library::Sampler) -> Self {
        Self { sampler, last: Vec::new(), json: String::new() }
    }

    fn last(&self, number: usize) -> Result<&Sampled> {
        self.last.get(number).ok_or_else(|| {
            let drawn = self.last.len();
            Failure::nothing(format_args!("the last call drew {drawn} tokens, and no token {number}"))
        })
    }

    /// Draws a token and keeps it in place of what the last call drew.
    fn draw(
        &mut self,
        draw: impl FnOnce(&mut library::Sampler) -> Result<Sampled>,
    ) -> Result<onedraw_sampled> {
        self.last.clear();
        let drawn = draw(&mut self.sampler)?;
        let told = onedraw_sampled::from(&drawn);
        self.last.push(drawn);
        Ok(told)
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
    draw(sampler, row, 0, sampled, error, library::Sampler::accept_sampled)
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
    draw(sampler, row, ahead, sampled, error, |_, _| {})
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
            place.write(sampler.draw(|sampler| Ok(sampler.sample_uniform(row, uniform)?))?);
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
    ahead: u32,
    sampled: *mut onedraw_sampled,
    error: *mut onedraw_error,
    then: impl FnOnce(&mut library::Sampler, &Sampled),
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(sampled, "sampled")?;
        let Masked { row, mask } = read_row(memory, row)?;
        with(sampler, |sampler: &mut Sampler| {
            check_ahead(sampler.sampler.output().len(), ahead)?;
            place.write(sampler.draw(|sampler| {
                let drawn = match mask {
                    None => sampler.peek(row, ahead),
                    Some(mask) => sampler.peek_masked(row, mask, ahead),
                }?;
                then(sampler, &drawn);
                Ok(drawn)
            })?);
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
