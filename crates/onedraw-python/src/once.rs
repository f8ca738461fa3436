//! Single calls: logits and parameters in, a result out. Only the memory that a draw works in is kept.

use std::cell::RefCell;

use onedraw::{Batch, ParamError, SamplingParams as Params, SequenceId, Step};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cuda::stream::Handle;
use crate::error::{Error, Result};
use crate::explanation::Explanation;
use crate::guarded::released;
use crate::result::Distribution;
use crate::rows::{drawn, objects};
use crate::tensor::Logits;
use crate::{cuda, mask, params, tensor};

thread_local! {
    /// The batch of this thread. A stage written in Python may itself draw in the middle of a draw; it finds
    /// none here and makes a new one.
    static BATCH: RefCell<Option<Batch>> = const { RefCell::new(None) };
}

/// Adds the sequences of each row with `add`, asks for something with `ask`, and removes them again.
fn with_sequences<T: Send>(
    py: Python<'_>,
    logits: &Logits,
    params: Vec<Params>,
    masks: &[Option<Vec<u32>>],
    add: fn(&mut Batch, Params) -> std::result::Result<Vec<SequenceId>, ParamError>,
    ask: impl FnOnce(&mut Batch, &[Step<'_>]) -> T + Send,
) -> Result<T> {
    let rows = logits.rows();
    released(py, || {
        let mut batch = BATCH.take().unwrap_or_default();
        let mut steps = Vec::with_capacity(rows.len());
        let mut trouble = None;
        for (i, (&row, params)) in rows.iter().zip(params).enumerate() {
            match add(&mut batch, params) {
                Ok(ids) => steps.extend(ids.into_iter().map(|sequence| Step {
                    sequence,
                    row,
                    mask: masks.get(i).and_then(Option::as_deref),
                })),
                Err(error) => {
                    trouble = Some(error);
                    break;
                }
            }
        }
        let answer = match trouble {
            None => Ok(ask(&mut batch, &steps)),
            Some(error) => Err(error.into()),
        };
        for step in &steps {
            batch.remove(step.sequence);
        }
        BATCH.set(Some(batch));
        answer
    })?
}

fn first(batch: &mut Batch, params: Params) -> std::result::Result<Vec<SequenceId>, ParamError> {
    Ok(vec![batch.add(params)?])
}

fn all(batch: &mut Batch, params: Params) -> std::result::Result<Vec<SequenceId>, ParamError> {
    match params.n {
        1 => first(batch, params),
        _ => batch.add_all(params),
    }
}

/// The mask of one row, or a list of masks.
fn masks(mask: Option<&Bound<'_, PyAny>>, logits: &Logits) -> Result<Vec<Option<Vec<u32>>>> {
    match logits.is_row {
        true => Ok(vec![mask::read(mask, logits.row()?.len())?]),
        false => mask::read_each(mask, &logits.rows()),
    }
}

/// Parameters that also ask for the probability wherever they ask for logprobs, as a sampler of one row does.
fn asking(mut params: Vec<Params>) -> Vec<Params> {
    for params in &mut params {
        params.probability |= params.logprobs.is_some();
    }
    params
}

/// Draws a token: a `Sampled` for one row of logits, `Samples` for several rows or if `n` is above 1.
///
/// `logits` is a NumPy array or any tensor with `__dlpack__`, float32, float16 or bfloat16, [V] or [B, V],
/// read in place; or a list of numbers. A tensor on a CUDA device is drawn there, on `stream` (see
/// `onedraw.cuda.Batch`). `params` are `SamplingParams`, a dict, a preset's name, or a list with one for each
/// row; keyword arguments go before them. `mask` is the mask of a grammar, or a list of masks for several
/// rows. Rows that cannot be sampled raise `RowsError`, which carries the results of the others.
///
/// >>> import onedraw, numpy as np
/// >>> logits = np.array([1.5, 0.2, 3.1, -4.0], dtype="f4")
/// >>> onedraw.sample(logits, temperature=0.8, top_p=0.9, seed=42)
/// Sampled(token=2, seed=42, position=0)
/// >>> onedraw.sample(logits, temperature=0.8, logprobs=0, seed=42)
/// Sampled(token=2, logprob=-0.2293, probability=0.8605, rank=1, seed=42, position=0)
#[pyfunction]
#[pyo3(signature = (logits, params=None, *, mask=None, stream=None, **parameters))]
pub fn sample<'py>(
    logits: &Bound<'py, PyAny>,
    params: Option<&Bound<'py, PyAny>>,
    mask: Option<&Bound<'py, PyAny>>,
    stream: Option<&Bound<'py, PyAny>>,
    parameters: Option<&Bound<'py, PyDict>>,
) -> Result<Bound<'py, PyAny>> {
    let py = logits.py();
    if let Some((request, ordinal)) = tensor::on_cuda(logits)? {
        let device = cuda::device::open(py, ordinal)?;
        let stream = Handle::current(py, stream, ordinal)?;
        let tensor = cuda::tensor::Tensor::read(request, logits, stream)?;
        let params = asking(params::read_each(py, params, parameters, tensor.rows())?);
        return cuda::once::sample(py, &device, stream, &tensor, &params, mask);
    }
    if stream.is_some_and(|stream| !stream.is_none()) {
        return Err(Error::Tensor("a stream is for logits on a CUDA device; these are elsewhere".into()));
    }
    let logits = Logits::read(logits)?;
    let params = asking(params::read_each(py, params, parameters, logits.len())?);
    let is_one = logits.is_row && params.iter().all(|params| params.n == 1);
    let masks = masks(mask, &logits)?;
    let results = with_sequences(py, &logits, params, &masks, all, |batch, steps| batch.sample(steps))?;
    drawn(py, results, is_one)
}

/// Every token that can be drawn, with its probability: a `Distribution`, or a list of them for several rows.
/// Arguments are those of `sample`.
///
/// >>> import onedraw
/// >>> onedraw.distribution([0.0, 1.0, 2.0], min_p=0.2)
/// Distribution(2 tokens, {2: 0.7311, 1: 0.2689})
#[pyfunction]
#[pyo3(signature = (logits, params=None, *, mask=None, **parameters))]
pub fn distribution<'py>(
    logits: &Bound<'py, PyAny>,
    params: Option<&Bound<'py, PyAny>>,
    mask: Option<&Bound<'py, PyAny>>,
    parameters: Option<&Bound<'py, PyDict>>,
) -> Result<Bound<'py, PyAny>> {
    let py = logits.py();
    let logits = Logits::read(logits)?;
    let params = params::read_each(py, params, parameters, logits.len())?;
    let masks = masks(mask, &logits)?;
    let results =
        with_sequences(py, &logits, params, &masks, first, |batch, steps| batch.distributions(steps))?;
    objects(py, results, logits.is_row, |inner| Ok(Bound::new(py, Distribution { inner })?.into_any()))
}

/// What each stage of the chain does to a row: an `Explanation`, or a list of them for several rows. The
/// `listed` most likely tokens that a stage removes are named, and as many of those that stay. The other
/// arguments are those of `sample`.
#[pyfunction]
#[pyo3(signature = (logits, params=None, *, listed=10, mask=None, **parameters))]
pub fn explain<'py>(
    logits: &Bound<'py, PyAny>,
    params: Option<&Bound<'py, PyAny>>,
    listed: usize,
    mask: Option<&Bound<'py, PyAny>>,
    parameters: Option<&Bound<'py, PyDict>>,
) -> Result<Bound<'py, PyAny>> {
    let py = logits.py();
    let logits = Logits::read(logits)?;
    let params = params::read_each(py, params, parameters, logits.len())?;
    let masks = masks(mask, &logits)?;
    let results =
        with_sequences(py, &logits, params, &masks, first, |batch, steps| batch.explanations(steps, listed))?;
    objects(py, results, logits.is_row, |explained| {
        Ok(Bound::new(py, Explanation::from(explained))?.into_any())
    })
}
