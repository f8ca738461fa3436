//! An array whose contents the host replaces in each step.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, result, sys};

use super::{Array, Staging};
use crate::error::CudaError;
use crate::stream::Stream;

/// The places of an inbox whose copies run ahead: an engine is two or three steps ahead of the device.
const PLACES_AHEAD: usize = 4;

/// An array whose contents the host replaces in each step. The host does not wait for the copy.
#[derive(Debug)]
pub(crate) struct Inbox<T> {
    /// The one that is read, and those that were read before it.
    places: Vec<Place>,
    current: usize,
    /// Memory in which the next bytes are made.
    next: Vec<u8>,
    staging: Staging,
    /// The stream that copies, if it is not the one that reads.
    copies: Option<Arc<CudaStream>>,
    elements: PhantomData<T>,
}

/// A place of the device that the host copies to.
#[derive(Debug)]
struct Place {
    array: Array<u64>,
    /// The bytes that it has, or will have once `copied` has happened.
    sent: Vec<u8>,
    copied: CudaEvent,
    /// Happens when nobody reads it any more.
    read: CudaEvent,
}

impl<T: Pod> Inbox<T> {
    /// Room for `capacity` elements, at one address. The stream that reads them copies them.
    pub(crate) fn new(context: &Arc<CudaContext>, capacity: usize) -> Result<Self, CudaError> {
        Self::with_places(context, size_of::<T>() * capacity, 1, None)
    }

    /// Room for `capacity` elements, and for as many of another type after them, at one of several addresses.
    /// A stream of its own copies them, while the stream that will read them does what was launched before. All
    /// steps must be in the order of one stream.
    pub(crate) fn ahead<U: Pod>(context: &Arc<CudaContext>, capacity: usize) -> Result<Self, CudaError> {
        let bytes = (size_of::<T>() + size_of::<U>()) * capacity;
        let copies = context.new_stream().map_err(CudaError::memory)?;
        Self::with_places(context, bytes, PLACES_AHEAD, Some(copies))
    }

    fn with_places(
        context: &Arc<CudaContext>,
        bytes: usize,
        places: usize,
        copies: Option<Arc<CudaStream>>,
    ) -> Result<Self, CudaError> {
        let places = (0..places).map(|_| Place::new(context, bytes)).collect::<Result<_, _>>()?;
        let (next, staging) = (Vec::with_capacity(bytes), Staging::new(context, bytes)?);
        Ok(Self { places, current: 0, next, staging, copies, elements: PhantomData })
    }

    /// Where the elements are that were posted last.
    pub(crate) fn address(&self) -> u64 {
        self.places[self.current].array.address()
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
        const {
            assert!(
                size_of::<T>().is_multiple_of(align_of::<U>()),
                "the others are aligned after the elements"
            )
        };
        self.next.clear();
        self.next.extend_from_slice(bytemuck::cast_slice(elements));
        self.next.extend_from_slice(bytemuck::cast_slice(others));
        self.send(stream)?;
        Ok(self.address() + size_of_val(elements) as u64)
    }

    /// Copies the next bytes, unless they are there.
    fn send(&mut self, stream: Stream<'_>) -> Result<(), CudaError> {
        let Self { places, current, next, staging, copies, .. } = self;
        places[*current].array.context.bind_to_thread().map_err(CudaError::memory)?;
        if !places[*current].sent.starts_with(next) {
            let mut copying = stream;
            if let Some(copies) = copies {
                // Whoever reads the last place was launched before this.
                record(&places[*current].read, stream)?;
                *current = (*current + 1) % places.len();
                copying = Stream::from(&*copies);
                wait(copying, &places[*current].read)?;
            }
            let place = &mut places[*current];
            // If the copy fails, nothing is known to be there.
            place.sent.clear();
            place.array.check(0, next.len())?;
            // SAFETY: the bytes are inside the allocation, whose owners read them as what was posted.
            unsafe { staging.send(copying, place.array.address(), next)? };
            record(&place.copied, copying)?;
            std::mem::swap(&mut place.sent, next);
            if copies.is_none() {
                return Ok(());
            }
        }
        // Another stream may have copied them.
        wait(stream, &places[*current].copied)
    }
}

impl Place {
    fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, CudaError> {
        let event = || context.new_event(None).map_err(CudaError::memory);
        let array = Array::filled(context, bytes.div_ceil(size_of::<u64>()), 0)?;
        Ok(Self { array, sent: Vec::with_capacity(bytes), copied: event()?, read: event()? })
    }
}

/// Lets an event happen when the stream has done all that was launched so far.
fn record(event: &CudaEvent, stream: Stream<'_>) -> Result<(), CudaError> {
    // SAFETY: the event lives as long as the inbox.
    unsafe { result::event::record(event.cu_event(), stream.raw()) }.map_err(CudaError::memory)
}

/// Lets a stream wait for an event.
fn wait(stream: Stream<'_>, event: &CudaEvent) -> Result<(), CudaError> {
    let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: the event lives as long as the inbox.
    unsafe { result::stream::wait_event(stream.raw(), event.cu_event(), flags) }.map_err(CudaError::memory)
}
