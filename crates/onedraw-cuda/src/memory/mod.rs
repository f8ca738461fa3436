//! Memory of the device, host memory that the device copies to and from, and copies between them.
#![allow(unsafe_code)]

mod inbox;
mod pool;
mod staging;
mod text;

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{CudaContext, result};

use crate::error::CudaError;
use crate::stream::Stream;
pub(crate) use inbox::Inbox;
pub(crate) use pool::{Block, Pool};
pub(crate) use staging::Staging;
pub(crate) use text::{bytes_of_mus, bytes_of_text};

/// An array in device memory. Freeing it waits for the device.
#[derive(Debug)]
pub(crate) struct Array<T> {
    context: Arc<CudaContext>,
    address: u64,
    length: usize,
    elements: PhantomData<T>,
}

impl<T: Pod> Array<T> {
    /// `length` elements with every byte `fill`. It waits for the device.
    pub(crate) fn filled(context: &Arc<CudaContext>, length: usize, fill: u8) -> Result<Self, CudaError> {
        let array = Self::uninitialised(context, length)?;
        if length > 0 {
            // SAFETY: the allocation has that many bytes, and nobody else knows it yet.
            unsafe { result::memset_d8_sync(array.address, fill, size_of::<T>() * length) }
                .map_err(CudaError::memory)?;
            context.synchronize().map_err(CudaError::memory)?;
        }
        Ok(array)
    }

    /// `length` elements, which must be written before they are read.
    pub(crate) fn uninitialised(context: &Arc<CudaContext>, length: usize) -> Result<Self, CudaError> {
        context.bind_to_thread().map_err(CudaError::memory)?;
        let bytes = size_of::<T>().checked_mul(length);
        let bytes = bytes.ok_or_else(|| CudaError::Memory(format!("{length} elements do not fit")))?;
        let mut address = 0;
        // The driver refuses to allocate nothing.
        if bytes > 0 {
            // SAFETY: elements are plain data, and what is read was written or set before.
            address = unsafe { result::malloc_sync(bytes) }.map_err(CudaError::memory)?;
        }
        Ok(Self { context: context.clone(), address, length, elements: PhantomData })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// How many elements it has.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// Copies elements to the device, in the stream's order, and does not wait.
    pub(crate) fn send(
        &self,
        stream: Stream<'_>,
        staging: &mut Staging,
        start: usize,
        elements: &[T],
    ) -> Result<(), CudaError> {
        self.check(start * size_of::<T>(), size_of_val(elements))?;
        let address = self.address + (start * size_of::<T>()) as u64;
        // SAFETY: the bytes are inside the allocation, and any bits are a T.
        unsafe { staging.send(stream, address, bytemuck::cast_slice(elements)) }
    }

    /// Sets every byte, in the stream's order.
    pub(crate) fn fill(&self, stream: Stream<'_>, fill: u8) -> Result<(), CudaError> {
        if self.length == 0 {
            return Ok(());
        }
        self.context.bind_to_thread().map_err(CudaError::memory)?;
        // SAFETY: the allocation has that many bytes, and any bits are a T.
        unsafe { result::memset_d8_async(self.address, fill, size_of::<T>() * self.length, stream.raw()) }
            .map_err(CudaError::memory)
    }

    /// Copies elements to the device and waits until they are there.
    pub(crate) fn write(&self, stream: Stream<'_>, start: usize, elements: &[T]) -> Result<(), CudaError> {
        self.write_bytes(stream, start * size_of::<T>(), bytemuck::cast_slice(elements))
    }

    /// As [`Array::write`], for any bytes of the array.
    pub(crate) fn write_bytes(
        &self,
        stream: Stream<'_>,
        start: usize,
        bytes: &[u8],
    ) -> Result<(), CudaError> {
        self.check(start, bytes.len())?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.context.bind_to_thread().map_err(CudaError::memory)?;
        // SAFETY: the bytes are inside the allocation, and the copy is waited for while the host's bytes are
        // borrowed.
        unsafe {
            result::memcpy_htod_async(self.address + start as u64, bytes, stream.raw())
                .and_then(|()| result::stream::synchronize(stream.raw()))
        }
        .map_err(CudaError::memory)
    }

    /// Copies elements from the device, in the stream's order, and waits for them.
    pub(crate) fn read(&self, stream: Stream<'_>, start: usize, into: &mut [T]) -> Result<(), CudaError> {
        self.check(start * size_of::<T>(), size_of_val(into))?;
        if into.is_empty() {
            return Ok(());
        }
        self.context.bind_to_thread().map_err(CudaError::memory)?;
        let address = self.address + (start * size_of::<T>()) as u64;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(into);
        // SAFETY: the bytes are inside the allocation, the host's are borrowed until the stream has written
        // them, and any bits are a T.
        unsafe {
            result::memcpy_dtoh_async(bytes, address, stream.raw())
                .and_then(|()| result::stream::synchronize(stream.raw()))
        }
        .map_err(CudaError::memory)
    }

    fn check(&self, start: usize, bytes: usize) -> Result<(), CudaError> {
        let capacity = self.length * size_of::<T>();
        match start.checked_add(bytes) {
            Some(end) if end <= capacity => Ok(()),
            _ => Err(CudaError::TooMany { what: "bytes", given: start.saturating_add(bytes), capacity }),
        }
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        if self.address != 0 && self.context.bind_to_thread().is_ok() {
            // An error here is one that an earlier call has already returned.
            // SAFETY: allocated by `malloc_sync`, freed once.
            let _ = unsafe { result::free_sync(self.address) };
        }
    }
}

/// Pinned host memory: the device reads and writes it without the host's help.
#[derive(Debug)]
pub(crate) struct Pinned<T> {
    context: Arc<CudaContext>,
    start: *mut T,
    length: usize,
}

// SAFETY: it owns plain data, as a Vec does.
unsafe impl<T: Pod> Send for Pinned<T> {}
// SAFETY: as above.
unsafe impl<T: Pod> Sync for Pinned<T> {}

impl<T: Pod> Pinned<T> {
    /// `length` zeros.
    pub(crate) fn new(context: &Arc<CudaContext>, length: usize) -> Result<Self, CudaError> {
        context.bind_to_thread().map_err(CudaError::memory)?;
        let length = length.max(1);
        // SAFETY: what is allocated is filled below, before anyone sees it.
        let start = unsafe { result::malloc_host(size_of::<T>() * length, 0) }.map_err(CudaError::memory)?;
        let start = start.cast::<T>();
        for i in 0..length {
            // SAFETY: inside the allocation, which is aligned to pages.
            unsafe { start.add(i).write(T::zeroed()) };
        }
        Ok(Self { context: context.clone(), start, length })
    }

    /// Copies the first `count` elements of a device array here, in the stream's order, and waits for them.
    pub(crate) fn read(
        &mut self,
        stream: Stream<'_>,
        from: &Array<T>,
        count: usize,
    ) -> Result<(), CudaError> {
        let capacity = self.length;
        let into = self.get_mut(..count);
        let into = into.ok_or(CudaError::TooMany { what: "elements", given: count, capacity })?;
        from.read(stream, 0, into)
    }
}

impl<T> Deref for Pinned<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: all elements are initialised. The device does not write them while they are borrowed:
        // copies are waited for.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl<T> DerefMut for Pinned<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl<T> Drop for Pinned<T> {
    fn drop(&mut self) {
        if self.context.bind_to_thread().is_ok() {
            // SAFETY: allocated by `malloc_host`, freed once.
            let _ = unsafe { result::free_host(self.start.cast()) };
        }
    }
}
