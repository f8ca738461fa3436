//! Copies to the device that the host does not wait for.
#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, result};

use super::Pinned;
use crate::error::CudaError;
use crate::stream::Stream;

/// Copies that may be under way at once. An engine that prepares its next steps while the device works on
/// earlier ones is two or three steps ahead, and a step makes one copy or two.
const MOST_UNDER_WAY: usize = 16;
/// Bytes of the smallest buffer.
const SMALLEST: usize = 4096;

/// Pinned buffers for copies to the device. A buffer is used again once the device has read it: only if all of
/// them are still to be read does the host wait.
#[derive(Debug)]
pub(crate) struct Staging {
    context: Arc<CudaContext>,
    buffers: Vec<Buffer>,
}

#[derive(Debug)]
struct Buffer {
    bytes: Pinned<u8>,
    /// Happens when the device has read the bytes.
    read: CudaEvent,
}

impl Staging {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Self {
        Self { context: context.clone(), buffers: Vec::new() }
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
        let buffer = self.free(bytes.len())?;
        buffer.bytes[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: the copy is inside both allocations, as the caller promises for the device's. The host's is
        // changed or freed only after the event.
        unsafe {
            result::memcpy_htod_async(address, &buffer.bytes[..bytes.len()], stream.raw())
                .and_then(|()| result::event::record(buffer.read.cu_event(), stream.raw()))
        }
        .map_err(CudaError::memory)
    }

    /// A buffer of at least so many bytes that nobody reads.
    fn free(&mut self, bytes: usize) -> Result<&mut Buffer, CudaError> {
        let fits = |buffer: &Buffer| buffer.bytes.len() >= bytes;
        let found = self.buffers.iter().position(|buffer| fits(buffer) && buffer.read.is_complete());
        let place = match found {
            Some(place) => place,
            None if self.buffers.len() < MOST_UNDER_WAY => {
                self.buffers.push(Buffer::new(&self.context, bytes)?);
                self.buffers.len() - 1
            }
            None => {
                // Those behind were used last.
                self.buffers.rotate_left(1);
                let place = MOST_UNDER_WAY - 1;
                self.buffers[place].read.synchronize().map_err(CudaError::memory)?;
                if !fits(&self.buffers[place]) {
                    self.buffers[place] = Buffer::new(&self.context, bytes)?;
                }
                place
            }
        };
        Ok(&mut self.buffers[place])
    }
}

impl Buffer {
    fn new(context: &Arc<CudaContext>, bytes: usize) -> Result<Self, CudaError> {
        let bytes = Pinned::new(context, bytes.next_power_of_two().max(SMALLEST))?;
        Ok(Self { bytes, read: context.new_event(None).map_err(CudaError::memory)? })
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // A copy may still be reading the memory that is freed next.
        let _ = self.read.synchronize();
    }
}
