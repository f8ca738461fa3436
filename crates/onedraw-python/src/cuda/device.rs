//! Devices, each opened once, and the context that a thread had before.
#![allow(unsafe_code)] // The driver's own calls.

use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use onedraw_cuda::cudarc::driver::result::ctx;
use onedraw_cuda::{CudaError, Device};
use pyo3::prelude::*;

use crate::error::Result;
use crate::guarded::released;

/// Those that are open, and the process that opened them.
static OPEN: Mutex<Vec<(u32, Device)>> = Mutex::new(Vec::new());

/// A device by its number, with the kernels on it.
pub fn open(py: Python<'_>, ordinal: usize) -> Result<Device> {
    Ok(released(py, || {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((process, device)) = open.iter().find(|(_, device)| device.ordinal() == ordinal) {
            check_process(*process)?;
            return Ok(device.clone());
        }
        let device = {
            // Before the first device is open there may be no driver to ask.
            let _current = (!open.is_empty()).then(Current::keep);
            Device::new(ordinal)?
        };
        open.push((std::process::id(), device.clone()));
        Ok::<_, CudaError>(device)
    })??)
}

/// What a driver holds does not follow into a forked process.
pub fn check_process(process: u32) -> std::result::Result<(), CudaError> {
    match process == std::process::id() {
        true => Ok(()),
        false => Err(CudaError::Launch(
            "it was opened in the process that this one was forked from; start processes with the method spawn"
                .into(),
        )),
    }
}

/// The CUDA context of this thread, which other libraries take for the current device. It is put back when this goes.
pub struct Current(usize);

impl Current {
    /// To be asked where a device is open.
    pub fn keep() -> Self {
        Self(ctx::get_current().ok().flatten().map_or(0, |context| context as usize))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let before = if self.0 == 0 { null_mut() } else { self.0 as _ };
        // SAFETY: it was this thread's context a moment ago, or none. What goes wrong is said by the next call.
        let _ = unsafe { ctx::set_current(before) };
    }
}
