//! Computing while the interpreter is released, and values that several Python threads use one after the
//! other.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::{Error, Result};
use crate::raised;

thread_local! {
    /// Whether this thread runs a stage written in Python, in the middle of a draw.
    static IN_STAGE: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as running a stage written in Python while `run` does.
pub fn in_stage<T>(run: impl FnOnce() -> T) -> T {
    let before = IN_STAGE.replace(true);
    let result = run();
    IN_STAGE.set(before);
    result
}

/// Computes with the interpreter released. If a stage written in Python was interrupted meanwhile, the
/// interruption is the outcome, instead of an error of a row.
pub fn released<R: Send>(py: Python<'_>, compute: impl FnOnce() -> R + Send) -> Result<R> {
    let outcome = py.detach(compute);
    match raised::interruption() {
        Some(error) => Err(Error::Python(error)),
        None => Ok(outcome),
    }
}

/// An error in a forked process. Threads do not exist there, so waiting for them would never end.
pub fn check_process(process: Option<u32>) -> Result<()> {
    match process {
        Some(process) if process != std::process::id() => Err(Error::Python(PyRuntimeError::new_err(
            "its threads are in the process that this one was forked from; make it anew here, or start processes with the method spawn",
        ))),
        _ => Ok(()),
    }
}

pub struct Guarded<T>(Mutex<T>);

impl<T: Send> Guarded<T> {
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Uses the value with the interpreter released, once no other thread uses it. Inside a stage it does not
    /// wait, because it might wait for itself.
    pub fn with<R: Send>(&self, py: Python<'_>, action: impl FnOnce(&mut T) -> R + Send) -> Result<R> {
        let may_wait = !IN_STAGE.get();
        released(py, || self.lock(may_wait).map(|mut value| action(&mut value)))?
    }

    fn lock(&self, may_wait: bool) -> Result<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(value) => Ok(value),
            Err(TryLockError::Poisoned(error)) => Ok(error.into_inner()),
            Err(TryLockError::WouldBlock) if may_wait => {
                Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Err(TryLockError::WouldBlock) => Err(Error::Python(PyRuntimeError::new_err(
                "it is in use: a stage or a continuation cannot use what is drawing with it",
            ))),
        }
    }
}
