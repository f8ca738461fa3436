//! Draws on CUDA devices: the compiled part of `onedraw.cuda`. Logits, masks and drawn tokens stay on the
//! device.

mod array;
mod batch;
pub mod device;
mod draws;
mod mask;
pub mod once;
pub mod ranks;
pub mod stream;
pub mod tensor;

use pyo3::prelude::*;

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

/// Adds the classes and functions. Their names have a prefix here, because the CPU has a `Batch` too, and
/// none in `onedraw.cuda`.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("CudaBatch", py.get_type::<batch::Batch>())?;
    module.add("CudaSequenceId", py.get_type::<batch::SequenceId>())?;
    module.add("CudaArray", py.get_type::<array::DeviceArray>())?;
    module.add("CudaMessage", py.get_type::<ranks::CudaMessage>())?;
    module.add("cuda_is_available", wrap_pyfunction!(is_available, module)?)?;
    module.add("cuda_why_not", wrap_pyfunction!(why_not, module)?)
}
