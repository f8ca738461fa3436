//! Devices, each opened once, and the CUDA context of a thread.
#![allow(unsafe_code)] // The driver's own calls.

use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

use onedraw_cuda::cudarc::driver::result::ctx;
use onedraw_cuda::{CudaError, Device};
use pyo3::prelude::*;

use crate::error::Result;
use crate::guarded::released;

/// The open devices, and the process that opened each of them.
static OPEN: Mutex<Vec<(u32, Device)>> = Mutex::new(Vec::new());

/// Opens the device of that number, with the kernels on it.
pub fn open(py: Python<'_>, ordinal: usize) -> Result<Device> {
    Ok(released(py, || {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((process, device)) = open.iter().find(|(_, device)| device.ordinal() == ordinal) {
            check_process(*process)?;
            return Ok(device.clone());
        }
        let device = {
            // Before the first device is open there may be no driver that could be asked for the context.
            let _current = (!open.is_empty()).then(Current::keep);
            Device::new(ordinal)?
        };
        open.push((std::process::id(), device.clone()));
        Ok::<_, CudaError>(device)
    })??)
}

/// An error in a forked process, where the driver's objects do not exist.
pub fn check_process(process: u32) -> std::result::Result<(), CudaError> {
    match process == std::process::id() {
        true => Ok(()),
        false => Err(CudaError::Launch(
            "it was opened in the process that this one was forked from; start processes with the method spawn"
                .into(),
        )),
    }
}

/// The CUDA context of this thread, which other libraries use as the current device. It is restored when this
/// is dropped.
pub struct Current(usize);

impl Current {
    /// Remembers the context of this thread. A device must be open.
    pub fn keep() -> Self {
        Self(ctx::get_current().ok().flatten().map_or(0, |context| context as usize))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        let before = if self.0 == 0 { null_mut() } else { self.0 as _ };
        // SAFETY: it was this thread's context a moment ago, or none. An error is reported by the next call.
        let _ = unsafe { ctx::set_current(before) };
    }
}
