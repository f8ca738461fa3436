//! Exceptions that stages written in Python raised in the middle of a draw.
//!
//! The library's error of a row holds only a text. So an exception is kept here under a number, and the text
//! carries the number between two marks until the error goes back to Python.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyException;
use pyo3::prelude::*;

/// The exceptions that nobody has asked for yet, by number.
static RAISED: Mutex<VecDeque<(u64, PyErr)>> = Mutex::new(VecDeque::new());
/// The number of the next exception.
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Whether one of them is an interruption, such as Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// The most exceptions that are kept; then the oldest is forgotten. Rows that fail together are fewer than
/// this in practice, and an error without its exception still has its text.
const KEPT: usize = 1024;
/// What stands before and after the number in the text of an error.
const MARK: char = '\u{1}';

fn raised() -> MutexGuard<'static, VecDeque<(u64, PyErr)>> {
    RAISED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps an exception, and returns the text of the row's error, with its number.
pub fn keep(py: Python<'_>, error: PyErr) -> String {
    let (number, text) = (NEXT.fetch_add(1, Ordering::Relaxed), described(py, &error));
    let mut raised = raised();
    if !error.is_instance_of::<PyException>(py) {
        INTERRUPTED.store(true, Ordering::Release);
    }
    if raised.len() == KEPT {
        raised.pop_front();
    }
    raised.push_back((number, error));
    format!("{MARK}{number}{MARK}{text}")
}

/// The interruption that stages met, such as Ctrl-C, if there was one. It is reported once, even if it met
/// several rows.
pub fn interruption() -> Option<PyErr> {
    if !INTERRUPTED.load(Ordering::Acquire) {
        return None;
    }
    Python::attach(|py| {
        let mut raised = raised();
        INTERRUPTED.store(false, Ordering::Release);
        let (errors, interruptions): (VecDeque<_>, VecDeque<_>) =
            raised.drain(..).partition(|(_, error): &(u64, PyErr)| error.is_instance_of::<PyException>(py));
        *raised = errors;
        interruptions.into_iter().next().map(|(_, error)| error)
    })
}

/// The text of an error without the number, and the exception of that number, if it is still kept.
pub fn cause(text: &str) -> (String, Option<PyErr>) {
    let mut parts = text.splitn(3, MARK);
    let (Some(before), Some(number), Some(after)) = (parts.next(), parts.next(), parts.next()) else {
        return (text.to_owned(), None);
    };
    let number: Option<u64> = number.parse().ok();
    let raised = raised();
    let place = raised.iter().position(|(other, _)| Some(*other) == number);
    let error = place.map(|place| Python::attach(|py| raised[place].1.clone_ref(py)));
    (format!("{before}{after}"), error)
}

/// An exception in one line, with the place where it was raised.
fn described(py: Python<'_>, error: &PyErr) -> String {
    let mut place = String::new();
    let mut traceback = error.traceback(py).map(Bound::into_any);
    while let Some(frame) = traceback {
        if let (Ok(line), Ok(file)) = (
            frame.getattr("tb_lineno"),
            frame.getattr("tb_frame").and_then(|frame| frame.getattr("f_code")?.getattr("co_filename")),
        ) {
            place = format!(" ({file}, line {line})");
        }
        traceback = frame.getattr("tb_next").ok().filter(|next| !next.is_none());
    }
    format!("{error}{place}")
}
