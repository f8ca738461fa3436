//! Desks: device memory for the parts of rows that questions have changed. A row takes one when the first
//! question changes it, and lays it down when it is dropped; the next row takes it up again.

use std::sync::{Arc, Mutex, PoisonError};

use crate::device::Device;
use crate::error::CudaError;
use crate::memory::Array;

/// The desks that nobody has.
#[derive(Clone, Debug, Default)]
pub(super) struct Desks(Arc<Mutex<Vec<Array<f32>>>>);

/// A desk that a row has.
#[derive(Debug)]
pub(super) struct Desk {
    /// `None` while it is dropped.
    memory: Option<Array<f32>>,
    home: Desks,
}

impl Desks {
    /// A desk for so many tokens. What lies on it is of no use. Whoever drops it has waited for the kernels that
    /// use it.
    pub(super) fn take(&self, device: &Device, tokens: usize) -> Result<Desk, CudaError> {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let memory = match idle.filter(|idle| idle.len() >= tokens) {
            Some(idle) => idle,
            None => Array::uninitialised(device.context(), tokens)?,
        };
        Ok(Desk { memory: Some(memory), home: self.clone() })
    }
}

impl Desk {
    pub(super) fn address(&self) -> u64 {
        self.memory.as_ref().map_or(0, Array::address)
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let mut idle = self.home.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.extend(self.memory.take());
    }
}
