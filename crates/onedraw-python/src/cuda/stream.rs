//! CUDA streams of other libraries.
#![allow(unsafe_code)] // A stream of another library is an address.

use std::ffi::c_void;
use std::ptr::without_provenance_mut;

use dlpark::ffi::DLDevice;
use dlpark::python::consumer::stream;
use dlpark::python::{DlpackStream, StreamArg};
use onedraw_cuda::Stream;
use onedraw_cuda::cudarc::driver::sys::CUstream;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::Result;
use crate::value::type_name;

/// A stream as CUDA names it; 0 is the legacy default stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handle(usize);

impl Handle {
    /// The stream of a call, by one rule for all calls: the given stream; else PyTorch's current stream, if
    /// PyTorch uses CUDA; else the legacy default stream. The library of a tensor does not matter: DLPack
    /// makes it ready on that stream. So calls without a stream all use the same one.
    pub fn current(py: Python<'_>, given: Option<&Bound<'_, PyAny>>, ordinal: usize) -> Result<Self> {
        match given.filter(|given| !given.is_none()) {
            Some(given) => Self::read(given),
            None => match torch(py)? {
                Some(torch) => current(&torch, ordinal),
                None => Ok(Self::default()),
            },
        }
    }

    /// Reads a handle, or an object that has one: of PyTorch (`cuda_stream`), CuPy (`ptr`) or any library
    /// with `__cuda_stream__`.
    fn read(given: &Bound<'_, PyAny>) -> Result<Self> {
        let handle = if given.hasattr("__cuda_stream__")? {
            let protocol = given.getattr("__cuda_stream__")?;
            let answer = if protocol.is_callable() { protocol.call0()? } else { protocol };
            // The version of the protocol, then the handle.
            answer.extract::<(usize, usize)>().map(|(_, handle)| handle)
        } else if given.hasattr("cuda_stream")? {
            given.getattr("cuda_stream")?.extract()
        } else if given.hasattr("ptr")? {
            given.getattr("ptr")?.extract()
        } else {
            given.extract()
        };
        let handle: usize = handle.map_err(|_| {
            PyTypeError::new_err(format!(
                "a stream is an int (0: the default stream), or an object with __cuda_stream__, cuda_stream or ptr, not an object of the type {}",
                type_name(given)
            ))
        })?;
        Ok(Self::from_number(handle))
    }

    /// CUDA has two numbers for the legacy default stream.
    pub fn from_number(number: usize) -> Self {
        Self(if number == 1 { 0 } else { number })
    }

    pub fn raw(self) -> CUstream {
        without_provenance_mut(self.0)
    }

    /// The number in Python's protocols, which have no 0.
    pub fn number(self) -> usize {
        self.0.max(1)
    }

    pub fn stream(self) -> Stream<'static> {
        // SAFETY: the owner of the handle keeps the stream during the call, as with every library that takes
        // one.
        unsafe { Stream::from_raw(self.raw()) }
    }
}

/// PyTorch, if it is loaded and uses CUDA.
fn torch(py: Python<'_>) -> PyResult<Option<Bound<'_, PyAny>>> {
    let modules = py.import("sys")?.getattr("modules")?;
    let torch = modules.call_method1("get", ("torch",))?;
    // A PyTorch that is being imported, or another module of that name, may not have these.
    if torch.is_none() || !torch.hasattr("cuda")? || !torch.getattr("cuda")?.hasattr("is_initialized")? {
        return Ok(None);
    }
    let is_used = torch.getattr("cuda")?.call_method0("is_initialized")?.is_truthy()?;
    Ok(is_used.then_some(torch))
}

/// The stream that PyTorch works on now.
fn current(torch: &Bound<'_, PyAny>, ordinal: usize) -> Result<Handle> {
    Handle::read(&torch.getattr("cuda")?.call_method1("current_stream", (ordinal,))?)
}

// SAFETY: the number is that of a stream that its owner keeps during the call, in the form that the protocol
// uses for CUDA.
unsafe impl DlpackStream for Handle {
    fn as_python_arg(&self, _: Python<'_>, _: DLDevice) -> PyResult<StreamArg> {
        Ok(stream::cuda(self.raw().cast()))
    }

    /// On the same stream no waiting is needed; otherwise the producer is asked to do it.
    unsafe fn wait_for_producer(&self, _: DLDevice, producer: *mut c_void) -> PyResult<bool> {
        Ok(Self::from_number(producer.addr()) == *self)
    }
}
