//! When a text ends, and when some of it must be taken back.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use onedraw::{Finish, FinishReason, StopConditions};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};

use crate::error::Result;
use crate::params;
use crate::value::type_name;

/// The name of a finish reason.
pub fn reason_name(reason: FinishReason) -> &'static str {
    match reason {
        FinishReason::Stop => "stop",
        FinishReason::Length => "length",
        FinishReason::Eos => "eos",
    }
}

/// Text to take back because of a banned string, for `Sampler.take_back`.
#[pyclass(module = "onedraw", frozen, eq)]
#[derive(PartialEq)]
pub struct Rewind(pub onedraw::Rewind);

#[pymethods]
impl Rewind {
    #[new]
    #[pyo3(signature = (length, token, phrase=0))]
    fn new(length: usize, token: u32, phrase: usize) -> Self {
        Self(onedraw::Rewind { length, token, phrase })
    }

    /// The tokens of the output that stay.
    #[getter]
    fn length(&self) -> usize {
        self.0.length
    }

    /// The token after them, which is banned at that position.
    #[getter]
    fn token(&self) -> u32 {
        self.0.token
    }

    /// Which of `banned_strings` was found.
    #[getter]
    fn phrase(&self) -> usize {
        self.0.phrase
    }

    fn __repr__(&self) -> String {
        format!("Rewind(length={}, token={}, phrase={})", self.0.length, self.0.token, self.0.phrase)
    }
}

/// What a token changed in a text.
#[pyclass(module = "onedraw", frozen)]
pub struct Progress {
    text: Vec<u8>,
    finish: Option<Finish>,
    rewind: Option<onedraw::Rewind>,
}

#[pymethods]
impl Progress {
    /// The bytes to show now, after those shown before; none of them is ever taken back.
    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.text)
    }

    /// Why the text has ended: `eos`, `stop` or `length`; None while it continues.
    #[getter]
    fn finish_reason(&self) -> Option<&'static str> {
        self.finish.map(|finish| reason_name(finish.reason()))
    }

    /// The token that ended the text, if one did; else None.
    #[getter]
    fn stop_token(&self) -> Option<u32> {
        match self.finish {
            Some(Finish::Eos { token } | Finish::StopToken { token }) => Some(token),
            _ => None,
        }
    }

    /// Which of the `stop` strings ended the text, by number, if one did; else None.
    #[getter]
    fn stop_string(&self) -> Option<usize> {
        match self.finish {
            Some(Finish::StopString { index }) => Some(index),
            _ => None,
        }
    }

    /// Set if a banned string was completed: the text and the sampler must go back (`take_back`).
    #[getter]
    fn rewind(&self) -> Option<Rewind> {
        self.rewind.map(Rewind)
    }

    fn __repr__(&self) -> String {
        let text = String::from_utf8_lossy(&self.text).into_owned();
        let finish =
            self.finish_reason().map_or(String::new(), |reason| format!(", finish_reason={reason:?}"));
        let rewind = self.rewind().map_or(String::new(), |rewind| format!(", rewind={}", rewind.__repr__()));
        format!("Progress({text:?}{finish}{rewind})")
    }
}

/// Finds where a text ends, token by token: at EOS, stop ids, stop strings across tokens, and lengths. It
/// also finds banned strings. Of the parameters it uses only these, given by name or as `SamplingParams`.
///
/// >>> import onedraw
/// >>> matcher = onedraw.StopMatcher(stop="END", max_tokens=100)
/// >>> matcher.push(1, "the E"), matcher.push(2, "ND of")
/// (Progress("the "), Progress("", finish_reason="stop"))
#[pyclass(module = "onedraw", frozen)]
pub struct StopMatcher(Mutex<onedraw::StopMatcher>);

impl StopMatcher {
    fn inner(&self) -> std::sync::MutexGuard<'_, onedraw::StopMatcher> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl StopMatcher {
    #[new]
    #[pyo3(signature = (params=None, **parameters))]
    fn new(
        py: Python<'_>,
        params: Option<&Bound<'_, PyAny>>,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self> {
        let conditions = StopConditions::new(&params::read(py, params, parameters)?)?;
        Ok(Self(Mutex::new(onedraw::StopMatcher::new(conditions))))
    }

    /// Takes a token and its text, bytes or a string.
    fn push(&self, token: u32, text: &Bound<'_, PyAny>) -> PyResult<Progress> {
        let mut matcher = self.inner();
        let progress = match text.cast::<PyString>() {
            Ok(text) => matcher.push(token, text.to_str()?.as_bytes()),
            Err(_) => {
                let bytes = text.extract::<Cow<'_, [u8]>>().map_err(|_| {
                    PyTypeError::new_err(format!(
                        "a token's text is a string or bytes, not an object of the type {}",
                        type_name(text)
                    ))
                })?;
                matcher.push(token, &bytes)
            }
        };
        Ok(Progress { text: progress.text.to_vec(), finish: progress.finish, rewind: progress.rewind })
    }

    /// Ends the text from outside. Returns the bytes that were held back because they might have become a
    /// stop string.
    fn finish<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.inner().finish())
    }

    /// The bytes that are held back.
    #[getter]
    fn held_back<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.inner().held_back())
    }

    fn __repr__(&self) -> String {
        format!("StopMatcher({} bytes held back)", self.inner().held_back().len())
    }

    fn __copy__(&self) -> Self {
        Self(Mutex::new(self.inner().clone()))
    }

    fn __deepcopy__(&self, _memo: &Bound<'_, PyAny>) -> Self {
        self.__copy__()
    }
}

/// Makes text from bytes that come in pieces. The first bytes of a character wait for the rest.
///
/// >>> import onedraw
/// >>> stream = onedraw.Utf8Stream()
/// >>> stream.push(b"caf\xc3"), stream.push(b"\xa9!")
/// ('caf', 'é!')
#[pyclass(module = "onedraw", frozen)]
pub struct Utf8Stream(Mutex<onedraw::Utf8Stream>);

#[pymethods]
impl Utf8Stream {
    #[new]
    fn new() -> Self {
        Self(Mutex::new(onedraw::Utf8Stream::default()))
    }

    fn __repr__(&self) -> &'static str {
        "Utf8Stream()"
    }

    /// Takes the next bytes and returns the text they complete.
    fn push(&self, bytes: Cow<'_, [u8]>) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(&bytes).to_owned()
    }

    /// Ends the stream. A character that is not complete becomes U+FFFD.
    fn finish(&self) -> String {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).finish().to_owned()
    }
}
