//! Many sequences on a device, each with its own parameters, seed and history.
#![allow(unsafe_code)] // A launch reads memory of others.

use std::sync::{Mutex, MutexGuard, PoisonError};

use onedraw::RowError;
use onedraw_cuda::cudarc::driver::DriverError;
use onedraw_cuda::{Capacity, CudaError, Device, Drawn};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::array::DeviceArray;
use super::device::{self, Current};
use super::draws::Draws;
use super::mask::Given;
use super::stream::Handle;
use super::tensor::Tensor;
use crate::error::{Error, Result};
use crate::guarded::{Guarded, released};
use crate::result::Samples;
use crate::sequence::{check_rows, next_batch, sequence_id};
use crate::tensor::on_cuda;
use crate::value::type_name;
use crate::{display, once, params, result};

sequence_id!("onedraw.cuda", onedraw_cuda::SequenceId);

/// Sequences on a CUDA device that come and go between steps, each with its own parameters, seed and history: those of `onedraw.Batch`, and it draws what that
/// one draws. Logits are DLPack tensors of the device, float32, float16 or bfloat16, with `vocabulary` logits a row, read where they lie.
///
/// There is room for so many `sequences`, for `rows` of a step (by default as many) and for `logprobs` of a row; all of it is allocated at once. Where a stream is
/// taken, it is a handle or an object of PyTorch, CuPy or any library with `__cuda_stream__`; by default, whatever is called and whosever the tensor is, it is PyTorch's current
/// one where PyTorch uses CUDA, else the legacy default stream. What is told several streams must be ordered by whoever has them.
///
/// >>> import onedraw.cuda, torch
/// >>> batch = onedraw.cuda.Batch(vocabulary=3)
/// >>> warm, greedy = batch.add(temperature=1.2, seed=1), batch.add("deterministic")
/// >>> logits = torch.tensor([[0.5, 2.0, 1.0], [3.0, 0.0, 1.0]], device="cuda")
/// >>> batch.sample([greedy, warm], logits).tokens
/// array([1, 0])
/// >>> torch.as_tensor(batch.tokens, device="cuda").tolist()
/// [1, 0]
#[pyclass(name = "Batch", module = "onedraw.cuda", frozen)]
pub struct Batch {
    draws: Guarded<Draws>,
    device: Device,
    vocabulary: usize,
    number: u64,
    read: Mutex<Read>,
}

/// What the last launch reads: it may not have come to that yet.
#[derive(Default)]
struct Read {
    logits: Option<Tensor>,
    /// Those on the device; those of the CPU were copied.
    masks: Vec<Given>,
}

impl Batch {
    fn own(&self, sequence: &Bound<'_, SequenceId>) -> onedraw_cuda::SequenceId {
        sequence.get().of(self.number)
    }

    fn named(&self, id: onedraw_cuda::SequenceId) -> SequenceId {
        SequenceId::new(id, self.number)
    }

    fn with<R: Send>(
        &self,
        py: Python<'_>,
        action: impl FnOnce(&mut Draws) -> std::result::Result<R, CudaError> + Send,
    ) -> Result<R> {
        Ok(self.draws.with(py, |draws| draws.with(action))??)
    }

    /// The thread gets the device's context.
    pub fn bind(&self) -> std::result::Result<(), DriverError> {
        self.device.context().bind_to_thread()
    }

    /// Logits of this device, ready on a stream.
    fn tensor(
        &self,
        logits: &Bound<'_, PyAny>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> Result<(Tensor, Handle)> {
        let ours = self.device.ordinal();
        let Some((request, ordinal)) = on_cuda(logits)? else {
            return Err(Error::Tensor(format!(
                "logits are one tensor on the CUDA device {ours} (with __dlpack__), not an object of the type {} elsewhere; onedraw.Batch draws on the CPU",
                type_name(logits)
            )));
        };
        if ordinal != ours {
            return Err(Error::Tensor(format!(
                "the logits are on the CUDA device {ordinal}; this batch draws on the device {ours}"
            )));
        }
        let stream = Handle::current(logits.py(), stream, ours)?;
        Ok((Tensor::read(request, logits, stream)?, stream))
    }

    fn masks(
        &self,
        masks: Option<&Bound<'_, PyAny>>,
        rows: usize,
        is_one: bool,
        stream: Handle,
    ) -> Result<Vec<Given>> {
        let (vocabulary, ordinal) = (self.vocabulary, self.device.ordinal());
        match is_one {
            true => Ok(vec![Given::read(masks, vocabulary, ordinal, stream)?]),
            false => Given::read_each(masks, rows, vocabulary, ordinal, stream),
        }
    }

    fn read(&self) -> MutexGuard<'_, Read> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn array(this: &Bound<'_, Self>, offset: usize) -> Result<DeviceArray> {
        let (drawn, stream) = this.get().with(this.py(), |draws| Ok((draws.drawn(), draws.stream)))?;
        let ordinal = this.get().device.ordinal();
        Ok(DeviceArray::new(this.clone().unbind(), drawn, offset, ordinal, stream))
    }
}

#[pymethods]
impl Batch {
    #[new]
    #[pyo3(signature = (vocabulary, sequences=64, *, rows=None, logprobs=0, device=0))]
    fn new(
        py: Python<'_>,
        vocabulary: usize,
        sequences: usize,
        rows: Option<usize>,
        logprobs: usize,
        device: usize,
    ) -> Result<Self> {
        let device = device::open(py, device)?;
        let capacity = Capacity { sequences, rows: rows.unwrap_or(sequences), vocabulary, logprobs };
        let draws = released(py, || {
            let _current = Current::keep();
            Draws::new(&device, capacity)
        })??;
        let (draws, read) = (Guarded::new(draws), Mutex::default());
        Ok(Self { draws, device, vocabulary, number: next_batch(), read })
    }

    /// Adds a sequence, the first of the parameters'. What only the CPU knows is a `CudaError` that names it.
    #[pyo3(signature = (params=None, **parameters))]
    fn add(
        &self,
        py: Python<'_>,
        params: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> Result<SequenceId> {
        let params = params::read(py, params, parameters)?;
        Ok(self.named(self.with(py, |draws| draws.batch.add(&params))?))
    }

    /// Adds all `n` sequences of the parameters, which share one seed.
    #[pyo3(signature = (params=None, **parameters))]
    fn add_all(
        &self,
        py: Python<'_>,
        params: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> Result<Vec<SequenceId>> {
        let params = params::read(py, params, parameters)?;
        let ids = self.with(py, |draws| draws.batch.add_all(&params))?;
        Ok(ids.into_iter().map(|id| self.named(id)).collect())
    }

    /// Removes a sequence; whether it was there.
    fn remove(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>) -> Result<bool> {
        let id = self.own(sequence);
        self.with(py, |draws| Ok(draws.batch.remove(id)))
    }

    /// Draws a token for each sequence from its row, appends it there, and waits. `sequences` is a list of ids and `logits` a tensor of as many rows, or one id and
    /// one row; `masks` is a list of masks, each None where there is none: those of `onedraw.Batch`, or int32 words on the device. Returns `Samples`, or for one id a
    /// `Sampled`; rows that cannot be sampled raise `RowsError`, which carries the results of the others.
    #[pyo3(signature = (sequences, logits, *, masks=None, stream=None))]
    fn sample<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        logits: &Bound<'py, PyAny>,
        masks: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        let py = logits.py();
        let (ids, is_one) = SequenceId::all_of(sequences, self.number)?;
        let (tensor, stream) = self.tensor(logits, stream)?;
        let rows = tensor.rows();
        check_rows(ids.len(), rows)?;
        let masks = self.masks(masks, rows, is_one, stream)?;
        let masks: Vec<_> = masks.iter().collect();
        let results = self.with(py, |draws| {
            let matrix = tensor.matrix(&self.device, 0, rows)?;
            draws.sample(stream, &ids, &masks, &matrix)
        })?;
        once::drawn(py, results, is_one)
    }

    /// Says whose rows come next, and with which masks, until `results` has read what was drawn for them or it is called again. The first of the three parts of `sample`, and no
    /// part of a graph. Masks on the device stay where they are until the draw has ended.
    #[pyo3(signature = (sequences, *, masks=None, stream=None))]
    fn prepare<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        masks: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> Result<()> {
        let py = sequences.py();
        let (ids, is_one) = SequenceId::all_of(sequences, self.number)?;
        let stream = Handle::current(py, stream, self.device.ordinal())?;
        let mut masks = self.masks(masks, ids.len(), is_one, stream)?;
        let each: Vec<_> = masks.iter().collect();
        self.with(py, |draws| draws.prepare(stream, &ids, &each))?;
        masks.retain(|mask| matches!(mask, Given::There { .. }));
        self.read().masks = masks;
        Ok(())
    }

    /// Launches the draws of the prepared sequences, row i for the i-th, and goes on: nothing is allocated and nobody waits. It may stand in a graph
    /// (`torch.cuda.graph`), which draws anew each time it runs, from what the tensor holds then, as long as `form` stays the same; `prepare` comes before each run and
    /// `results` after it. The tensor stays where it is until the draw has ended.
    ///
    /// A graph reads and writes the memory of the batch and of its tensor, and keeps neither: it must not run after one of them is gone, nor after a sequence of it was removed.
    #[pyo3(signature = (logits, *, stream=None))]
    fn launch<'py>(&self, logits: &Bound<'py, PyAny>, stream: Option<&Bound<'py, PyAny>>) -> Result<()> {
        let py = logits.py();
        let (tensor, stream) = self.tensor(logits, stream)?;
        let rows = tensor.rows();
        self.with(py, |draws| {
            let matrix = tensor.matrix(&self.device, 0, rows)?;
            // SAFETY: tensor and masks are kept, and their owners are told to leave them in place.
            unsafe { draws.launch(stream, &matrix) }
        })?;
        self.read().logits = Some(tensor);
        Ok(())
    }

    /// Waits for the stream, and gives what the last launch drew for the prepared sequences, as `Samples`, once: then they are prepared no more. A `CudaError` where nothing was launched
    /// since `prepare`. Runs of a graph are not seen: once a launch was captured, sequences that were prepared and not drawn get what an earlier launch left.
    #[pyo3(signature = (*, stream=None))]
    fn results(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> Result<Samples> {
        let stream = Handle::current(py, stream, self.device.ordinal())?;
        let results = self.with(py, |draws| draws.results(stream))?;
        self.read().logits = None;
        Ok(Samples::of(py, results)?)
    }

    /// The tokens of the last launch on the device, a `DeviceArray`: the next step of a model reads them without a way round over the CPU. Where `statuses` is not 0
    /// there is no token. Those of a graph are asked for where it is captured.
    #[getter]
    fn tokens(slf: &Bound<'_, Self>) -> Result<DeviceArray> {
        Self::array(slf, Drawn::TOKEN)
    }

    /// How the draws of the last launch ended, on the device: 0 where a token was drawn, 1 at a NaN, 2 at an infinite logit, 3 where nothing was left.
    #[getter]
    fn statuses(slf: &Bound<'_, Self>) -> Result<DeviceArray> {
        Self::array(slf, Drawn::STATUS)
    }

    /// Which kernels `launch` would launch now, as a name: a graph serves all steps of one form over one tensor.
    #[getter]
    fn form(&self, py: Python<'_>) -> Result<String> {
        let form = self.with(py, |draws| Ok(draws.batch.form()))?;
        Ok(display::plain(&form))
    }

    /// Appends a token that was chosen elsewhere, by its id or as a `Sampled`.
    #[pyo3(signature = (sequence, token, *, stream=None))]
    fn accept<'py>(
        &self,
        sequence: &Bound<'py, SequenceId>,
        token: &Bound<'py, PyAny>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> Result<()> {
        let py = token.py();
        let (id, token) = (self.own(sequence), result::token(token)?);
        let stream = Handle::current(py, stream, self.device.ordinal())?;
        self.with(py, |draws| draws.batch.accept(stream.stream(), &[(id, token)]))
    }

    /// Draws go on with another seed, once the device has done what it was told.
    fn set_seed(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>, seed: u64) -> Result<()> {
        let id = self.own(sequence);
        self.with(py, |draws| draws.batch.set_seed(id, seed))
    }

    /// A sequence's seed: the one given, or the one drawn from the system.
    fn seed(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>) -> Result<u64> {
        let id = self.own(sequence);
        self.with(py, |draws| draws.batch.seed(id).ok_or(CudaError::Row(RowError::UnknownSequence)))
    }

    /// The number of a sequence's output tokens, asked of the device once it has done what it was told.
    fn position(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>) -> Result<u32> {
        let id = self.own(sequence);
        self.with(py, |draws| draws.batch.position(id))
    }

    /// The number of the device that it draws on.
    #[getter(device)]
    fn ordinal(&self) -> usize {
        self.device.ordinal()
    }

    fn __len__(&self, py: Python<'_>) -> Result<usize> {
        self.with(py, |draws| Ok(draws.batch.len()))
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        Ok(format!("Batch({} sequences on the CUDA device {})", self.__len__(py)?, self.device.ordinal()))
    }
}
