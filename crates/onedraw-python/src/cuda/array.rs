//! Numbers that a draw left on its device, for other libraries that use them there.
#![allow(unsafe_code)] // Another library gets an address.

use std::ptr::without_provenance_mut;

use dlpark::allocation::fixed::Allocation;
use dlpark::ffi::{DLDataType, DLDevice, DLManagedTensor, DLManagedTensorVersioned};
use dlpark::python::producer::{CudaStreamRequest, DlpackExporter, ExportRequest, export_dlpack};
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use onedraw_cuda::cudarc::driver::sys::{CUevent_flags, CUevent_wait_flags};
use onedraw_cuda::cudarc::driver::{DriverError, result};
use onedraw_cuda::{Device, Drawn};
use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::device::Current;
use super::stream::Handle;

/// Tokens or statuses of a step in device memory, int32, one per row. PyTorch (`torch.as_tensor`,
/// `torch.from_dlpack`), CuPy (`cupy.asarray`) and others read it in place, once the stream is past the
/// launch. It is memory of the batch, so the next launch overwrites it.
#[pyclass(name = "DeviceArray", module = "onedraw.cuda", frozen)]
pub struct DeviceArray {
    /// The object that keeps the memory.
    owner: Py<PyAny>,
    device: Device,
    drawn: Drawn,
    /// Bytes from the beginning of an entry.
    offset: usize,
    /// The stream that writes it.
    stream: Handle,
}

impl DeviceArray {
    /// The number that lies so many bytes after the beginning of each entry. `owner` keeps the memory.
    pub fn new(owner: Py<PyAny>, device: Device, drawn: Drawn, offset: usize, stream: Handle) -> Self {
        Self { owner, device, drawn, offset, stream }
    }

    fn address(&self) -> u64 {
        if self.drawn.rows == 0 { 0 } else { self.drawn.address + self.offset as u64 }
    }

    fn managed<M: ManagedTensorBase>(&self, py: Python<'_>) -> PyResult<Managed<M>> {
        let mut allocation =
            Allocation::<M, 1>::allocate().map_err(|error| PyBufferError::new_err(error.to_string()))?;
        *allocation.shape_mut() = [self.drawn.rows as i64];
        *allocation.strides_mut() = [(Drawn::STRIDE / size_of::<i32>()) as i64];
        let mut tensor = allocation.initialize(Box::new(self.owner.clone_ref(py)));
        let (shape, strides) = (tensor.shape_mut().as_mut_ptr(), tensor.strides_mut().as_mut_ptr());
        let inner = tensor.tensor_mut();
        (inner.ndim, inner.shape, inner.strides) = (1, shape, strides);
        tensor
            .set_data(without_provenance_mut(self.address() as usize))
            .set_device(DlpackExporter::device(self))
            .set_dtype(DLDataType::I32);
        // SAFETY: so many entries lie there, and the owner in the context keeps them. Shape and strides are
        // in the allocation.
        Ok(unsafe { tensor.finish() })
    }
}

#[pymethods]
impl DeviceArray {
    /// The number of entries, as a tuple of one.
    #[getter]
    fn shape(&self) -> (usize,) {
        (self.drawn.rows,)
    }

    /// The number of the device.
    #[getter(device)]
    fn ordinal(&self) -> usize {
        self.device.ordinal()
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.drawn.rows,))?;
        interface.set_item("typestr", "<i4")?;
        // Not read-only: some libraries accept nothing else, and writing there changes only the results of
        // this draw.
        interface.set_item("data", (self.address(), false))?;
        interface.set_item("strides", (Drawn::STRIDE,))?;
        interface.set_item("stream", self.stream.number())?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }

    fn __dlpack_device__(&self) -> (u32, i32) {
        DlpackExporter::device(self).into()
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(u32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        export_dlpack(self, py, ExportRequest::parse(stream, max_version, dl_device, copy)?)
    }

    fn __len__(&self) -> usize {
        self.drawn.rows
    }

    fn __repr__(&self) -> String {
        format!("DeviceArray({} int32 on the CUDA device {})", self.drawn.rows, self.device.ordinal())
    }
}

impl DlpackExporter for DeviceArray {
    fn device(&self) -> DLDevice {
        DLDevice::cuda(self.device.ordinal() as i32)
    }

    fn flags(&self) -> DlpackFlags {
        DlpackFlags::empty()
    }

    /// Makes the reader's stream wait for ours.
    fn prepare_export(&self, _: Python<'_>, request: &ExportRequest<'_>) -> PyResult<()> {
        let reader = match request.cuda_stream()? {
            CudaStreamRequest::NoSync => return Ok(()),
            CudaStreamRequest::Omitted | CudaStreamRequest::LegacyDefault => Handle::default(),
            CudaStreamRequest::PerThreadDefault => Handle::from_number(2),
            CudaStreamRequest::Pointer(handle) => Handle::from_number(handle),
        };
        if reader == self.stream {
            return Ok(());
        }
        let _current = Current::keep();
        let failed = |error: DriverError| PyRuntimeError::new_err(error.to_string());
        self.device.context().bind_to_thread().map_err(failed)?;
        let event = result::event::create(CUevent_flags::CU_EVENT_DISABLE_TIMING).map_err(failed)?;
        // SAFETY: both streams are their owners', who keep them; the event was made above and goes once both
        // know it.
        unsafe {
            let waits = result::event::record(event, self.stream.raw()).and_then(|()| {
                result::stream::wait_event(reader.raw(), event, CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)
            });
            let _ = result::event::destroy(event);
            waits.map_err(failed)
        }
    }

    fn export_legacy(&self, py: Python<'_>) -> PyResult<Managed<DLManagedTensor>> {
        self.managed(py)
    }

    fn export_versioned(&self, py: Python<'_>) -> PyResult<Managed<DLManagedTensorVersioned>> {
        self.managed(py)
    }
}
