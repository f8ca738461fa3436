//! An array whose contents the host replaces in each step.
#![allow(unsafe_code)]

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use cudarc::driver::{CudaContext, CudaEvent, result, sys};

use super::{Array, Staging};
use crate::error::CudaError;
use crate::stream::Stream;

/// An array whose contents the host replaces in each step. The host does not wait for the copy.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    array: Array<T>,
    /// What the device has, or will have once `copied` has happened.
    sent: Vec<T>,
    copied: CudaEvent,
    staging: Staging,
}

impl<T: Pod + Zeroable + PartialEq> Inbox<T> {
    /// An array of `capacity` zeros.
    pub(crate) fn new(context: &Arc<CudaContext>, capacity: usize) -> Result<Self, CudaError> {
        Ok(Self {
            array: Array::filled(context, capacity, 0)?,
            sent: Vec::with_capacity(capacity),
            copied: context.new_event(None).map_err(CudaError::memory)?,
            staging: Staging::new(context),
        })
    }

    pub(crate) fn address(&self) -> u64 {
        self.array.address()
    }

    /// Replaces the first elements, for whatever the stream does next. If they are there already, nothing is
    /// copied.
    pub(crate) fn post(&mut self, stream: Stream<'_>, elements: &[T]) -> Result<(), CudaError> {
        let event = self.copied.cu_event();
        if self.sent.starts_with(elements) {
            self.array.context.bind_to_thread().map_err(CudaError::memory)?;
            let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
            // Another stream may have copied them: this one must wait for it.
            // SAFETY: the event lives as long as the inbox.
            return unsafe { result::stream::wait_event(stream.raw(), event, flags) }
                .map_err(CudaError::memory);
        }
        // If the copy fails, nothing is known to be there.
        self.sent.clear();
        self.array.send(stream, &mut self.staging, 0, elements)?;
        // SAFETY: as above.
        unsafe { result::event::record(event, stream.raw()) }.map_err(CudaError::memory)?;
        self.sent.extend_from_slice(elements);
        Ok(())
    }
}
