//! Beam search, step by step: a model on the Python side gives the logits.

use numpy::PyArray1;
use onedraw::beam::{self, BeamParams, BeamStyle, Continuation, EarlyStopping, Fate};
use onedraw::{Finish, ParamError, Row, RowError, SamplingParams};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

use crate::error::{Error, Result};
use crate::guarded::{Guarded, in_stage};
use crate::stop::reason_name;
use crate::tensor::Logits;
use crate::{mask, params};

/// A text that was found.
#[pyclass(module = "onedraw", frozen, get_all)]
pub struct Hypothesis {
    /// Its tokens after the prompt, with the one that ended it.
    pub tokens: Vec<u32>,
    /// What it was ranked by: the sum of logprobs, less the penalties of diversity, over the length's power;
    /// of a text drawn without replacement the logprob with its noise.
    pub score: f64,
    /// The sum of the logprobs of its tokens.
    pub logprob: f64,
    /// For a text drawn without replacement, the probability that it is among the draws; else None.
    pub inclusion: Option<f64>,
    /// Why it ended: `eos`, `stop` or `length`; None if the search ended first.
    pub finish_reason: Option<&'static str>,
    /// The text, if there is a tokenizer; else None.
    pub text: Option<String>,
}

#[pymethods]
impl Hypothesis {
    fn __repr__(&self) -> String {
        let what = self
            .text
            .as_ref()
            .map_or_else(|| format!("tokens={:?}", self.tokens), |text| format!("{text:?}"));
        format!("Hypothesis({what}, score={:.4})", self.score)
    }
}

impl Hypothesis {
    pub fn found(found: beam::Hypothesis, text: Option<String>) -> Self {
        let beam::Hypothesis { tokens, score, logprob, finish } = found;
        Self { tokens, score, logprob, inclusion: None, finish_reason: named(finish), text }
    }

    pub fn drawn(drawn: beam::Drawn, text: Option<String>) -> Self {
        let beam::Drawn { tokens, logprob, perturbed, inclusion, finish } = drawn;
        Self {
            tokens,
            score: perturbed,
            logprob,
            inclusion: Some(inclusion),
            finish_reason: named(finish),
            text,
        }
    }
}

fn named(finish: Option<Finish>) -> Option<&'static str> {
    finish.map(|finish| reason_name(finish.reason()))
}

/// A text that has not ended.
#[pyclass(module = "onedraw", frozen, get_all)]
pub struct Beam {
    /// The tokens that it has written.
    tokens: Vec<u32>,
    /// The sum of their logprobs.
    logprob: f64,
    /// The score that it is ordered by.
    score: f64,
}

#[pymethods]
impl Beam {
    fn __repr__(&self) -> String {
        format!("Beam(tokens={:?}, logprob={:.4})", self.tokens, self.logprob)
    }
}

/// What one step did: beam i of the next step is beam `beams[i]` of this step with the token `tokens[i]`.
/// Caches must be reordered by `beams`.
#[pyclass(module = "onedraw", frozen)]
pub struct Expansion(beam::Expansion);

#[pymethods]
impl Expansion {
    /// Where each beam of the next step comes from, int64.
    #[getter]
    fn beams<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.0.branches.iter().map(|branch| branch.beam as i64))
    }

    /// The token that continues it, int64.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.0.branches.iter().map(|branch| i64::from(branch.token)))
    }

    /// The continuations that were considered, the best first: (beam, token, logprob, score, outcome), where
    /// the outcome is `kept`, `ended`, `cut` (by max_tokens) or `dropped`.
    #[getter]
    fn candidates(&self) -> Vec<(usize, u32, f64, f64, &'static str)> {
        let fate = |fate| match fate {
            Fate::Kept => "kept",
            Fate::Ended => "ended",
            Fate::Cut => "cut",
            Fate::Dropped => "dropped",
        };
        let candidates = self.0.candidates.iter();
        candidates
            .map(|candidate| {
                (candidate.beam, candidate.token, candidate.logprob, candidate.score, fate(candidate.fate))
            })
            .collect()
    }

    fn __len__(&self) -> usize {
        self.0.branches.len()
    }

    fn __repr__(&self) -> String {
        let branches: Vec<String> =
            self.0.branches.iter().map(|branch| format!("{}+{}", branch.beam, branch.token)).collect();
        format!("Expansion([{}])", branches.join(", "))
    }
}

/// The settings of the search itself.
pub fn settings(
    width: usize,
    style: &str,
    length_penalty: f64,
    early_stopping: Option<&Bound<'_, PyAny>>,
    groups: usize,
    diversity_penalty: f64,
) -> Result<BeamParams> {
    let style = match style {
        "hf" => BeamStyle::Hf,
        "vllm" => BeamStyle::Vllm,
        "gnmt" => BeamStyle::Gnmt,
        other => {
            return Err(
                ParamError::new("style", format!("must be one of hf, vllm, gnmt, not {other:?}")).into()
            );
        }
    };
    let early_stopping = match early_stopping {
        None => EarlyStopping::Heuristic,
        Some(value) => match (value.cast::<PyBool>(), value.cast::<PyString>()) {
            (Ok(value), _) if value.is_true() => EarlyStopping::Full,
            (Ok(_), _) => EarlyStopping::Heuristic,
            (_, Ok(name)) if name == "never" => EarlyStopping::Never,
            _ => {
                return Err(ParamError::new(
                    "early_stopping",
                    format!("must be True, False or \"never\", not {}", value.repr()?),
                )
                .into());
            }
        },
    };
    Ok(BeamParams { width, style, length_penalty, early_stopping, groups, diversity_penalty })
}

enum Search {
    Best(beam::BeamSearch),
    Drawn(beam::StochasticBeams),
}

impl Search {
    fn count(&self) -> usize {
        match self {
            Self::Best(search) => search.beams().len(),
            Self::Drawn(search) => search.len(),
        }
    }

    fn is_done(&self) -> bool {
        match self {
            Self::Best(search) => search.is_done(),
            Self::Drawn(search) => search.is_done(),
        }
    }

    fn tokens(&self, beam: usize) -> Vec<u32> {
        match self {
            Self::Best(search) => search.tokens(beam).to_vec(),
            Self::Drawn(search) => search.tokens(beam).to_vec(),
        }
    }

    fn step(
        &mut self,
        rows: &[Row<'_>],
        masks: &[Option<&[u32]>],
        continuation: impl FnMut(usize, u32) -> Continuation,
    ) -> std::result::Result<beam::Expansion, RowError> {
        match self {
            Self::Best(search) => search.step(rows, masks, continuation),
            Self::Drawn(search) => search.step(rows, masks, continuation),
        }
    }
}

/// The ids that end a text.
struct Ends {
    eos: Vec<u32>,
    stop: Vec<u32>,
}

impl Ends {
    fn new(params: &SamplingParams) -> Self {
        let eos = if params.ignore_eos { Vec::new() } else { params.eos_token_id.clone() };
        Self { eos, stop: params.stop_token_ids.clone() }
    }

    fn continuation(&self, token: u32) -> Continuation {
        if self.eos.contains(&token) {
            Continuation::Ends(Finish::Eos { token })
        } else if self.stop.contains(&token) {
            Continuation::Ends(Finish::StopToken { token })
        } else {
            Continuation::Goes
        }
    }
}

/// Beam search without a model. The caller computes the logits after each of `beams`, gives them to `step`,
/// and reorders its caches by the result; `finish` gives the best texts. The edits of the parameters apply
/// (masks, bias, penalties, minimum lengths), temperature and truncations do not. Texts end with
/// `eos_token_id`, `stop_token_ids` and `max_tokens`.
///
/// `style` names the system whose rules are used: `hf`, `vllm` or `gnmt`. `early_stopping` is False, True or
/// `"never"`, as in transformers. With `stochastic=True` texts are drawn without replacement instead, and
/// temperature and truncations apply.
///
/// >>> import onedraw, numpy as np
/// >>> search = onedraw.BeamSearch(width=2, max_tokens=3, n=2, eos_token_id=2)
/// >>> while not search.is_done:
/// ...     expansion = search.step(np.tile(np.array([0.5, 0.0, 1.0], "f4"), (len(search), 1)))
/// >>> search.finish()[0].tokens
/// [2]
#[pyclass(module = "onedraw", frozen)]
pub struct BeamSearch {
    search: Guarded<Option<Search>>,
    ends: Ends,
}

impl BeamSearch {
    fn with<T: Send>(&self, py: Python<'_>, ask: impl FnOnce(&mut Search) -> T + Send) -> Result<T> {
        self.search.with(py, |search| search.as_mut().map(ask))?.ok_or_else(over)
    }
}

#[pymethods]
impl BeamSearch {
    #[new]
    #[pyo3(signature = (params=None, *, width=4, style="hf", length_penalty=1.0, early_stopping=None, groups=1, diversity_penalty=0.0, stochastic=false, **parameters))]
    #[allow(clippy::too_many_arguments)] // They are keyword arguments.
    fn new(
        py: Python<'_>,
        params: Option<&Bound<'_, PyAny>>,
        width: usize,
        style: &str,
        length_penalty: f64,
        early_stopping: Option<&Bound<'_, PyAny>>,
        groups: usize,
        diversity_penalty: f64,
        stochastic: bool,
        parameters: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self> {
        let params = params::read(py, params, parameters)?;
        let ends = Ends::new(&params);
        let settings = settings(width, style, length_penalty, early_stopping, groups, diversity_penalty)?;
        let search = match stochastic {
            false => Search::Best(beam::BeamSearch::new(params, settings)?),
            true => Search::Drawn(beam::StochasticBeams::new(params, width)?),
        };
        Ok(Self { search: Guarded::new(Some(search)), ends })
    }

    /// The texts that have not ended, in the order in which `step` takes their rows.
    #[getter]
    fn beams(&self, py: Python<'_>) -> Result<Vec<Beam>> {
        self.with(py, |search: &mut Search| {
            let search = &*search;
            let beam = |place: usize| {
                let (logprob, score) = match search {
                    Search::Best(search) => (search.beams()[place].logprob, search.beams()[place].score),
                    Search::Drawn(search) => search.logprobs(place).unwrap_or_default(),
                };
                Beam { tokens: search.tokens(place), logprob, score }
            };
            (0..search.count()).map(beam).collect()
        })
    }

    /// Whether the search has ended.
    #[getter]
    fn is_done(&self, py: Python<'_>) -> Result<bool> {
        self.search.with(py, |search| search.as_ref().is_none_or(Search::is_done))
    }

    /// Adds one token to every beam. Row i of `logits` is the row after beam i; `masks` has the mask of a
    /// grammar for each row, or None. `continuation` decides what a token does to the text of a beam, if its
    /// id alone does not: a function of the beam's place and the token that returns None, `"goes"`, `"ends"`
    /// or `"forbidden"`.
    #[pyo3(signature = (logits, *, masks=None, continuation=None))]
    fn step(
        &self,
        logits: &Bound<'_, PyAny>,
        masks: Option<&Bound<'_, PyAny>>,
        continuation: Option<Py<PyAny>>,
    ) -> Result<Expansion> {
        let py = logits.py();
        let read = Logits::read(logits)?;
        let rows = read.rows();
        let masks = mask::read_each(masks, &rows)?;
        let masks: Vec<Option<&[u32]>> = masks.iter().map(Option::as_deref).collect();
        let ends = &self.ends;
        let outcome = self.search.with(py, |place| {
            let search = place.as_mut().ok_or_else(over)?;
            if rows.len() != search.count() {
                let message = format!("there are {} rows of logits for {} beams", rows.len(), search.count());
                return Err(Error::Tensor(message));
            }
            let mut trouble = None;
            let expansion =
                search.step(&rows, &masks, |beam, token| match (ends.continuation(token), &continuation) {
                    (Continuation::Goes, Some(function)) => {
                        said(function, beam, token).unwrap_or_else(|error| {
                            trouble.get_or_insert(error);
                            Continuation::Goes
                        })
                    }
                    (continuation, _) => continuation,
                });
            match trouble {
                // The step was made without the function's answer, so the search cannot be continued.
                Some(error) => {
                    *place = None;
                    Err(Error::Python(error))
                }
                None => Ok(expansion?),
            }
        })?;
        Ok(Expansion(outcome?))
    }

    /// The `n` best texts (stochastic: all), the best first. This ends the search.
    fn finish(&self, py: Python<'_>) -> Result<Vec<Hypothesis>> {
        let search = self.search.with(py, Option::take)?;
        match search {
            Some(Search::Best(search)) => {
                Ok(search.finish().into_iter().map(|found| Hypothesis::found(found, None)).collect())
            }
            Some(Search::Drawn(search)) => {
                Ok(search.finish().into_iter().map(|drawn| Hypothesis::drawn(drawn, None)).collect())
            }
            None => Err(over()),
        }
    }

    fn __len__(&self, py: Python<'_>) -> Result<usize> {
        self.search.with(py, |search| search.as_ref().map_or(0, Search::count))
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        let is_over = self.search.with(py, |search| search.is_none())?;
        Ok(if is_over {
            "BeamSearch(over)".to_owned()
        } else {
            format!("BeamSearch({} beams)", self.__len__(py)?)
        })
    }
}

fn over() -> Error {
    Error::Python(PyRuntimeError::new_err("the search is over: it was finished, or a step of it failed"))
}

/// Asks the function in Python what a token does to a text.
fn said(function: &Py<PyAny>, beam: usize, token: u32) -> PyResult<Continuation> {
    Python::attach(|py| {
        // It runs in the middle of a step, so it must not wait for the search.
        let answer = in_stage(|| function.call1(py, (beam, token)))?;
        match answer.extract::<Option<&str>>(py)? {
            None | Some("goes") => Ok(Continuation::Goes),
            Some("ends") => Ok(Continuation::Ends(Finish::StopToken { token })),
            Some("forbidden") => Ok(Continuation::Forbidden),
            Some(other) => {
                let message =
                    format!("a continuation is None, \"goes\", \"ends\" or \"forbidden\", not {other:?}");
                Err(pyo3::exceptions::PyValueError::new_err(message))
            }
        }
    })
}
