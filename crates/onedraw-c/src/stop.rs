//! When a text ends, and when some of it must be taken back.

use library::{Finish, StopConditions, StopMatcher};

use crate::call::call;
use crate::error::{onedraw_error, onedraw_status};
use crate::params::{onedraw_params, params_of};
use crate::table::{Handle, free, give, with};

/// Finds where a text ends, token by token, and which part of it may be shown. One thread at a time may use it; a
/// second one gets `ONEDRAW_IN_USE`.
pub enum onedraw_stop {}

/// Why a text ended: `ONEDRAW_GOES_ON` or one of the others.
pub type onedraw_finish = u32;

/// It has not ended.
pub const ONEDRAW_GOES_ON: onedraw_finish = 0;
/// An id of `eos_token_id` came.
pub const ONEDRAW_EOS: onedraw_finish = 1;
/// An id of `stop_token_ids` came.
pub const ONEDRAW_STOP_TOKEN: onedraw_finish = 2;
/// A string of `stop` was completed.
pub const ONEDRAW_STOP_STRING: onedraw_finish = 3;
/// `max_tokens` are written.
pub const ONEDRAW_LENGTH: onedraw_finish = 4;

/// What a token changed in a text.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_progress {
    /// How many bytes `onedraw_stop_text` has to show now.
    pub shown: usize,
    /// Why the text ended.
    pub finish: onedraw_finish,
    /// The id that ended it, or the number of the string in `stop`.
    pub by: u32,
    /// Whether text must be taken back (1), because a banned string was completed, or not (0). Then hand
    /// `rewind_length` and `rewind_token` to `onedraw_sampler_take_back`, and push the token that is drawn instead.
    pub rewinds: u32,
    /// The token that is banned at that position.
    pub rewind_token: u32,
    /// How many tokens of the output stay.
    pub rewind_length: usize,
}

pub(crate) struct Stop {
    matcher: StopMatcher,
    /// What the last call showed.
    text: Vec<u8>,
}

impl Handle for Stop {
    type Pointee = onedraw_stop;
    const NAME: &'static str = "stop";
}

/// How C is told why a text ended, and by what.
pub(crate) fn told(finish: Option<Finish>) -> (onedraw_finish, u32) {
    match finish {
        None => (ONEDRAW_GOES_ON, 0),
        Some(Finish::Eos { token }) => (ONEDRAW_EOS, token),
        Some(Finish::StopToken { token }) => (ONEDRAW_STOP_TOKEN, token),
        Some(Finish::StopString { index }) => (ONEDRAW_STOP_STRING, index as u32),
        Some(Finish::Length) => (ONEDRAW_LENGTH, 0),
    }
}

/// Makes a stop matcher of parameters: `stop`, `stop_token_ids`, `eos_token_id`, `banned_strings`, `min_tokens`,
/// `max_tokens` and what goes with them. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_stop_new(
    params: *const onedraw_params,
    stop: *mut *mut onedraw_stop,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        give(memory, stop, || {
            let matcher = StopMatcher::new(StopConditions::new(&params_of(params)?)?);
            Ok(Stop { matcher, text: Vec::new() })
        })
    })
}

/// Makes a stop matcher at the same place of the text, which goes its own way. One thread at a time may use the first.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_stop_clone(
    stop: *const onedraw_stop,
    clone: *mut *mut onedraw_stop,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        give(memory, clone, || {
            with(stop, |stop: &mut Stop| Ok(Stop { matcher: stop.matcher.clone(), text: stop.text.clone() }))
        })
    })
}

/// Takes a token and the bytes that it stands for. What may be shown now is fetched with `onedraw_stop_text`. Once the
/// text has ended, tokens are ignored. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_stop_push(
    stop: *mut onedraw_stop,
    token: u32,
    bytes: *const u8,
    length: usize,
    progress: *mut onedraw_progress,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(progress, "progress")?;
        let bytes = memory.array(bytes, length, "bytes")?;
        with(stop, |stop: &mut Stop| {
            let progress = stop.matcher.push(token, bytes);
            stop.text.clear();
            stop.text.extend_from_slice(progress.text);
            let (finish, by) = told(progress.finish);
            place.write(onedraw_progress {
                shown: progress.text.len(),
                finish,
                by,
                rewinds: u32::from(progress.rewind.is_some()),
                rewind_token: progress.rewind.map_or(0, |rewind| rewind.token),
                rewind_length: progress.rewind.map_or(0, |rewind| rewind.length),
            });
            Ok(())
        })
    })
}

/// Ends the text from outside. What was held back, because it might have become a stop string, is fetched with
/// `onedraw_stop_text`; `*shown` is the number of its bytes. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_stop_finish(
    stop: *mut onedraw_stop,
    shown: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(shown, "shown")?;
        with(stop, |stop: &mut Stop| {
            stop.text.clear();
            stop.text.extend_from_slice(stop.matcher.finish());
            place.write(stop.text.len());
            Ok(())
        })
    })
}

/// The bytes that the last `onedraw_stop_push` or `onedraw_stop_finish` shows, to follow those shown before. They are
/// never taken back. They may end inside of a UTF-8 character, as tokens do, and have no zero at the end. One thread at a
/// time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_stop_text(
    stop: *mut onedraw_stop,
    bytes: *mut u8,
    capacity: usize,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(bytes, capacity, length, "bytes")?;
        with(stop, |stop: &mut Stop| buffer.fill(stop.text.iter().copied()))
    })
}

/// The bytes that are held back now. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_stop_held_back(
    stop: *mut onedraw_stop,
    bytes: *mut u8,
    capacity: usize,
    length: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(bytes, capacity, length, "bytes")?;
        with(stop, |stop: &mut Stop| buffer.fill(stop.matcher.held_back().iter().copied()))
    })
}

/// Frees a stop matcher; NULL is nothing. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_stop_free(stop: *mut onedraw_stop, error: *mut onedraw_error) -> onedraw_status {
    call(error, |_| free::<Stop>(stop))
}
