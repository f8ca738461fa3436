//! The results of draws: one token, several tokens, a whole distribution.

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use onedraw::row::MAX_VOCABULARY;
use onedraw::{ParamError, RowError};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyIterator, PyList, PySlice, PyString};

use crate::display::{self, Bar};
use crate::error::{Result, rows_error};
use crate::guarded::released;
use crate::kept::Kept;
use crate::table::Table;
use crate::value::type_name;

/// A token with its logprob (or its logit, in the logits modes) and its rank.
#[pyclass(module = "onedraw", frozen, eq, get_all)]
#[derive(Clone, PartialEq)]
pub struct TokenLogprob {
    /// The id.
    token: u32,
    /// The natural logarithm of its probability; in the logits modes its logit.
    logprob: f64,
    /// 1 + the tokens before it in the order.
    rank: u32,
}

#[pymethods]
impl TokenLogprob {
    #[new]
    fn new(token: u32, logprob: f64, rank: u32) -> Self {
        Self { token, logprob, rank }
    }

    fn __repr__(&self) -> String {
        format!("TokenLogprob(token={}, logprob={:.4}, rank={})", self.token, self.logprob, self.rank)
    }

    fn __getnewargs__(&self) -> (u32, f64, u32) {
        (self.token, self.logprob, self.rank)
    }
}

pub fn token_logprobs(logprobs: &[onedraw::TokenLogprob]) -> Vec<TokenLogprob> {
    logprobs
        .iter()
        .map(|&onedraw::TokenLogprob { token, logprob, rank }| TokenLogprob { token, logprob, rank })
        .collect()
}

/// A drawn token. As an index or an int it is the token's id.
///
/// >>> import onedraw
/// >>> sampled = onedraw.sample([1.5, 0.2, 3.1, -4.0], temperature=0.8, seed=42, logprobs=1)
/// >>> sampled.token, sampled.rank, int(sampled)
/// (2, 1, 2)
#[pyclass(module = "onedraw", frozen)]
pub struct Sampled(pub onedraw::Sampled);

#[pymethods]
impl Sampled {
    /// The token.
    #[getter]
    fn token(&self) -> u32 {
        self.0.token
    }

    /// The seed that drew it.
    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }

    /// The number of output tokens before it.
    #[getter]
    fn position(&self) -> u32 {
        self.0.position
    }

    /// Which of the `n` sequences it belongs to.
    #[getter]
    fn sequence(&self) -> u32 {
        self.0.sequence
    }

    /// The probability with which it was drawn, where `probability` or `logprobs` is set; else None. In the raw
    /// modes a batch gives it only where `probability` is set.
    #[getter]
    fn probability(&self) -> Option<f64> {
        self.0.probability
    }

    /// Its logprob (in the logits modes its logit), where `logprobs` is set; else None.
    #[getter]
    fn logprob(&self) -> Option<f64> {
        self.0.logprob
    }

    /// 1 + the tokens before it in the order, where `logprobs` is set; else None.
    #[getter]
    fn rank(&self) -> Option<u32> {
        self.0.rank
    }

    /// The drawn token, then the best others, where `logprobs` is set; else empty.
    #[getter]
    fn logprobs(&self) -> Vec<TokenLogprob> {
        token_logprobs(&self.0.logprobs)
    }

    /// Mirostat's state mu once the token is accepted; None if mirostat is off.
    #[getter]
    fn mirostat_mu(&self) -> Option<f64> {
        self.0.mirostat_mu
    }

    /// The tokens that could have been drawn, where `kept` asks for them; else None.
    #[getter]
    fn kept(&self) -> Option<Kept> {
        self.0.kept.clone().map(Kept)
    }

    /// All fields by name.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("token", self.0.token)?;
        fields.set_item("seed", self.0.seed)?;
        fields.set_item("position", self.0.position)?;
        fields.set_item("sequence", self.0.sequence)?;
        fields.set_item("probability", self.0.probability)?;
        fields.set_item("logprob", self.0.logprob)?;
        fields.set_item("rank", self.0.rank)?;
        let listed = PyList::empty(py);
        for entry in &self.0.logprobs {
            let one = PyDict::new(py);
            one.set_item("token", entry.token)?;
            one.set_item("logprob", entry.logprob)?;
            one.set_item("rank", entry.rank)?;
            listed.append(one)?;
        }
        fields.set_item("logprobs", listed)?;
        fields.set_item("mirostat_mu", self.0.mirostat_mu)?;
        fields.set_item("kept", self.kept().map(|kept| kept.to_dict(py)).transpose()?)?;
        Ok(fields)
    }

    fn __index__(&self) -> u32 {
        self.0.token
    }

    fn __int__(&self) -> u32 {
        self.0.token
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __repr__(&self) -> String {
        let onedraw::Sampled { token, seed, position, sequence, probability, logprob, rank, .. } = self.0;
        let mut text = format!("Sampled(token={token}");
        text += &logprob.map_or(String::new(), |logprob| format!(", logprob={logprob:.4}"));
        text += &probability.map_or(String::new(), |probability| format!(", probability={probability:.4}"));
        text += &rank.map_or(String::new(), |rank| format!(", rank={rank}"));
        text += &format!(", seed={seed}, position={position}");
        if sequence > 0 {
            text += &format!(", sequence={sequence}");
        }
        text + ")"
    }

    fn _repr_html_(&self) -> String {
        let onedraw::Sampled { token, seed, position, ref logprobs, .. } = self.0;
        // In the logits modes the numbers are not logarithms of probabilities, which add up to 1 at most, so
        // they have no bars.
        let sum: f64 = logprobs.iter().map(|entry| onedraw::math::exp(entry.logprob)).sum();
        let is_logprobs = sum < 1.0 + 1e-9;
        let bars = logprobs.iter().filter(|_| is_logprobs).take(display::BARS);
        let bars = bars
            .map(|entry| Bar::of_token(entry.token, onedraw::math::exp(entry.logprob), entry.token == token));
        let bars: Vec<Bar> = bars.collect();
        display::chart(&format!("token {token}"), &bars, &format!("seed {seed}, position {position}"))
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let read = py.get_type::<Self>().getattr("from_json")?;
        let json =
            serde_json::to_string(&self.0).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok((read, (json,)))
    }

    /// Reads what `to_json` wrote.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        serde_json::from_str(text).map(Self).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// All fields as JSON.
    fn to_json(&self) -> PyResult<String> {
        serde_json::to_string(&self.0).map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// The tokens of several rows: a sequence of `Sampled`, with their tokens and numbers as arrays.
///
/// >>> import onedraw, numpy as np
/// >>> onedraw.sample(np.zeros((3, 8), "f4"), temperature=0).tokens
/// array([0, 0, 0])
#[pyclass(module = "onedraw", frozen, sequence)]
pub struct Samples(pub Vec<onedraw::Sampled>);

/// Tokens, logprobs and ranks of [`Samples::table`].
type Arrays<'py> = (Bound<'py, PyArray2<i32>>, Bound<'py, PyArray2<f32>>, Bound<'py, PyArray1<i64>>);

impl Samples {
    /// The results of rows, or an error if rows failed.
    pub fn of(
        py: Python<'_>,
        results: Vec<std::result::Result<onedraw::Sampled, RowError>>,
    ) -> PyResult<Self> {
        if results.iter().all(std::result::Result::is_ok) {
            return Ok(Self(results.into_iter().flatten().collect()));
        }
        let results = results.into_iter().map(|result| match result {
            Ok(sampled) => Ok(Ok(Py::new(py, Sampled(sampled))?.into_any())),
            Err(error) => Ok(Err(error)),
        });
        Err(rows_error(py, results.collect::<PyResult<_>>()?))
    }

    fn numbers<'py>(
        &self,
        py: Python<'py>,
        number: impl Fn(&onedraw::Sampled) -> Option<f64>,
    ) -> Option<Bound<'py, PyArray1<f64>>> {
        Some(self.0.iter().map(number).collect::<Option<Vec<f64>>>()?.into_pyarray(py))
    }
}

#[pymethods]
impl Samples {
    #[new]
    fn new(sampled: Vec<Bound<'_, Sampled>>) -> Self {
        Self(sampled.iter().map(|sampled| sampled.get().0.clone()).collect())
    }

    fn __getnewargs__(&self) -> (Vec<Sampled>,) {
        (self.0.iter().cloned().map(Sampled).collect(),)
    }

    /// The place of the first row with this result.
    fn index(&self, value: &Bound<'_, Sampled>) -> PyResult<usize> {
        let place = self.0.iter().position(|sampled| *sampled == value.get().0);
        place
            .ok_or_else(|| PyValueError::new_err(format!("{} is not among the rows", value.get().__repr__())))
    }

    /// How many rows have this result.
    fn count(&self, value: &Bound<'_, Sampled>) -> usize {
        self.0.iter().filter(|&sampled| *sampled == value.get().0).count()
    }

    /// As an array it is the tokens.
    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        _ = copy;
        match dtype {
            Some(dtype) => self.tokens(py).call_method1("astype", (dtype,)),
            None => Ok(self.tokens(py).into_any()),
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.__getnewargs__().0.into_pyobject(py)?.try_iter()
    }

    /// The tokens, int64.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.0.iter().map(|sampled| i64::from(sampled.token)))
    }

    /// Their logprobs, where all rows ask for `logprobs`; else None.
    #[getter]
    fn logprobs<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.numbers(py, |sampled| sampled.logprob)
    }

    /// The probabilities with which they were drawn, where all rows tell it; else None.
    #[getter]
    fn probabilities<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<f64>>> {
        self.numbers(py, |sampled| sampled.probability)
    }

    /// Their ranks, where all rows ask for `logprobs`; else None.
    #[getter]
    fn ranks<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<i64>>> {
        let ranks = self.0.iter().map(|sampled| sampled.rank.map(i64::from));
        Some(ranks.collect::<Option<Vec<i64>>>()?.into_pyarray(py))
    }

    /// The logprobs of all rows as arrays of one width: the tokens (int32), their logprobs (float32), both with
    /// `best` + 1 columns, and the ranks of the drawn tokens (int64). The first column is the drawn token, the
    /// others are the best tokens in order, the drawn one among them. Where a row lists fewer, ids that it does
    /// not list follow with -inf.
    fn table<'py>(&self, py: Python<'py>, best: usize, vocabulary: usize) -> Result<Arrays<'py>> {
        if best > vocabulary || vocabulary > MAX_VOCABULARY {
            let message = format!("must be at most the vocabulary of {vocabulary}, not {best}");
            return Err(ParamError::new("best", message).into());
        }
        let (draws, shape) = (&self.0, [self.0.len(), best + 1]);
        let Table { tokens, logprobs, ranks } = released(py, || Table::new(draws, best, vocabulary))?;
        let (tokens, logprobs) = (tokens.into_pyarray(py), logprobs.into_pyarray(py));
        Ok((tokens.reshape(shape)?, logprobs.reshape(shape)?, ranks.into_pyarray(py)))
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(slice) = index.cast::<PySlice>() {
            let range = slice.indices(self.0.len() as isize)?;
            let places = (0..range.slicelength as isize).map(|i| (range.start + i * range.step) as usize);
            return Ok(Bound::new(py, Self(places.map(|place| self.0[place].clone()).collect()))?.into_any());
        }
        let outside =
            || PyIndexError::new_err(format!("there are {} rows; {index} is none of them", self.0.len()));
        let index: isize = index.call_method0("__index__")?.extract().map_err(|_| outside())?;
        let place = if index < 0 { index + self.0.len() as isize } else { index };
        let sampled = usize::try_from(place).ok().and_then(|place| self.0.get(place));
        match sampled {
            Some(sampled) => Ok(Bound::new(py, Sampled(sampled.clone()))?.into_any()),
            None => Err(PyIndexError::new_err(format!(
                "there are {} rows; {index} is none of them",
                self.0.len()
            ))),
        }
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __repr__(&self) -> String {
        let tokens: Vec<String> = self.0.iter().take(8).map(|sampled| sampled.token.to_string()).collect();
        let dots = if self.0.len() > 8 { ", ..." } else { "" };
        format!("Samples({} rows, tokens=[{}{dots}])", self.0.len(), tokens.join(", "))
    }

    fn _repr_html_(&self) -> String {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.4}"));
        let rows: Vec<Vec<String>> = self
            .0
            .iter()
            .enumerate()
            .map(|(row, sampled)| {
                vec![
                    row.to_string(),
                    sampled.token.to_string(),
                    number(sampled.probability),
                    number(sampled.logprob),
                    sampled.rank.map_or(String::new(), |rank| rank.to_string()),
                    sampled.seed.to_string(),
                ]
            })
            .collect();
        display::table(&["row", "token", "probability", "logprob", "rank", "seed"], &rows)
    }
}

/// The whole distribution that is drawn from: the kept tokens, the most likely first.
///
/// >>> import onedraw
/// >>> distribution = onedraw.distribution([1.5, 0.2, 3.1, -4.0], top_k=2)
/// >>> distribution.tokens
/// array([2, 0])
/// >>> round(float(distribution.probabilities.sum()), 6)
/// 1.0
#[pyclass(module = "onedraw", frozen)]
pub struct Distribution {
    pub inner: onedraw::Distribution,
}

#[pymethods]
impl Distribution {
    /// Makes a distribution from tokens, their probabilities and the logarithms of these.
    #[new]
    fn new(tokens: &Bound<'_, PyAny>, probabilities: Vec<f64>, logprobs: Vec<f64>) -> Result<Self> {
        let tokens = ids(tokens)?;
        if tokens.len() != probabilities.len() || tokens.len() != logprobs.len() {
            return Err(
                PyValueError::new_err("there are as many probabilities and logprobs as tokens").into()
            );
        }
        Ok(Self { inner: onedraw::Distribution { tokens, probabilities, logprobs } })
    }

    fn __getnewargs__(&self) -> (Vec<u32>, Vec<f64>, Vec<f64>) {
        let onedraw::Distribution { tokens, probabilities, logprobs } = self.inner.clone();
        (tokens, probabilities, logprobs)
    }

    /// The ids, int64: logit descending, then id ascending.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.inner.tokens.iter().map(|&token| i64::from(token)))
    }

    /// Their probabilities. They sum to 1 within 10^-7: the total is of weights with the 24 bits of a
    /// float32.
    #[getter]
    fn probabilities<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.inner.probabilities)
    }

    /// The logarithms of the probabilities.
    #[getter]
    fn logprobs<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_slice(py, &self.inner.logprobs)
    }

    /// The probability of every token of a vocabulary of that size, by id; 0 for removed tokens.
    fn dense<'py>(&self, py: Python<'py>, vocabulary: usize) -> PyResult<Bound<'py, PyArray1<f64>>> {
        if vocabulary > MAX_VOCABULARY {
            let message = format!("a vocabulary has at most {MAX_VOCABULARY} tokens, not {vocabulary}");
            return Err(PyValueError::new_err(message));
        }
        let mut dense = vec![0.0; vocabulary];
        for (&token, &probability) in self.inner.tokens.iter().zip(&self.inner.probabilities) {
            *dense.get_mut(token as usize).ok_or_else(|| {
                PyIndexError::new_err(format!("token {token} is outside a vocabulary of {vocabulary}"))
            })? = probability;
        }
        Ok(dense.into_pyarray(py))
    }

    fn __len__(&self) -> usize {
        self.inner.tokens.len()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().inner == self.inner)
    }

    fn __repr__(&self) -> String {
        let pairs = self.inner.tokens.iter().zip(&self.inner.probabilities).take(5);
        let pairs: Vec<String> =
            pairs.map(|(token, probability)| format!("{token}: {probability:.4}")).collect();
        let dots = if self.inner.tokens.len() > 5 { ", ..." } else { "" };
        format!("Distribution({} tokens, {{{}{dots}}})", self.inner.tokens.len(), pairs.join(", "))
    }

    fn _repr_html_(&self) -> String {
        let pairs = self.inner.tokens.iter().zip(&self.inner.probabilities);
        let bars: Vec<Bar> = pairs
            .take(display::BARS)
            .map(|(&token, &probability)| Bar::of_token(token, probability, false))
            .collect();
        let count = self.inner.tokens.len();
        let rest: f64 = self.inner.probabilities.iter().skip(display::BARS).sum();
        let note = match count.saturating_sub(display::BARS) {
            0 => String::new(),
            more => format!("{more} more tokens with {}", display::percent(rest)),
        };
        display::chart(&format!("{count} tokens can be drawn"), &bars, &note)
    }
}

/// Reads tokens from Python as ids: one token, or any number of them.
pub fn ids(tokens: &Bound<'_, PyAny>) -> Result<Vec<u32>> {
    if tokens.is_instance_of::<PyBytes>() || tokens.is_instance_of::<PyString>() || tokens.is_none() {
        let message = format!("tokens are ids, not an object of the type {}", type_name(tokens));
        return Err(PyTypeError::new_err(message).into());
    }
    // Arrays and tensors of any library.
    let list = if tokens.hasattr("tolist")? { tokens.call_method0("tolist")? } else { tokens.clone() };
    match list.try_iter() {
        Ok(items) => items.map(|item| token(&item?)).collect(),
        Err(_) => Ok(vec![token(&list)?]),
    }
}

/// Reads one token from Python as its id.
pub fn token(object: &Bound<'_, PyAny>) -> Result<u32> {
    // What it nearly always is.
    if let Ok(id) = object.cast_exact::<PyInt>()
        && let Ok(id) = id.extract()
    {
        return Ok(id);
    }
    if object.is_instance_of::<PyBool>() || !object.hasattr("__index__")? {
        let message = format!("a token is an id, not an object of the type {}", type_name(object));
        return Err(PyTypeError::new_err(message).into());
    }
    let id = object.call_method0("__index__")?;
    let outside = || ParamError::new("token", format!("must be in [0, {}], not {id}", u32::MAX));
    Ok(id.extract().map_err(|_| outside())?)
}
