//! Errors on their way to Python, where they become [`exceptions`](crate::exceptions) with the library's
//! messages.

use onedraw::{ConstraintError, ParamError, RowError};
use onedraw_cuda::CudaError;
use onedraw_grammar::GrammarError;
use onedraw_lm::{GenerateError, ModelError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{exceptions, raised};

/// Everything that can go wrong in a call.
#[derive(Debug)]
pub enum Error {
    Param(ParamError),
    Tensor(String),
    Row(RowError),
    Grammar(GrammarError),
    Constraint(ConstraintError),
    Model(ModelError),
    Cuda(CudaError),
    Python(PyErr),
}

pub type Result<T> = std::result::Result<T, Error>;

macro_rules! from {
    ($($type:ty => $variant:ident,)*) => {$(
        impl From<$type> for Error {
            fn from(error: $type) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

from! {
    ParamError => Param,
    RowError => Row,
    GrammarError => Grammar,
    ConstraintError => Constraint,
    ModelError => Model,
    PyErr => Python,
}

impl From<CudaError> for Error {
    fn from(error: CudaError) -> Self {
        match error {
            CudaError::Params(error) => Self::Param(error),
            CudaError::Row(error) => Self::Row(error),
            other => Self::Cuda(other),
        }
    }
}

impl From<GenerateError> for Error {
    fn from(error: GenerateError) -> Self {
        match error {
            GenerateError::Param(error) => Self::Param(error),
            GenerateError::Row(error) => Self::Row(error),
            GenerateError::Model(error) => Self::Model(error),
            other => Self::Model(ModelError::Request(other.to_string())),
        }
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error {
            Error::Param(error) => {
                let raised = exceptions::ParamError::new_err(error.to_string());
                with_attributes(raised, |value| {
                    value.setattr("field", error.field())?;
                    value.setattr("message", error.message())
                })
            }
            Error::Row(error) => row_error(&error),
            Error::Grammar(error) => {
                let raised = exceptions::GrammarError::new_err(error.to_string());
                with_attributes(raised, |value| {
                    value.setattr("line", error.place().map(|place| place.line))?;
                    value.setattr("column", error.place().map(|place| place.column))
                })
            }
            Error::Tensor(message) => exceptions::TensorError::new_err(message),
            Error::Constraint(error) => exceptions::ConstraintError::new_err(error.to_string()),
            Error::Model(error) => exceptions::ModelError::new_err(error.to_string()),
            Error::Cuda(error) => exceptions::CudaError::new_err(error.to_string()),
            Error::Python(error) => error,
        }
    }
}

/// The exception for the error of one row.
pub fn row_error(error: &RowError) -> PyErr {
    let (text, cause) = raised::cause(&error.to_string());
    let raised = exceptions::RowError::new_err(text);
    if let Some(cause) = cause {
        Python::attach(|py| raised.set_cause(py, Some(cause)));
    }
    with_attributes(raised, |value| value.setattr("kind", error.kind()))
}

/// The error of several rows. It carries the results of the rows that did not fail.
pub fn rows_error(py: Python<'_>, results: Vec<std::result::Result<Py<PyAny>, RowError>>) -> PyErr {
    let named: Vec<(usize, &RowError)> =
        results.iter().enumerate().filter_map(|(row, result)| Some((row, result.as_ref().err()?))).collect();
    let first = named
        .iter()
        .take(3)
        .map(|(row, error)| format!("row {row}: {}", raised::cause(&error.to_string()).0));
    let more = named.len().saturating_sub(3);
    let and_more = (more > 0).then(|| format!("and {more} more rows"));
    let lines: Vec<String> = first.chain(and_more).collect();
    let raised = exceptions::RowsError::new_err(lines.join("; "));
    let kind = named.first().map_or("", |(_, error)| error.kind());
    with_attributes(raised, |value| {
        let errors = PyDict::new(py);
        let mut all = Vec::with_capacity(results.len());
        for (row, result) in results.into_iter().enumerate() {
            all.push(match result {
                Ok(result) => result,
                Err(error) => {
                    let error = row_error(&error).into_value(py).into_any();
                    errors.set_item(row, &error)?;
                    error
                }
            });
        }
        value.setattr("kind", kind)?;
        value.setattr("errors", errors)?;
        value.setattr("results", all)
    })
}

/// An exception with attributes. If one cannot be set, the error of setting it is the exception.
fn with_attributes(error: PyErr, set: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<()>) -> PyErr {
    Python::attach(|py| match set(error.value(py).as_any()) {
        Ok(()) => error,
        Err(other) => other,
    })
}
