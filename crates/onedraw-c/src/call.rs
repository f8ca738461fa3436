//! What every function of the header does around its work.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Failure, ONEDRAW_OK, Result, onedraw_error, onedraw_status};
use crate::memory::{Memory, clear_error, with_memory, write_error};

/// Does the work of a function, tells the error, and returns the status. A panic, which is a mistake of ours, is
/// an error too: it must not unwind into C.
pub(crate) fn call(
    error: *mut onedraw_error,
    work: impl for<'a> FnOnce(Memory<'a>) -> Result<()>,
) -> onedraw_status {
    // A panic leaves no value of ours half changed that is used again: `table` refuses the handles it went
    // through, and what was being returned is lost.
    let done = catch_unwind(AssertUnwindSafe(|| with_memory(work)));
    let failure = match done {
        Ok(Ok(())) => {
            clear_error(error);
            return ONEDRAW_OK;
        }
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::internal(said(panic.as_ref())),
    };
    write_error(error, onedraw_error::from(&failure));
    failure.status
}

/// What a panic said.
fn said(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without words")
}
