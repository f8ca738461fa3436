//! A stream of the device, of this crate or of another library.

use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::Arc;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::{self, CUdevice, CUstream, CUstreamCaptureStatus};

/// Handles up to this one are default streams: null, `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD` of cuda.h.
const LAST_DEFAULT_STREAM: usize = 2;

/// A stream: the device does what is launched on it in that order. It is made from a stream of `cudarc`, or
/// from a handle. [`Stream::default`] is CUDA's legacy default stream, which waits for all blocking streams,
/// as they wait for it.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    raw: CUstream,
    /// The device that it is of, if it was made from a stream of `cudarc`.
    ordinal: Option<usize>,
    owner: PhantomData<&'a CudaStream>,
}

impl Stream<'_> {
    /// A stream from a handle, as other libraries have it.
    ///
    /// # Safety
    ///
    /// The handle is a stream of a device's primary context, or one of those that CUDA has for default streams (null,
    /// `CU_STREAM_LEGACY`, `CU_STREAM_PER_THREAD`), and stays one as long as it is used. Where the stream is one of
    /// another device than the one that draws, the call returns an error.
    #[allow(unsafe_code)]
    pub unsafe fn from_raw(raw: CUstream) -> Self {
        Self { raw, ordinal: None, owner: PhantomData }
    }

    /// The number of the device that it is of; `None` for one that was made from a handle, and for the default stream.
    pub(crate) fn ordinal(self) -> Option<usize> {
        self.ordinal
    }

    /// The device that the driver has the handle for. `None` for default streams, which belong to whichever context is
    /// current, for a stream that is captured into a graph, where the question would end the capture, and where the
    /// driver does not say: then what is done with the stream says what is wrong.
    pub(crate) fn device(self) -> Option<CUdevice> {
        if self.raw.addr() <= LAST_DEFAULT_STREAM || self.is_captured()? {
            return None;
        }
        let mut device = -1;
        // SAFETY: the handle is a stream, as whoever made this promised, and the call writes one integer.
        #[allow(unsafe_code)]
        let asked = unsafe { sys::cuStreamGetDevice(self.raw, &mut device) };
        asked.result().ok().map(|()| device)
    }

    /// Whether work goes into a graph. `None` where the driver does not say.
    fn is_captured(self) -> Option<bool> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the handle is a stream, as whoever made this promised, and the call writes one number of the
        // enumeration.
        #[allow(unsafe_code)]
        let asked = unsafe { sys::cuStreamIsCapturing(self.raw, &mut status) };
        asked.result().ok().map(|()| status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    pub(crate) fn raw(self) -> CUstream {
        self.raw
    }
}

impl Default for Stream<'_> {
    fn default() -> Self {
        Self { raw: null_mut(), ordinal: None, owner: PhantomData }
    }
}

impl<'a> From<&'a CudaStream> for Stream<'a> {
    fn from(stream: &'a CudaStream) -> Self {
        Self { raw: stream.cu_stream(), ordinal: Some(stream.context().ordinal()), owner: PhantomData }
    }
}

impl<'a> From<&'a Arc<CudaStream>> for Stream<'a> {
    fn from(stream: &'a Arc<CudaStream>) -> Self {
        Self::from(&**stream)
    }
}
