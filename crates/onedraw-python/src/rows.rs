//! The results of rows as Python objects: one object for a single row, one for all rows otherwise, or an
//! error.

use onedraw::RowError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::error::{Result, row_error, rows_error};
use crate::result::{Sampled, Samples};

/// The result of the only row.
fn one<T>(mut results: Vec<std::result::Result<T, RowError>>) -> Result<T> {
    match results.pop() {
        Some(result) => Ok(result.map_err(|error| row_error(&error))?),
        None => Err(RowError::EmptyRow.into()),
    }
}

/// A `Sampled` for a single row, else `Samples`. An error if rows failed.
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

/// One object for a single row, else a list of objects. An error if rows failed.
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
        true => Ok(PyList::new(py, results.into_iter().flatten())?.into_any()),
        false => Err(rows_error(py, results).into()),
    }
}
