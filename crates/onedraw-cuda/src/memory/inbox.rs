//! An array whose contents the host replaces in each step.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{CudaContext, CudaEvent, result, sys};

use super::{Array, Staging};
use crate::error::CudaError;
use crate::stream::Stream;

/// An array whose contents the host replaces in each step. The host does not wait for the copy.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    array: Array<u64>,
    /// The bytes that the device has, or will have once `copied` has happened.
    sent: Vec<u8>,
    /// Memory in which the next bytes are made.
    next: Vec<u8>,
    copied: CudaEvent,
    staging: Staging,
    elements: PhantomData<T>,
}

impl<T: Pod> Inbox<T> {
    /// Room for `capacity` elements.
    pub(crate) fn new(context: &Arc<CudaContext>, capacity: usize) -> Result<Self, CudaError> {
        Self::with_room(context, size_of::<T>() * capacity)
    }

    /// Room for `capacity` elements, and for as many of another type after them.
    pub(crate) fn beside<U: Pod>(context: &Arc<CudaContext>, capacity: usize) -> Result<Self, CudaError> {
        Self::with_room(context, (size_of::<T>() + size_of::<U>()) * capacity)
    }

    fn with_room(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, CudaError> {
        Ok(Self {
            array: Array::filled(context, bytes.div_ceil(size_of::<u64>()), 0)?,
            sent: Vec::with_capacity(bytes),
            next: Vec::with_capacity(bytes),
            copied: context.new_event(None).map_err(CudaError::memory)?,
            staging: Staging::new(context, bytes)?,
            elements: PhantomData,
        })
    }

    pub(crate) fn address(&self) -> u64 {
        self.array.address()
    }

    /// Replaces the first elements, for whatever the stream does next. If they are there already, nothing is
    /// copied.
    pub(crate) fn post(&mut self, stream: Stream<'_>, elements: &[T]) -> Result<(), CudaError> {
        self.post_with::<T>(stream, elements, &[]).map(|_| ())
    }

    /// As [`Inbox::post`], with others right after the elements, in one copy. Returns where these are.
    pub(crate) fn post_with<U: Pod>(
        &mut self,
        stream: Stream<'_>,
        elements: &[T],
        others: &[U],
    ) -> Result<u64, CudaError> {
        const { assert!(size_of::<T>() % align_of::<U>() == 0, "the others are aligned after the elements") };
        self.next.clear();
        self.next.extend_from_slice(bytemuck::cast_slice(elements));
        self.next.extend_from_slice(bytemuck::cast_slice(others));
        self.send(stream)?;
        Ok(self.array.address() + size_of_val(elements) as u64)
    }

    /// Copies the next bytes, unless the device has them.
    fn send(&mut self, stream: Stream<'_>) -> Result<(), CudaError> {
        let event = self.copied.cu_event();
        if self.sent.starts_with(&self.next) {
            self.array.context.bind_to_thread().map_err(CudaError::memory)?;
            let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
            // Another stream may have copied them: this one must wait for it.
            // SAFETY: the event lives as long as the inbox.
            return unsafe { result::stream::wait_event(stream.raw(), event, flags) }
                .map_err(CudaError::memory);
        }
        // If the copy fails, nothing is known to be there.
        self.sent.clear();
        self.array.check(0, self.next.len())?;
        // SAFETY: the bytes are inside the allocation, whose owners read them as what was posted.
        unsafe { self.staging.send(stream, self.array.address(), &self.next)? };
        // SAFETY: as above.
        unsafe { result::event::record(event, stream.raw()) }.map_err(CudaError::memory)?;
        std::mem::swap(&mut self.sent, &mut self.next);
        Ok(())
    }
}
