//! Texts while they are written, and once they have ended.

use onedraw::{Finish, RowError};
use pyo3::prelude::*;

use crate::display::escape;
use crate::error::row_error;
use crate::result::Sampled;
use crate::sampler::prompt_entry;
use crate::stop::reason_name;

/// Names a request of a `Generator`: a prompt, and the `n` texts that follow it.
#[pyclass(module = "onedraw", frozen, eq, hash)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestId(pub onedraw_lm::RequestId);

#[pymethods]
impl RequestId {
    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// What one token changed in one text.
#[pyclass(module = "onedraw", frozen)]
pub struct Event(pub onedraw_lm::Event);

#[pymethods]
impl Event {
    /// The request that it belongs to.
    #[getter]
    fn request(&self) -> RequestId {
        RequestId(self.0.request)
    }

    /// Which of the `n` texts of the request it is.
    #[getter]
    fn sample(&self) -> usize {
        self.0.sample
    }

    /// The token as a `Sampled`; None if none could be drawn.
    #[getter]
    fn sampled(&self) -> Option<Sampled> {
        self.0.sampled.clone().map(Sampled)
    }

    /// How many of the last tokens were taken back because of a banned phrase, including this one.
    #[getter]
    fn taken_back(&self) -> usize {
        self.0.taken_back
    }

    /// The text to show now, after the text shown before. It has only whole characters, and none is taken
    /// back later.
    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    /// Why the text has ended: `eos`, `stop` or `length`; None while it continues.
    #[getter]
    fn finish_reason(&self) -> Option<&'static str> {
        self.0.finish.map(|finish: Finish| reason_name(finish.reason()))
    }

    /// The `RowError` if no token could be drawn, which also ends the text; else None.
    #[getter]
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        error_object(py, self.0.error.as_ref())
    }

    /// Whether this is the last event of the text.
    #[getter]
    fn is_last(&self) -> bool {
        self.0.is_last()
    }

    fn __repr__(&self) -> String {
        let finish =
            self.finish_reason().map_or(String::new(), |reason| format!(", finish_reason={reason:?}"));
        format!("Event({:?}{finish})", self.0.text)
    }
}

fn error_object(py: Python<'_>, error: Option<&RowError>) -> Option<Py<PyAny>> {
    error.map(|error| row_error(error).into_value(py).into_any())
}

/// A text that has ended.
#[pyclass(module = "onedraw", frozen)]
pub struct Generated(pub onedraw_lm::Generated);

#[pymethods]
impl Generated {
    /// The text, without the prompt.
    #[getter]
    fn text(&self) -> &str {
        &self.0.text
    }

    /// Its tokens.
    #[getter]
    fn tokens(&self) -> Vec<u32> {
        self.0.tokens.iter().map(|sampled| sampled.token).collect()
    }

    /// The tokens as `Sampled`s, with their logprobs if these were asked for.
    #[getter]
    fn sampled(&self) -> Vec<Sampled> {
        self.0.tokens.iter().cloned().map(Sampled).collect()
    }

    /// Why it ended: `eos`, `stop` or `length`; None if no token could be drawn.
    #[getter]
    fn finish_reason(&self) -> Option<&'static str> {
        self.0.finish.map(reason_name)
    }

    /// Which of the `n` texts of its prompt it is.
    #[getter]
    fn sample(&self) -> usize {
        self.0.sample
    }

    /// The seed that drew it; None if it has no token.
    #[getter]
    fn seed(&self) -> Option<u64> {
        self.0.tokens.first().map(|sampled| sampled.seed)
    }

    /// The `RowError` if no token could be drawn; else None.
    #[getter]
    fn error(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        error_object(py, self.0.error.as_ref())
    }

    /// If `prompt_logprobs` is set, one entry per token of the prompt: None for the first, a `Report`, or the
    /// `RowError` of its row. Else None.
    #[getter]
    fn prompt_logprobs(&self, py: Python<'_>) -> PyResult<Option<Vec<Py<PyAny>>>> {
        let Some(reports) = &self.0.prompt_logprobs else { return Ok(None) };
        let entries = reports.iter().map(|report| prompt_entry(py, report.clone()));
        entries.collect::<PyResult<_>>().map(Some)
    }

    fn __str__(&self) -> &str {
        &self.0.text
    }

    fn __repr__(&self) -> String {
        let finish =
            self.finish_reason().map_or(String::new(), |reason| format!(", finish_reason={reason:?}"));
        format!("Generated({:?}, {} tokens{finish})", self.0.text, self.0.tokens.len())
    }

    fn _repr_html_(&self) -> String {
        let seed = self.seed().map_or(String::new(), |seed| format!(", seed {seed}"));
        let finish = self.finish_reason().unwrap_or("error");
        format!(
            "<div style=\"white-space:pre-wrap\">{}</div><div style=\"font-family:monospace;color:#777\">{} tokens, {finish}{seed}</div>",
            escape(&self.0.text),
            self.0.tokens.len()
        )
    }
}
