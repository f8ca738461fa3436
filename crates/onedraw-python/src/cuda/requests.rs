//! Requests of an engine that keeps their texts on the device.
#![allow(unsafe_code)] // A step reads and writes memory of others.

use numpy::PyReadonlyArray1;
use onedraw_cuda::{Capacity, CudaError, Dtype, Listed, Matrix, RequestTurn, Sets, Texts, Written};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::device::{self, Current};
use super::stream::Handle;
use crate::error::{Error, Result};
use crate::guarded::{Guarded, released};
use crate::params;

/// The requests of an engine by the slots that it gives out, on a CUDA device. A request follows its text
/// where the engine keeps it, draws without a wait, and its tokens stay on the device: they are those of
/// `onedraw.Batch`.
///
/// For engines: tensors are given by their addresses (`data_ptr()`), which nobody checks. They must be memory
/// that the device can use until the stream has done the step. Everything happens in the order of one stream.
#[pyclass(name = "Requests", module = "onedraw.cuda", frozen)]
pub struct Requests {
    inner: Guarded<Inner>,
    vocabulary: usize,
}

struct Inner {
    requests: onedraw_cuda::Requests,
    process: u32,
    /// Set when this is dropped, and dropped last.
    current: Option<Current>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.current = Some(Current::keep());
    }
}

impl Requests {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        action: impl FnOnce(&mut onedraw_cuda::Requests) -> std::result::Result<R, CudaError> + Send,
    ) -> Result<R> {
        let outcome = self.inner.with(py, |inner| {
            device::check_process(inner.process)?;
            let _current = Current::keep();
            action(&mut inner.requests)
        })?;
        Ok(outcome?)
    }
}

/// The addresses of logprobs, and how many tokens each row lists: `(best, tokens, logprobs, ranks)`. Or those of the sets that
/// tokens were drawn from, and how many ids each place has room for: `(most, counts, bits, ids)`.
type Places = (u32, u64, u64, u64);

#[pymethods]
impl Requests {
    #[new]
    #[pyo3(signature = (vocabulary, slots, *, rows, longest, logprobs=0, device=0))]
    fn new(
        py: Python<'_>,
        vocabulary: usize,
        slots: usize,
        rows: usize,
        longest: usize,
        logprobs: usize,
        device: usize,
    ) -> Result<Self> {
        let device = device::open(py, device)?;
        let capacity = Capacity { sequences: slots, rows, vocabulary, logprobs };
        let requests = released(py, || {
            let _current = Current::keep();
            onedraw_cuda::Requests::new(&device, capacity, longest)
        })??;
        let inner = Inner { requests, process: std::process::id(), current: None };
        Ok(Self { inner: Guarded::new(inner), vocabulary })
    }

    /// Takes the memory now that rows of requests with such parameters share. Without this, the first of these
    /// requests takes it.
    fn reserve(&self, py: Python<'_>, params: &Bound<'_, PyAny>) -> Result<()> {
        let params = params::read(py, Some(params), None)?;
        self.with(py, |requests| requests.reserve(&params))
    }

    /// Puts a request into a slot. Its text is read in its next step: the first `prompt` tokens are the
    /// prompt. With `takes_best`, it takes the first token of the order whatever is drawn, and lists it. One that
    /// was taken away comes back under its `name`, and goes on as if it had never been away.
    #[pyo3(signature = (slot, name, params, prompt, *, takes_best=false, stream=0))]
    #[allow(clippy::too_many_arguments)] // An engine gives them by name.
    fn add(
        &self,
        py: Python<'_>,
        slot: usize,
        name: &str,
        params: &Bound<'_, PyAny>,
        prompt: u32,
        takes_best: bool,
        stream: usize,
    ) -> Result<()> {
        let params = params::read(py, Some(params), None)?;
        let stream = Handle::from_number(stream);
        self.with(py, |requests| requests.add(stream.stream(), slot, name, &params, prompt, takes_best))
    }

    /// Forgets a request that has ended. It does nothing if there is no request of that name.
    fn forget(&self, py: Python<'_>, name: &str) -> Result<()> {
        self.with(py, |requests| {
            requests.forget(name);
            Ok(())
        })
    }

    /// Draws for each of the `slots` from its rows of the logits, those from `bounds[i]` to `bounds[i + 1]`,
    /// as long as its guesses are right. `needed` has for each slot how many tokens of its text the model must
    /// have read, `read_lengths` is the address of how many it has read. Guesses are inputs of the model:
    /// `guesses` is their address and where those of each request begin and end.
    ///
    /// `logits` are an address, a type, the number of rows and the distance between them; `texts` are those of
    /// texts, the distance between them and the address of their lengths; `tokens` and `counts` are addresses,
    /// the latter of counts, rows left over and failures, one after the other.
    #[pyo3(signature = (logits, slots, bounds, needed, texts, *, read_lengths, tokens, width, counts, guesses=None, refused=0, listed=None, sets=None, stream=0))]
    #[allow(clippy::too_many_arguments)] // An engine gives them by name.
    fn step(
        &self,
        py: Python<'_>,
        logits: (u64, &str, usize, i64),
        slots: PyReadonlyArray1<'_, isize>,
        bounds: PyReadonlyArray1<'_, i32>,
        needed: PyReadonlyArray1<'_, i32>,
        texts: (u64, u64, u64),
        read_lengths: u64,
        tokens: u64,
        width: u32,
        counts: u64,
        guesses: Option<(u64, PyReadonlyArray1<'_, i32>)>,
        refused: u64,
        listed: Option<Places>,
        sets: Option<Places>,
        stream: usize,
    ) -> Result<()> {
        let turns = turns(&slots, &bounds, &needed, guesses.as_ref())?;
        let (address, dtype, rows, stride) = logits;
        let Some(dtype) = Dtype::ALL.into_iter().find(|known| known.name() == dtype) else {
            return Err(Error::Tensor(format!("logits are f32, f16 or bf16, not {dtype}")));
        };
        let texts = Texts { tokens: texts.0, stride: texts.1, lengths: texts.2 };
        let bytes = 4 * turns.len() as u64;
        let written = Written {
            read_lengths,
            refused,
            tokens,
            width,
            counts,
            rejected: counts + bytes,
            failures: counts + 2 * bytes,
            listed: listed.map(|(best, tokens, logprobs, ranks)| Listed { best, tokens, logprobs, ranks }),
            sets: sets.map(|(most, counts, bits, ids)| Sets { counts, bits, ids, most }),
        };
        let (stream, vocabulary) = (Handle::from_number(stream), self.vocabulary);
        self.with(py, |requests| {
            // SAFETY: the engine gives addresses of its own tensors, and keeps them until the step is done.
            unsafe {
                let matrix = Matrix::new(requests.device(), address, dtype, rows, vocabulary, stride)?;
                requests.step(stream.stream(), &matrix, &turns, &texts, &written)
            }
        })
    }
}

/// The turns of requests, from what an engine has of them.
fn turns(
    slots: &PyReadonlyArray1<'_, isize>,
    bounds: &PyReadonlyArray1<'_, i32>,
    needed: &PyReadonlyArray1<'_, i32>,
    guesses: Option<&(u64, PyReadonlyArray1<'_, i32>)>,
) -> PyResult<Vec<RequestTurn>> {
    let wrong = || PyValueError::new_err("slots, bounds and lengths do not belong together");
    let (slots, bounds, needed) = (slots.as_slice()?, bounds.as_slice()?, needed.as_slice()?);
    let ends = match guesses {
        Some((address, ends)) => Some((*address, ends.as_slice()?)),
        None => None,
    };
    let turn = |(i, &slot): (usize, &isize)| {
        let &[begin, end] = bounds.get(i..i + 2)? else { return None };
        let (slot, rows) = (u32::try_from(slot).ok()?, u32::try_from(end.checked_sub(begin)?).ok()?);
        let needed = u32::try_from(*needed.get(slot as usize)?).ok()?;
        // The rows of a request are those of its last inputs, and a guess is the input of the row that it
        // leads to.
        let guesses = match ends {
            Some((address, ends)) if rows > 1 => {
                address + 4 * u64::try_from(i64::from(*ends.get(i + 1)?) - i64::from(rows) + 1).ok()?
            }
            _ => 0,
        };
        Some(RequestTurn { slot, rows, guesses, needed })
    };
    let turns: Option<Vec<_>> = slots.iter().enumerate().map(turn).collect();
    turns.ok_or_else(wrong)
}
