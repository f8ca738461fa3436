//! Single calls: logits and parameters in, a result out, nothing kept but the memory that a draw works in.

use std::cell::RefCell;

use onedraw::{Batch, ParamError, RowError, SamplingParams as Params, SequenceId, Step};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::cuda::stream::Handle;
use crate::error::{Error, Result, row_error, rows_error};
use crate::explanation::Explanation;
use crate::guarded::released;
use crate::result::{Distribution, Sampled, Samples};
use crate::tensor::Logits;
use crate::{cuda, mask, params, tensor};

thread_local! {
    /// Each thread's memory. A stage written in Python may draw, too, in the middle of a draw: then there is none here, and it takes a new one.
    static BATCH: RefCell<Option<Batch>> = const { RefCell::new(None) };
}

/// Draws from rows, each with the sequences that `add` makes of its parameters.
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

/// One row's mask, or a list of them.
fn masks(mask: Option<&Bound<'_, PyAny>>, logits: &Logits) -> Result<Vec<Option<Vec<u32>>>> {
    match logits.is_row {
        true => Ok(vec![mask::read(mask, logits.row()?.len())?]),
        false => mask::read_each(mask, &logits.rows()),
    }
}

/// Draws a token: a `Sampled` for one row of logits, `Samples` for rows or where `n` is above 1.
///
/// `logits` is a NumPy array or any tensor with `__dlpack__`, float32, float16 or bfloat16, [V] or [B, V], read where it lies; or a list of numbers. A tensor on
/// a CUDA device is drawn there, on `stream` (see `onedraw.cuda.Batch`). `params` are `SamplingParams`, a dict, a preset's name, or a list of one a row; keyword arguments go before them. `mask` is a grammar's: a mask, or for
/// rows a list of them. Rows that cannot be sampled raise `RowsError`, which carries the results of the others.
///
/// >>> import onedraw, numpy as np
/// >>> logits = np.array([1.5, 0.2, 3.1, -4.0], dtype="f4")
/// >>> onedraw.sample(logits, temperature=0.8, top_p=0.9, seed=42)
/// Sampled(token=2, seed=42, position=0)
/// >>> onedraw.sample(logits, "deterministic", logprobs=0, seed=0)
/// Sampled(token=2, logprob=-0.2293, probability=0.7951, rank=1, seed=0, position=0)
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
        let params = params::read_each(py, params, parameters, tensor.rows())?;
        return cuda::once::sample(py, &device, stream, &tensor, &params, mask);
    }
    if stream.is_some_and(|stream| !stream.is_none()) {
        return Err(Error::Tensor("a stream is for logits on a CUDA device; these are elsewhere".into()));
    }
    let logits = Logits::read(logits)?;
    let params = params::read_each(py, params, parameters, logits.len())?;
    let is_one = logits.is_row && params.iter().all(|params| params.n == 1);
    let masks = masks(mask, &logits)?;
    let results = with_sequences(py, &logits, params, &masks, all, |batch, steps| batch.sample(steps))?;
    drawn(py, results, is_one)
}

/// Every token that can be drawn, with its probability: a `Distribution`, or for rows a list of them. Arguments are those of `sample`.
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

/// What each stage of the chain does to a row: an `Explanation`, or for rows a list of them. Of the tokens that go at a stage, and of those that stay,
/// the `listed` most likely are named. The other arguments are those of `sample`.
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

/// The one result there is.
fn one<T>(mut results: Vec<std::result::Result<T, RowError>>) -> Result<T> {
    match results.pop() {
        Some(result) => Ok(result.map_err(|error| row_error(&error))?),
        None => Err(RowError::EmptyRow.into()),
    }
}

/// A `Sampled` if it was one row, else `Samples`; or the error of the rows that failed.
pub fn drawn(
    py: Python<'_>,
    results: Vec<std::result::Result<onedraw::Sampled, RowError>>,
    is_one: bool,
) -> Result<Bound<'_, PyAny>> {
    match is_one {
        true => Ok(Bound::new(py, Sampled(one(results)?))?.into_any()),
        false => Ok(Bound::new(py, Samples::of(py, results)?)?.into_any()),
    }
}

/// One object, or a list of them; or the error of the rows that failed.
pub fn objects<'py, T>(
    py: Python<'py>,
    results: Vec<std::result::Result<T, RowError>>,
    is_row: bool,
    object: impl Fn(T) -> PyResult<Bound<'py, PyAny>>,
) -> Result<Bound<'py, PyAny>> {
    if is_row {
        return Ok(object(one(results)?)?);
    }
    let is_good = results.iter().all(std::result::Result::is_ok);
    let results = results.into_iter().map(|result| match result {
        Ok(result) => Ok(Ok(object(result)?.unbind())),
        Err(error) => Ok(Err(error)),
    });
    let results: Vec<std::result::Result<Py<PyAny>, RowError>> = results.collect::<PyResult<_>>()?;
    match is_good {
        true => Ok(pyo3::types::PyList::new(py, results.into_iter().flatten())?.into_any()),
        false => Err(rows_error(py, results).into()),
    }
}
