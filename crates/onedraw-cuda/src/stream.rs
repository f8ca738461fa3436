//! A stream of the device, ours or another library's.

use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUstream;

/// What a stream is told, it does in that order. Made from a stream of `cudarc`, or of a handle; [`Stream::default`] is the one that
/// CUDA calls the legacy default stream, which waits for the blocking streams and they for it.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    raw: CUstream,
    owner: PhantomData<&'a CudaStream>,
}

impl Stream<'_> {
    /// From a handle, as other libraries name a stream.
    ///
    /// # Safety
    ///
    /// The handle is a stream of the device's primary context, or null, and stays one as long as it is used.
    #[allow(unsafe_code)]
    pub unsafe fn from_raw(raw: CUstream) -> Self {
        Self { raw, owner: PhantomData }
    }

    pub(crate) fn raw(self) -> CUstream {
        self.raw
    }
}

impl Default for Stream<'_> {
    fn default() -> Self {
        Self { raw: null_mut(), owner: PhantomData }
    }
}

impl<'a> From<&'a CudaStream> for Stream<'a> {
    fn from(stream: &'a CudaStream) -> Self {
        Self { raw: stream.cu_stream(), owner: PhantomData }
    }
}

impl<'a> From<&'a Arc<CudaStream>> for Stream<'a> {
    fn from(stream: &'a Arc<CudaStream>) -> Self {
        Self::from(&**stream)
    }
}
