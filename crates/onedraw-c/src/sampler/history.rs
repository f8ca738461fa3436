//! The history of a sampler: what it has written, and where it stands.

use std::ffi::c_char;

use library::Rewind;

use super::{Sampler, onedraw_sampler};
use crate::call::call;
use crate::error::{onedraw_error, onedraw_status};
use crate::json::{json_of, saved};
use crate::sampled::onedraw_sampled;
use crate::table::{give, with};

/// Appends a token that was chosen elsewhere. Mirostat learns nothing from it. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_accept(
    sampler: *mut onedraw_sampler,
    token: u32,
    error: *mut onedraw_error,
) -> onedraw_status {
    change(sampler, error, |sampler| sampler.accept(token))
}

/// Appends a token that `onedraw_sampler_peek` or `onedraw_sampler_verify` drew at the next position, with what mirostat
/// learned from it. It is an error if it was drawn at another position, with another seed, or for another of the `n`
/// sequences. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_accept_sampled(
    sampler: *mut onedraw_sampler,
    sampled: *const onedraw_sampled,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let sampled = memory.value(sampled, "sampled")?;
        with(sampler, |sampler: &mut Sampler| {
            let accepted = sampled.accepted(&sampler.sampler.standing())?;
            sampler.sampler.accept_sampled(&accepted);
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

/// Replaces the prompt, where it is known only after the sampler was made. The output stays, and so does the position.
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_set_prompt(
    sampler: *mut onedraw_sampler,
    tokens: *const u32,
    count: usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let tokens = memory.array(tokens, count, "tokens")?;
        with(sampler, |sampler: &mut Sampler| {
            sampler.sampler.set_prompt(tokens);
            Ok(())
        })
    })
}

/// Makes the sampler what it was when it was made or loaded: the prompt and the output of its parameters, no bans, no
/// rewinds, mirostat where it began. The seed stays, one that was drawn from the system too, so the same rows draw the
/// same tokens again. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_sampler_reset(
    sampler: *mut onedraw_sampler,
    error: *mut onedraw_error,
) -> onedraw_status {
    change(sampler, error, library::Sampler::reset)
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
