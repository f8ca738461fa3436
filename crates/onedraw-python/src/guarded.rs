//! A value that several Python threads may use, one after the other, with the interpreter released.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::error::{Error, Result};

thread_local! {
    /// Whether this thread runs a stage written in Python, in the middle of a draw.
    static IN_STAGE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a stage written in Python.
pub fn in_stage<T>(run: impl FnOnce() -> T) -> T {
    let before = IN_STAGE.replace(true);
    let result = run();
    IN_STAGE.set(before);
    result
}

pub struct Guarded<T>(Mutex<T>);

impl<T: Send> Guarded<T> {
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Uses the value, once nobody else does, without the interpreter. Inside a stage it does not wait: it would wait for itself.
    pub fn with<R: Send>(&self, py: Python<'_>, action: impl FnOnce(&mut T) -> R + Send) -> Result<R> {
        let may_wait = !IN_STAGE.get();
        py.detach(|| self.lock(may_wait).map(|mut value| action(&mut value)))
    }

    fn lock(&self, may_wait: bool) -> Result<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(value) => Ok(value),
            Err(TryLockError::Poisoned(error)) => Ok(error.into_inner()),
            Err(TryLockError::WouldBlock) if may_wait => {
                Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner))
            }
            Err(TryLockError::WouldBlock) => Err(Error::Python(PyRuntimeError::new_err(
                "it is in use: a stage cannot use what is drawing with it",
            ))),
        }
    }
}
