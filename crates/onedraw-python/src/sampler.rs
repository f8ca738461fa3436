//! One sequence.

use onedraw::{Kernel, ParamError, RowError, Saved, Shards};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::audit::Audit;
use crate::error::{Error, Result, row_error};
use crate::explanation::Explanation;
use crate::guarded::Guarded;
use crate::kept::EditedRow;
use crate::result::{Distribution, Sampled, TokenLogprob, token_logprobs};
use crate::stop::Rewind;
use crate::tensor::Logits;
use crate::{exceptions, mask, params, result};

/// What is reported about one token of a prompt.
#[pyclass(module = "onedraw", frozen, get_all)]
pub struct Report {
    /// The id.
    token: u32,
    /// The natural logarithm of its probability; in the logits modes its logit.
    logprob: f64,
    /// Its probability.
    probability: f64,
    /// 1 + the tokens before it in the order.
    rank: u32,
    /// The token itself, then the best others.
    logprobs: Vec<TokenLogprob>,
}

#[pymethods]
impl Report {
    fn __repr__(&self) -> String {
        format!("Report(token={}, logprob={:.4}, rank={})", self.token, self.logprob, self.rank)
    }
}

impl From<&onedraw::Report> for Report {
    fn from(report: &onedraw::Report) -> Self {
        let &onedraw::Report { token, logprob, probability, rank, ref logprobs } = report;
        Self { token, logprob, probability, rank, logprobs: token_logprobs(logprobs) }
    }
}

/// The entry of a token in a list of prompt logprobs: None for the first, a `Report`, or the `RowError` of its
/// row.
pub fn prompt_entry(
    py: Python<'_>,
    report: std::result::Result<Option<onedraw::Report>, RowError>,
) -> PyResult<Py<PyAny>> {
    match report {
        Ok(None) => Ok(py.None()),
        Ok(Some(report)) => Ok(Py::new(py, Report::from(&report))?.into_any()),
        Err(error) => Ok(row_error(&error).into_value(py).into_any()),
    }
}

/// Checks that the position fits 32 bits.
pub fn check_ahead(position: u32, ahead: u32) -> Result<()> {
    match position.checked_add(ahead) {
        Some(_) => Ok(()),
        None => {
            Err(ParamError::new("ahead", format!("must be at most {}, not {ahead}", u32::MAX - position))
                .into())
        }
    }
}

/// Checks a number of threads.
pub fn check_threads(threads: usize) -> Result<usize> {
    const MOST: usize = 1024;
    match threads {
        0..=MOST => Ok(threads),
        _ => Err(ParamError::new("threads", format!("must be in [0, {MOST}], not {threads}")).into()),
    }
}

/// The instruction set of that name; an error if this machine does not have it.
pub fn kernel(name: &str) -> Result<Kernel> {
    let kernel: Kernel = name.parse()?;
    match kernel.is_supported() {
        true => Ok(kernel),
        false if kernel == Kernel::Cuda => {
            let message = "cuda is no instruction set of this machine: onedraw.cuda.Batch draws on a device";
            Err(ParamError::new("kernel", message).into())
        }
        false => {
            Err(ParamError::new("kernel", format!("this machine or this build cannot run {name}")).into())
        }
    }
}

/// Draws the tokens of one sequence, each with the history of those before it.
///
/// Parameters are `SamplingParams`, a dict, a preset's name or keyword arguments. A copy (`copy.copy`) is
/// independent; a pickle holds parameters, seed and history.
///
/// >>> import onedraw
/// >>> sampler = onedraw.Sampler(temperature=0.8, repetition_penalty=1.3, seed=7)
/// >>> [sampler.sample([1.0, 3.5, 0.2, 2.9]).token for _ in range(5)]
/// [3, 1, 3, 0, 1]
/// >>> sampler.position, sampler.output
/// (5, [3, 1, 3, 0, 1])
#[pyclass(module = "onedraw", frozen)]
pub struct Sampler(Guarded<onedraw::Sampler>);

impl Sampler {
    fn draw(
        &self,
        logits: &Bound<'_, PyAny>,
        draw: impl FnOnce(
            &mut onedraw::Sampler,
            onedraw::Row<'_>,
        ) -> std::result::Result<onedraw::Sampled, RowError>
        + Send,
    ) -> Result<Sampled> {
        let logits_read = Logits::read(logits)?;
        let row = logits_read.row()?;
        Ok(Sampled(self.0.with(logits.py(), |sampler| draw(sampler, row))??))
    }

    fn new(sampler: onedraw::Sampler) -> Self {
        Self(Guarded::new(sampler))
    }
}

fn set_up(sampler: onedraw::Sampler, kernel: Kernel, shards: usize) -> Sampler {
    let sampler = sampler.kernel(kernel);
    Sampler::new(if shards > 1 { sampler.shards(Shards::even(shards)) } else { sampler })
}

#[pymethods]
impl Sampler {
    #[new]
    #[pyo3(signature = (params=None, *, kernel="auto", shards=1, **parameters))]
    fn make(
        py: Python<'_>,
        params: Option<&Bound<'_, PyAny>>,
        kernel: &str,
        shards: usize,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self> {
        let params = params::read(py, params, parameters)?;
        Ok(set_up(onedraw::Sampler::new(params)?, self::kernel(kernel)?, shards))
    }

    /// One sampler for each of the `n` sequences. They share the seed and have different noise.
    #[classmethod]
    #[pyo3(signature = (params=None, *, kernel="auto", shards=1, **parameters))]
    fn sequences(
        cls: &Bound<'_, PyType>,
        params: Option<&Bound<'_, PyAny>>,
        kernel: &str,
        shards: usize,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> Result<Vec<Self>> {
        let params = params::read(cls.py(), params, parameters)?;
        let kernel = self::kernel(kernel)?;
        Ok(onedraw::Sampler::sequences(params)?
            .into_iter()
            .map(|sampler| set_up(sampler, kernel, shards))
            .collect())
    }

    /// Draws the next token and appends it to the history. A mask limits the draw to the tokens that it
    /// allows.
    #[pyo3(signature = (logits, *, mask=None))]
    fn sample(&self, logits: &Bound<'_, PyAny>, mask: Option<&Bound<'_, PyAny>>) -> Result<Sampled> {
        let read = Logits::read(logits)?;
        let row = read.row()?;
        let mask = mask::read(mask, row.len())?;
        let sampled = self.0.with(logits.py(), |sampler| match &mask {
            None => sampler.sample(row),
            Some(mask) => sampler.sample_masked(row, mask),
        });
        Ok(Sampled(sampled??))
    }

    /// Draws `ahead` positions after the next one, without changing the history.
    #[pyo3(signature = (logits, ahead=0))]
    fn peek(&self, logits: &Bound<'_, PyAny>, ahead: u32) -> Result<Sampled> {
        let position = self.position(logits.py())?;
        check_ahead(position, ahead)?;
        self.draw(logits, |sampler, row| sampler.peek(row, ahead))
    }

    /// The token at the share `uniform` in [0, 1) of the kept mass, for callers who have their own
    /// randomness. Appends it to the history.
    fn sample_uniform(&self, logits: &Bound<'_, PyAny>, uniform: f64) -> Result<Sampled> {
        self.draw(logits, |sampler, row| sampler.sample_uniform(row, uniform))
    }

    /// Every token that can be drawn next, with its probability.
    #[pyo3(signature = (logits, *, mask=None))]
    fn distribution(
        &self,
        logits: &Bound<'_, PyAny>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> Result<Distribution> {
        let read = Logits::read(logits)?;
        let row = read.row()?;
        let mask = mask::read(mask, row.len())?;
        let inner = self.0.with(logits.py(), |sampler| match &mask {
            None => sampler.distribution(row),
            Some(mask) => sampler.distribution_masked(row, mask),
        })??;
        Ok(Distribution { inner })
    }

    /// What each stage does to a row, and which token is drawn. The history does not change.
    #[pyo3(signature = (logits, *, listed=10, mask=None))]
    fn explain(
        &self,
        logits: &Bound<'_, PyAny>,
        listed: usize,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> Result<Explanation> {
        let read = Logits::read(logits)?;
        let row = read.row()?;
        let mask = mask::read(mask, row.len())?;
        let explained = self.0.with(logits.py(), |sampler| match &mask {
            None => sampler.explain(row, listed),
            Some(mask) => sampler.explain_masked(row, mask, listed),
        })??;
        Ok(explained.into())
    }

    /// Compares a claimed token with the one that is drawn next. The history does not change; `accept` appends
    /// the result's token.
    #[pyo3(signature = (logits, token, *, mask=None))]
    fn audit(
        &self,
        logits: &Bound<'_, PyAny>,
        token: &Bound<'_, PyAny>,
        mask: Option<&Bound<'_, PyAny>>,
    ) -> Result<Audit> {
        let read = Logits::read(logits)?;
        let (row, token) = (read.row()?, result::token(token)?);
        let mask = mask::read(mask, row.len())?;
        let audit = self.0.with(logits.py(), |sampler| match &mask {
            None => sampler.audit(row, token),
            Some(mask) => sampler.audit_masked(row, mask, token),
        })??;
        Ok(Audit(audit))
    }

    /// The next row after the edits with which the chain begins: what the summary of a kept set is about.
    #[pyo3(signature = (logits, *, mask=None))]
    fn edited(&self, logits: &Bound<'_, PyAny>, mask: Option<&Bound<'_, PyAny>>) -> Result<EditedRow> {
        let read = Logits::read(logits)?;
        let row = read.row()?;
        let mask = mask::read(mask, row.len())?;
        Ok(EditedRow(self.0.with(logits.py(), |sampler| sampler.edited(row, mask.as_deref()))??))
    }

    /// Logprobs of the prompt (`prompt_token_ids`): row i of the matrix predicts token i + 1. There is one
    /// entry per token: None for the first, which nothing predicts, a `Report`, or the `RowError` of its row.
    fn prompt_logprobs(&self, logits: &Bound<'_, PyAny>) -> Result<Vec<Py<PyAny>>> {
        let py = logits.py();
        let read = Logits::read(logits)?;
        let rows = read.matrix()?;
        let reports = self.0.with(py, |sampler| sampler.prompt_logprobs(rows))?;
        reports.into_iter().map(|report| Ok(prompt_entry(py, report)?)).collect()
    }

    /// Appends a `Sampled` that `peek` drew at the next position, the claimed token of an `Audit`, or the id of
    /// a token that was chosen elsewhere, which does not change mirostat's state.
    fn accept(&self, py: Python<'_>, token: &Bound<'_, PyAny>) -> Result<()> {
        if let Ok(sampled) = token.cast::<Sampled>() {
            let sampled = &sampled.get().0;
            return self.0.with(py, |sampler| sampler.accept_sampled(sampled));
        }
        if let Ok(audit) = token.cast::<Audit>() {
            let audit = &audit.get().0;
            return self.0.with(py, |sampler| sampler.accept_audited(audit));
        }
        let token = result::token(token)?;
        self.0.with(py, |sampler| sampler.accept(token))
    }

    /// Takes back the tokens after the first `length` of the output. This is an undo: the same rows draw the
    /// same tokens again.
    fn rewind(&self, py: Python<'_>, length: usize) -> Result<()> {
        self.0.with(py, |sampler| sampler.rewind(length))
    }

    /// Takes text back because of what was drawn, as a `StopMatcher` decided. The token that stood there is
    /// banned at that position, and the next draw there has new noise.
    fn take_back(&self, py: Python<'_>, rewind: &Bound<'_, Rewind>) -> Result<()> {
        let rewind = rewind.get().0;
        self.0.with(py, |sampler| sampler.take_back(&rewind))
    }

    /// The position of the next draw: the number of tokens written so far.
    #[getter]
    fn position(&self, py: Python<'_>) -> Result<u32> {
        self.0.with(py, |sampler| sampler.position())
    }

    /// The tokens written so far.
    #[getter]
    fn output(&self, py: Python<'_>) -> Result<Vec<u32>> {
        self.0.with(py, |sampler| sampler.output().to_vec())
    }

    /// The seed: the given one, or one drawn from the system.
    #[getter]
    fn seed(&self, py: Python<'_>) -> Result<u64> {
        self.0.with(py, |sampler| sampler.seed())
    }

    /// Mirostat's state mu, in bits; None if mirostat is off.
    #[getter]
    fn mirostat_mu(&self, py: Python<'_>) -> Result<Option<f64>> {
        self.0.with(py, |sampler| sampler.mirostat_mu())
    }

    /// Everything a later draw depends on, as JSON: parameters, seed, tokens, mirostat's state, rewinds and
    /// bans. A stage of your own cannot be saved.
    fn save(&self, py: Python<'_>) -> Result<String> {
        let saved = self.0.with(py, |sampler| sampler.save())?;
        serde_json::to_string(&saved).map_err(|error| ParamError::new("order", error.to_string()).into())
    }

    /// Restores a saved sampler.
    #[staticmethod]
    fn load(saved: &str) -> Result<Self> {
        let saved: Saved = serde_json::from_str(saved).map_err(|error| {
            Error::Python(exceptions::OnedrawError::new_err(format!("not a saved sampler: {error}")))
        })?;
        Ok(Self::new(onedraw::Sampler::load(&saved)?))
    }

    fn __copy__(&self, py: Python<'_>) -> Result<Self> {
        Ok(Self::new(self.0.with(py, |sampler| sampler.clone())?))
    }

    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Result<Self> {
        self.__copy__(py)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<(Bound<'py, PyAny>, (String,))> {
        Ok((py.get_type::<Self>().getattr("load")?, (self.save(py)?,)))
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        let (seed, position) = self.0.with(py, |sampler| (sampler.seed(), sampler.position()))?;
        Ok(format!("Sampler(seed={seed}, position={position})"))
    }
}
