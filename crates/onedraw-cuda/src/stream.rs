//! A stream of the device, of this crate or of another library.

use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUstream;

/// A stream: the device does what is launched on it in that order. It is made from a stream of `cudarc`, or
/// from a handle. [`Stream::default`] is CUDA's legacy default stream, which waits for all blocking streams,
/// as they wait for it.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    raw: CUstream,
    owner: PhantomData<&'a CudaStream>,
}

impl Stream<'_> {
    /// A stream from a handle, as other libraries have it.
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
