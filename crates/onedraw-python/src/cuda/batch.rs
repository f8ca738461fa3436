//! Many sequences on a device, each with its own parameters, seed and history.
#![allow(unsafe_code)] // A launch reads memory of others.

use std::sync::{Mutex, MutexGuard, PoisonError};

use onedraw::{ParamError, RowError};
use onedraw_cuda::{Capacity, CudaError, Device, DraftTurn, Drawn};
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
use crate::rows::drawn;
use crate::sampler::prompt_entry;
use crate::sequence::{check_rows, next_batch, sequence_id};
use crate::speculate::{self, Draft, Verdict};
use crate::stop::Rewind;
use crate::tensor::on_cuda;
use crate::value::type_name;
use crate::{display, params, result};

sequence_id!("onedraw.cuda", onedraw_cuda::SequenceId);

/// Sequences on a CUDA device that come and go between steps, each with its own parameters, seed and history:
/// as in `onedraw.Batch`, which draws the same tokens. Logits are DLPack tensors of the device,
/// float32, float16 or bfloat16, with `vocabulary` logits per row, read in place.
///
/// There is room for so many `sequences`, for `rows` of a step (by default as many) and for `logprobs` of a
/// row: the largest `logprobs` and `prompt_logprobs` that a sequence may have, -1 for all tokens. Memory for
/// rows is allocated at the beginning, or with the first sequence whose parameters need more of it. The memory
/// of a sequence grows with its text, where its parameters read the text.
///
/// A stream is a handle, or an object of PyTorch, CuPy or any library with `__cuda_stream__`. By default it is
/// PyTorch's current stream if PyTorch uses CUDA, else the legacy default stream, for every method and for
/// tensors of any library. `verify` and `prompt_logprobs` always use the legacy default stream. If you use
/// several streams, you must order their work.
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

/// What the last launch reads. It is kept because the launch may not have read it yet.
#[derive(Default)]
struct Read {
    logits: Option<Tensor>,
    /// The masks that are on the device. Masks of the CPU were copied.
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

    /// Reads logits on this device, which are ready on the stream.
    fn tensor(
        &self,
        logits: &Bound<'_, PyAny>,
        stream: Option<&Bound<'_, PyAny>>,
    ) -> Result<(Tensor, Handle)> {
        let stream = Handle::current(logits.py(), stream, self.device.ordinal())?;
        Ok((self.tensor_on(logits, stream)?, stream))
    }

    fn tensor_on(&self, logits: &Bound<'_, PyAny>, stream: Handle) -> Result<Tensor> {
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
        Tensor::read(request, logits, stream)
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

    /// Draws and waits for the results.
    fn draw<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        logits: &Bound<'py, PyAny>,
        masks: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
        appends: bool,
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
            draws.sample(stream, &ids, &masks, &matrix, appends)
        })?;
        drawn(py, results, is_one)
    }

    fn array(this: &Bound<'_, Self>, offset: usize) -> Result<DeviceArray> {
        let (drawn, stream) = this.get().with(this.py(), |draws| Ok((draws.drawn(), draws.stream)))?;
        let device = this.get().device.clone();
        Ok(DeviceArray::new(this.clone().into_any().unbind(), device, drawn, offset, stream))
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
        logprobs: i64,
        device: usize,
    ) -> Result<Self> {
        let logprobs = room(logprobs, vocabulary)?;
        let device = device::open(py, device)?;
        let capacity = Capacity { sequences, rows: rows.unwrap_or(sequences), vocabulary, logprobs };
        let draws = released(py, || {
            let _current = Current::keep();
            Draws::new(&device, capacity)
        })??;
        let (draws, read) = (Guarded::new(draws), Mutex::default());
        Ok(Self { draws, device, vocabulary, number: next_batch(), read })
    }

    /// Adds a sequence: the first of the `n` that the parameters ask for. A stage of your own is a `CudaError`
    /// that names it, because only the CPU can run it. So is a number of logprobs that the batch has no room
    /// for.
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

    /// Adds all `n` sequences that the parameters ask for. They share one seed.
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

    /// Removes a sequence. Returns whether it was there.
    fn remove(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>) -> Result<bool> {
        let id = self.own(sequence);
        self.with(py, |draws| Ok(draws.batch.remove(id)))
    }

    /// Draws a token for each sequence from its row, appends it, and waits for the result. `sequences` is a
    /// list of ids and `logits` a tensor of as many rows, or one id and one row; `masks` is a list with a
    /// mask or None for each row: a mask as in `onedraw.Batch`, or int32 words on the device. Returns
    /// `Samples`, or for one id a `Sampled`; rows that cannot be sampled raise `RowsError`, which carries the
    /// results of the others.
    #[pyo3(signature = (sequences, logits, *, masks=None, stream=None))]
    fn sample<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        logits: &Bound<'py, PyAny>,
        masks: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        self.draw(sequences, logits, masks, stream, true)
    }

    /// Draws a token for each sequence as `sample` does, and appends nothing.
    #[pyo3(signature = (sequences, logits, *, masks=None, stream=None))]
    fn peek<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        logits: &Bound<'py, PyAny>,
        masks: Option<&Bound<'py, PyAny>>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> Result<Bound<'py, PyAny>> {
        self.draw(sequences, logits, masks, stream, false)
    }

    /// Sets whose rows come next, with which masks, and whether what is drawn is appended. This holds until
    /// `results` has read what was drawn for them, or until the next `prepare`. This is the first of the three
    /// parts of `sample`, and not part of a graph. Masks on the device must stay in place until the draw has
    /// ended.
    #[pyo3(signature = (sequences, *, masks=None, append=true, stream=None))]
    fn prepare<'py>(
        &self,
        sequences: &Bound<'py, PyAny>,
        masks: Option<&Bound<'py, PyAny>>,
        append: bool,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> Result<()> {
        let py = sequences.py();
        let (ids, is_one) = SequenceId::all_of(sequences, self.number)?;
        let stream = Handle::current(py, stream, self.device.ordinal())?;
        let mut masks = self.masks(masks, ids.len(), is_one, stream)?;
        let each: Vec<_> = masks.iter().collect();
        self.with(py, |draws| draws.prepare(stream, &ids, &each, append))?;
        masks.retain(|mask| matches!(mask, Given::There { .. }));
        self.read().masks = masks;
        Ok(())
    }

    /// Launches the draws of the prepared sequences, row i for the i-th, and returns at once: it allocates
    /// nothing and does not wait. It may be captured in a graph (`torch.cuda.graph`), which draws again each
    /// time it runs, from what the tensor holds then, as long as `form` stays the same; `prepare` comes
    /// before each run and `results` after it. The tensor must stay in place until the draw has ended.
    ///
    /// A graph reads and writes the memory of the batch and of its tensor, and keeps neither alive: it must
    /// not run after one of them is freed, or after one of its sequences was removed.
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

    /// Waits for the stream, and returns what the last launch drew for the prepared sequences, as `Samples`.
    /// This works once; then nothing is prepared any more. A `CudaError` if nothing was launched since
    /// `prepare`. Runs of a graph cannot be detected: once a launch was captured, sequences that were
    /// prepared but not drawn get the results of an earlier launch.
    #[pyo3(signature = (*, stream=None))]
    fn results(&self, py: Python<'_>, stream: Option<&Bound<'_, PyAny>>) -> Result<Samples> {
        let stream = Handle::current(py, stream, self.device.ordinal())?;
        let results = self.with(py, |draws| draws.results(stream))?;
        self.read().logits = None;
        Ok(Samples::of(py, results)?)
    }

    /// The tokens of the last launch on the device, as a `DeviceArray`: the next step of a model can read
    /// them without a copy to the CPU. There is no token where `statuses` is not 0. For a graph, ask for this
    /// while it is captured.
    #[getter]
    fn tokens(slf: &Bound<'_, Self>) -> Result<DeviceArray> {
        Self::array(slf, Drawn::TOKEN)
    }

    /// How the draws of the last launch ended, on the device: 0 a token was drawn, 1 there was a NaN, 2 there
    /// was an infinite logit, 3 no token was left.
    #[getter]
    fn statuses(slf: &Bound<'_, Self>) -> Result<DeviceArray> {
        Self::array(slf, Drawn::STATUS)
    }

    /// The name of the set of kernels that `launch` would launch now. A graph serves all steps of one form
    /// over one tensor.
    #[getter]
    fn form(&self, py: Python<'_>) -> Result<String> {
        let form = self.with(py, |draws| Ok(draws.batch.form()))?;
        Ok(display::plain(&form))
    }

    /// Appends a `Sampled` that `peek` or `verify` drew at the next position, or the id of a token chosen
    /// elsewhere, which does not change mirostat's state. A token outside the vocabulary is a `RowError`, and
    /// nothing is appended then.
    #[pyo3(signature = (sequence, token, *, stream=None))]
    fn accept<'py>(
        &self,
        sequence: &Bound<'py, SequenceId>,
        token: &Bound<'py, PyAny>,
        stream: Option<&Bound<'py, PyAny>>,
    ) -> Result<()> {
        let py = token.py();
        let (id, stream) = (self.own(sequence), Handle::current(py, stream, self.device.ordinal())?);
        if let Ok(sampled) = token.cast::<result::Sampled>() {
            let sampled = &sampled.get().0;
            return self.with(py, |draws| draws.batch.accept_sampled(stream.stream(), [(id, sampled)]));
        }
        let token = result::token(token)?;
        self.with(py, |draws| draws.batch.accept(stream.stream(), &[(id, token)]))
    }

    /// Sets another seed for the next draws.
    fn set_seed(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>, seed: u64) -> Result<()> {
        let id = self.own(sequence);
        self.with(py, |draws| draws.batch.set_seed(id, seed))
    }

    /// The seed of a sequence: the given one, or one drawn from the system.
    fn seed(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>) -> Result<u64> {
        let id = self.own(sequence);
        self.with(py, |draws| draws.batch.seed(id).ok_or(CudaError::Row(RowError::UnknownSequence)))
    }

    /// The number of output tokens of a sequence. Waits until the device has finished its work, and asks it.
    fn position(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>) -> Result<u32> {
        let id = self.own(sequence);
        self.with(py, |draws| draws.batch.position(id))
    }

    /// Makes the next draw that of another position. The text stays as it is, so that several tokens can be
    /// drawn after one text: penalties, bad words and `min_tokens` depend on the text alone. Sequences that were
    /// prepared are no longer prepared. If tokens were drawn that were not read, this waits for the device.
    fn set_position(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>, position: u32) -> Result<()> {
        let id = self.own(sequence);
        self.with(py, |draws| draws.batch.set_position(id, position))
    }

    /// Takes back the tokens of a sequence after the first `length` of its output. This is an undo: the same
    /// rows draw the same tokens again, whatever the parameters are. Sequences that were prepared are no longer
    /// prepared. If tokens were drawn that were not read, this waits for the device.
    fn rewind(&self, py: Python<'_>, sequence: &Bound<'_, SequenceId>, length: u32) -> Result<()> {
        let id = self.own(sequence);
        self.with(py, |draws| draws.batch.rewind(id, length))
    }

    /// Takes text back because of what was drawn, as a `StopMatcher` decided. The token that stood there is
    /// banned at that position, and the next draw there has new noise. This waits as `rewind` does.
    fn take_back(
        &self,
        py: Python<'_>,
        sequence: &Bound<'_, SequenceId>,
        rewind: &Bound<'_, Rewind>,
    ) -> Result<()> {
        let (id, rewind) = (self.own(sequence), rewind.get().0);
        self.with(py, |draws| draws.batch.take_back(id, &rewind))
    }

    /// Logprobs of a sequence's prompt (`prompt_token_ids`), and waits for them: row i of the matrix predicts
    /// token `first` + i, so that a prompt can be read in parts. There is one entry per row: a `Report`, or the
    /// `RowError` of the row. Rows after the end of the prompt are not read and have no entry. All rows are read
    /// in one call. Sequences that were prepared are no longer prepared.
    ///
    /// >>> import onedraw.cuda, torch
    /// >>> batch = onedraw.cuda.Batch(vocabulary=3)
    /// >>> sequence = batch.add(prompt_token_ids=[0, 1, 2], prompt_logprobs=0)
    /// >>> logits = torch.tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 1.0]], device="cuda")
    /// >>> [(report.token, report.rank) for report in batch.prompt_logprobs(sequence, logits)]
    /// [(1, 1), (2, 2)]
    #[pyo3(signature = (sequence, logits, *, first=1))]
    fn prompt_logprobs<'py>(
        &self,
        sequence: &Bound<'py, SequenceId>,
        logits: &Bound<'py, PyAny>,
        first: usize,
    ) -> Result<Vec<Py<PyAny>>> {
        let (py, id) = (logits.py(), self.own(sequence));
        // It happens on the legacy default stream.
        let tensor = self.tensor_on(logits, Handle::default())?;
        let reports = self.with(py, |draws| {
            // For an unknown sequence the rows would be errors, of which there may be none.
            draws.batch.seed(id).ok_or(CudaError::Row(RowError::UnknownSequence))?;
            let matrix = tensor.matrix(&self.device, 0, tensor.rows())?;
            draws.batch.prompt_logprobs(id, first, &matrix)
        })?;
        reports.into_iter().map(|report| Ok(prompt_entry(py, report.map(Some))?)).collect()
    }

    /// Verifies a draft, as `onedraw.Batch.verify` does, and waits for the verdict: the logits have one row for
    /// the text, and one after each token of the draft. `verify` is "exact", "rejection", "block" or
    /// "typical". The sequence does not change: the tokens that are used must be accepted one by one.
    /// Sequences that were prepared are no longer prepared.
    #[pyo3(signature = (sequence, draft, logits, *, verify="exact"))]
    fn verify<'py>(
        &self,
        sequence: &Bound<'py, SequenceId>,
        draft: &Bound<'py, Draft>,
        logits: &Bound<'py, PyAny>,
        verify: &str,
    ) -> Result<Verdict> {
        let (id, draft, mode) = (self.own(sequence), draft.get().copy(), speculate::verify(verify)?);
        // It happens on the legacy default stream.
        let tensor = self.tensor_on(logits, Handle::default())?;
        let verdicts = self.with(logits.py(), |draws| {
            let matrix = tensor.matrix(&self.device, 0, tensor.rows())?;
            draws.batch.verify(&[DraftTurn { sequence: id, draft: &draft }], &matrix, mode)
        })?;
        match verdicts.into_iter().next() {
            Some(verdict) => Ok(verdict?.into()),
            None => Err(CudaError::NoResults.into()),
        }
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

/// The logprobs that a batch has room for; -1 are those of all tokens.
fn room(logprobs: i64, vocabulary: usize) -> Result<usize> {
    match usize::try_from(logprobs) {
        Ok(logprobs) => Ok(logprobs),
        Err(_) if logprobs == -1 => Ok(vocabulary),
        Err(_) => {
            Err(ParamError::new("logprobs", format!("must be at least 0, or -1 for all, not {logprobs}"))
                .into())
        }
    }
}
