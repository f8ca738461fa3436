//! Draws on CUDA devices: the compiled part of `onedraw.cuda`. Logits, masks and drawn tokens stay on the
//! device.

mod array;
mod batch;
pub mod device;
mod draws;
mod mask;
pub mod once;
pub mod ranks;
mod requests;
pub mod stream;
pub mod tensor;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::Result;
use crate::params;

/// Whether a device can draw. `why_not` says what is missing.
///
/// >>> import onedraw.cuda
/// >>> isinstance(onedraw.cuda.is_available(), bool)
/// True
#[pyfunction]
#[pyo3(name = "is_available", signature = (device=0))]
fn is_available(py: Python<'_>, device: usize) -> bool {
    device::open(py, device).is_ok()
}

/// Why a device cannot draw: there is no driver, no such device, or it is too old. None if it can.
#[pyfunction]
#[pyo3(name = "why_not", signature = (device=0))]
fn why_not(py: Python<'_>, device: usize) -> Option<String> {
    device::open(py, device).err().map(|error| PyErr::from(error).value(py).to_string())
}

/// Checks whether a device can draw for these parameters. It can for all but stages of your own, which are a
/// `CudaError` that names them. No device is needed.
///
/// >>> import onedraw.cuda
/// >>> onedraw.cuda.check(temperature=0.8, top_p=0.9, xtc_probability=0.5)
/// >>> even = onedraw.Truncation("even", lambda view: range(0, len(view.logits), 2))
/// >>> onedraw.cuda.check(order=["top_p", even])
/// Traceback (most recent call last):
///     ...
/// onedraw.CudaError: even is a stage of your own, which a device cannot run: draw these rows on the CPU, or
/// make it a logit_bias or a mask
#[pyfunction]
#[pyo3(name = "check", signature = (params=None, **parameters))]
fn check(
    py: Python<'_>,
    params: Option<&Bound<'_, PyAny>>,
    parameters: Option<&Bound<'_, PyDict>>,
) -> Result<()> {
    Ok(onedraw_cuda::check(&params::read(py, params, parameters)?)?)
}

/// Adds the classes and functions. Their names have a prefix here, because the CPU has a `Batch` too, and
/// none in `onedraw.cuda`.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("CudaBatch", py.get_type::<batch::Batch>())?;
    module.add("CudaSequenceId", py.get_type::<batch::SequenceId>())?;
    module.add("CudaArray", py.get_type::<array::DeviceArray>())?;
    module.add("CudaRequests", py.get_type::<requests::Requests>())?;
    module.add("cuda_check", wrap_pyfunction!(check, module)?)?;
    module.add("CudaMessage", py.get_type::<ranks::CudaMessage>())?;
    module.add("cuda_is_available", wrap_pyfunction!(is_available, module)?)?;
    module.add("cuda_why_not", wrap_pyfunction!(why_not, module)?)
}
