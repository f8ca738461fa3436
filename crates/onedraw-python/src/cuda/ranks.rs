//! A rank of `onedraw.distributed` whose logits are on a device. The device makes the first message, which a
//! collective may send from there; the rest is as on the CPU.
#![allow(unsafe_code)] // A launch reads memory of others.

use std::sync::{Mutex, PoisonError};

use onedraw::{Exchange, Rank, RowError};
use onedraw_cuda::{CudaError, Device, RankParts, RankTurn};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyDict;

use super::device::{self, Current};
use super::stream::Handle;
use super::tensor::Tensor;
use crate::error::Result;
use crate::guarded::in_stage;
use crate::tensor::on_cuda;

/// The first message of a rank, in device memory, for the call that gets it. PyTorch reads it in place
/// (`torch.as_tensor`), on the stream that is PyTorch's current one.
#[pyclass(name = "CudaMessage", module = "onedraw._onedraw", frozen)]
pub struct CudaMessage {
    address: u64,
    length: usize,
    ordinal: usize,
    stream: Handle,
}

#[pymethods]
impl CudaMessage {
    /// The number of the device.
    #[getter]
    fn device(&self) -> usize {
        self.ordinal
    }

    #[getter]
    fn __cuda_array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("shape", (self.length,))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (self.address, false))?;
        interface.set_item("stream", self.stream.number())?;
        interface.set_item("version", 3)?;
        Ok(interface)
    }
}

/// What a rank sends.
pub enum Message<'m> {
    Bytes(&'m [u8]),
    OnDevice(CudaMessage),
}

/// Logits on a device, and the stream on which they are ready.
pub struct OnDevice {
    tensor: Tensor,
    /// How many logits of each row there are; what comes after them is padding.
    pub length: usize,
    device: Device,
    stream: Handle,
}

impl OnDevice {
    /// `None` for logits on the CPU.
    pub fn read(logits: &Bound<'_, PyAny>) -> Result<Option<Self>> {
        let Some((request, ordinal)) = on_cuda(logits)? else { return Ok(None) };
        let device = device::open(logits.py(), ordinal)?;
        let stream = Handle::current(logits.py(), None, ordinal)?;
        let tensor = Tensor::read(request, logits, stream)?;
        Ok(Some(Self { length: tensor.vocabulary(), tensor, device, stream }))
    }

    pub fn rows(&self) -> usize {
        self.tensor.rows()
    }
}

/// The device's side of a batch: made for the device of the first logits, and again for another one's.
#[derive(Default)]
pub struct Parts(Mutex<Option<RankParts>>);

/// How a step over ranks ended.
type Results = Vec<std::result::Result<onedraw::Sampled, RowError>>;

impl Parts {
    /// Draws a token for each turn from its row, `ahead` positions after the next, and appends nothing; `None`
    /// if the device cannot draw for one of the sequences. Then nothing was sent. Where the device fails before
    /// the first message, the others are told.
    pub fn peek_over(
        &self,
        batch: &onedraw::Batch,
        rows: &OnDevice,
        turns: &[RankTurn<'_>],
        rank: &Rank,
        ahead: u32,
        mut gather: impl FnMut(Message<'_>, usize) -> PyResult<Vec<PyBackedBytes>>,
    ) -> Result<Option<Results>> {
        let OnDevice { tensor, length, device, stream } = rows;
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _current = Current::keep();
        let begun = parts_on(&mut parts, device).and_then(|parts| {
            let matrix = tensor.first_columns(device, *length)?;
            // SAFETY: the tensor is held, and whoever made it uses its memory again in the stream's order.
            unsafe { parts.exchange(batch, turns, &matrix, rank, ahead, stream.stream()) }
        });
        let exchange = match begun {
            Ok(exchange) => exchange,
            Err(CudaError::Unsupported { .. } | CudaError::OwnStage { .. }) => return Ok(None),
            Err(error) => {
                let refusal = Exchange::refusal(turns.len(), &error.to_string());
                gather(Message::Bytes(&refusal), refusal.len())?;
                return Err(error.into());
            }
        };
        let (address, length) = (exchange.address(), exchange.length());
        let message = CudaMessage { address, length, ordinal: device.ordinal(), stream: *stream };
        let messages = gather(Message::OnDevice(message), length)?;
        let mut exchange = exchange.into_exchange();
        exchange.receive(&messages);
        Ok(Some(exchange.finish(|message, room| gather(Message::Bytes(message), room))?))
    }
}

/// The parts on this device.
fn parts_on<'p>(
    parts: &'p mut Option<RankParts>,
    device: &Device,
) -> std::result::Result<&'p mut RankParts, CudaError> {
    if parts.as_ref().is_some_and(|parts| parts.device().ordinal() != device.ordinal()) {
        *parts = None;
    }
    match parts {
        Some(parts) => Ok(parts),
        none => Ok(none.insert(RankParts::new(device)?)),
    }
}

/// Calls Python with a message. A stage's mark: what is called there must not wait for the batch.
pub fn send(gather: &Py<PyAny>, message: Message<'_>, room: usize) -> PyResult<Vec<PyBackedBytes>> {
    in_stage(|| {
        Python::attach(|py| {
            let messages = match message {
                Message::Bytes(bytes) => gather.call1(py, (pyo3::types::PyBytes::new(py, bytes), room)),
                Message::OnDevice(message) => gather.call1(py, (message, room)),
            };
            messages?.extract(py)
        })
    })
}
