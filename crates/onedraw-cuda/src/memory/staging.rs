//! Copies to the device that the host does not wait for.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, result, sys};

use super::Pinned;
use crate::error::CudaError;
use crate::stream::Stream;

/// Bytes of the smallest chunk.
const SMALLEST: usize = 64 << 10;
/// Chunks that are there from the beginning.
const FIRST_CHUNKS: usize = 2;
/// Copies begin at multiples of this.
const ALIGNMENT: usize = 16;

/// Pinned memory for copies to the device, in chunks that many copies share. A chunk is used again once the
/// device has read all of it. If it has not, there is another chunk, so the host never waits.
#[derive(Debug)]
pub(crate) struct Staging {
    context: Arc<CudaContext>,
    /// The one that was begun first is in front. The last one is being filled.
    chunks: VecDeque<Chunk>,
}

#[derive(Debug)]
struct Chunk {
    bytes: Pinned<u8>,
    /// How many bytes are taken.
    used: usize,
    /// Happens when the device has read them.
    read: CudaEvent,
}

impl Staging {
    /// For copies that usually have at most so many bytes.
    pub(crate) fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, CudaError> {
        let chunk = |_| Chunk::new(context, 4 * bytes);
        let chunks = (0..FIRST_CHUNKS).map(chunk).collect::<Result<_, _>>()?;
        Ok(Self { context: context.clone(), chunks })
    }

    /// Copies bytes to an address, in the stream's order.
    ///
    /// # Safety
    ///
    /// So many bytes from the address on are memory of the device until the stream has done the copy.
    pub(crate) unsafe fn send(
        &mut self,
        stream: Stream<'_>,
        address: u64,
        bytes: &[u8],
    ) -> Result<(), CudaError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.context.bind_to_thread().map_err(CudaError::memory)?;
        let chunk = self.with_room(bytes.len())?;
        let place = chunk.used..chunk.used + bytes.len();
        chunk.bytes[place.clone()].copy_from_slice(bytes);
        let event = chunk.read.cu_event();
        if place.start > 0 {
            let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
            // Another stream may have made the copy before: the event below then comes after both.
            // SAFETY: the event lives as long as the chunk.
            unsafe { result::stream::wait_event(stream.raw(), event, flags) }.map_err(CudaError::memory)?;
        }
        // The place is taken even if the copy fails: it may have begun.
        chunk.used = place.end.next_multiple_of(ALIGNMENT);
        // SAFETY: the copy is inside both allocations, as the caller promises for the device's. The host's is
        // changed or freed only after the event.
        unsafe {
            result::memcpy_htod_async(address, &chunk.bytes[place], stream.raw())
                .and_then(|()| result::event::record(event, stream.raw()))
        }
        .map_err(CudaError::memory)
    }

    /// A chunk with room for so many bytes, the last one.
    fn with_room(&mut self, bytes: usize) -> Result<&mut Chunk, CudaError> {
        if self.chunks.back().is_none_or(|chunk| chunk.left() < bytes) {
            let first = self.chunks.pop_front_if(|chunk| chunk.read.is_complete());
            let mut next = match first.filter(|chunk| chunk.bytes.len() >= bytes) {
                Some(chunk) => chunk,
                None => Chunk::new(&self.context, bytes)?,
            };
            next.used = 0;
            self.chunks.push_back(next);
        }
        Ok(self.chunks.back_mut().expect("one was pushed"))
    }
}

impl Chunk {
    fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, CudaError> {
        let bytes = Pinned::new(context, bytes.next_power_of_two().max(SMALLEST))?;
        Ok(Self { bytes, used: 0, read: context.new_event(None).map_err(CudaError::memory)? })
    }

    fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.used)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // A copy may still be reading the memory that is freed next.
        let _ = self.read.synchronize();
    }
}
