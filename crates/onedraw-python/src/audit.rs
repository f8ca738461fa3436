//! Claimed tokens beside those that are drawn.

use numpy::{IntoPyArray, PyArray1};
use onedraw::{ParamError, RowError, Sampler};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{Error, Result, rows_error};
use crate::guarded::released;
use crate::tensor::Logits;
use crate::{mask, params, result};

/// A claimed token beside the one that is drawn.
#[pyclass(module = "onedraw", frozen, eq)]
#[derive(Clone, Copy, PartialEq)]
pub struct Audit(pub onedraw::Audit);

#[pymethods]
impl Audit {
    /// The claimed token.
    #[getter]
    fn token(&self) -> u32 {
        self.0.token
    }

    /// The token that is drawn.
    #[getter]
    fn drawn(&self) -> u32 {
        self.0.drawn
    }

    /// By how much the drawn token wins, in nats; 0 if it is the claimed one, or if that has the better score
    /// and was cut off. In a greedy draw it is a difference of logits. Infinite if the claimed token is masked.
    #[getter]
    fn gap(&self) -> f64 {
        self.0.gap
    }

    /// Whether the chain keeps the claimed token.
    #[getter]
    fn is_kept(&self) -> bool {
        self.0.is_kept
    }

    /// How far the claimed token is outside of what the chain keeps, in nats; 0 if it is kept.
    #[getter]
    fn outside(&self) -> f64 {
        self.0.outside
    }

    /// About how much the logits must change to make the claimed token the drawn one, as a difference of logits.
    #[getter]
    fn distance(&self) -> f64 {
        self.0.distance
    }

    /// Whether the claimed token is the one that is drawn.
    #[getter]
    fn is_drawn(&self) -> bool {
        self.0.is_drawn()
    }

    fn __repr__(&self) -> String {
        let onedraw::Audit { token, drawn, gap, is_kept, outside, .. } = self.0;
        let is_kept = if is_kept { "True" } else { "False" };
        format!("Audit(token={token}, drawn={drawn}, gap={gap:.4}, is_kept={is_kept}, outside={outside:.4})")
    }
}

/// The claimed tokens of a text beside those that are drawn: a sequence of `Audit`, with their numbers as
/// arrays.
#[pyclass(module = "onedraw", frozen, sequence)]
pub struct Audits(Vec<onedraw::Audit>);

impl Audits {
    fn numbers<'py>(
        &self,
        py: Python<'py>,
        number: impl Fn(&onedraw::Audit) -> f64,
    ) -> Bound<'py, PyArray1<f64>> {
        self.0.iter().map(number).collect::<Vec<f64>>().into_pyarray(py)
    }
}

#[pymethods]
impl Audits {
    /// The claimed tokens, int64.
    #[getter]
    fn tokens<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.0.iter().map(|audit| i64::from(audit.token)))
    }

    /// The tokens that are drawn, int64.
    #[getter]
    fn drawn<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, self.0.iter().map(|audit| i64::from(audit.drawn)))
    }

    /// By how much the drawn tokens win, in nats; 0 where the claimed token is drawn.
    #[getter]
    fn gaps<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.numbers(py, |audit| audit.gap)
    }

    /// How far the claimed tokens are outside of what the chain keeps, in nats; 0 where it keeps them.
    #[getter]
    fn outside<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.numbers(py, |audit| audit.outside)
    }

    /// Whether the chain keeps the claimed tokens.
    #[getter]
    fn is_kept<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_iter(py, self.0.iter().map(|audit| audit.is_kept))
    }

    /// About how much the logits must change to make the claimed tokens the drawn ones, as differences of logits.
    #[getter]
    fn distances<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.numbers(py, |audit| audit.distance)
    }

    /// What they say in sum. `false_alarms` is the rate at which honest text in other arithmetic may be called
    /// something else.
    #[pyo3(signature = (false_alarms=onedraw::verdict::FALSE_ALARMS))]
    fn judge(&self, false_alarms: f64) -> Result<Judgement> {
        let onedraw::verdict::Judgement { verdict, chance, beyond, places } =
            onedraw::verdict::judge(&self.0, false_alarms)?;
        Ok(Judgement { verdict: verdict.name(), chance, beyond, places })
    }

    /// How many claimed tokens are drawn.
    #[getter]
    fn equal(&self) -> usize {
        self.0.iter().filter(|audit| audit.is_drawn()).count()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    fn __getitem__(&self, index: isize) -> PyResult<Audit> {
        let place = if index < 0 { index + self.0.len() as isize } else { index };
        let audit = usize::try_from(place).ok().and_then(|place| self.0.get(place));
        audit.copied().map(Audit).ok_or_else(|| {
            PyIndexError::new_err(format!("there are {} tokens; {index} is none of them", self.0.len()))
        })
    }

    fn __repr__(&self) -> String {
        format!("Audits({} of {} tokens equal)", self.equal(), self.0.len())
    }
}

/// What the audits of a text say in sum.
#[pyclass(module = "onedraw", frozen, get_all)]
pub struct Judgement {
    /// "same" (the same model and sampler), "arithmetic" (the same model with other arithmetic) or "other"
    /// (something else).
    verdict: &'static str,
    /// At most the chance that honest text in other arithmetic looks like this or worse.
    chance: f64,
    /// The distance beyond which there are the most tokens too many, as a difference of logits.
    beyond: f64,
    /// The places of the tokens farther away than that, where the verdict is "other".
    places: Vec<usize>,
}

#[pymethods]
impl Judgement {
    fn __repr__(&self) -> String {
        format!("Judgement(verdict={:?}, chance={:.1e})", self.verdict, self.chance)
    }
}

/// Compares the tokens of a text with those that are drawn: what is drawn, by how much it wins, and whether the
/// chain keeps the claimed token.
///
/// Row i of `logits`, [tokens, V], is what the model gave before token i of `tokens`; each draw has the claimed
/// tokens before it as its history, after those that the parameters name. `mask` is a list with the mask of a
/// grammar for each row. `sequence` says which of the `n` texts of a request it is. The other arguments are those
/// of `sample`; the parameters need the seed. Rows that cannot be sampled raise `RowsError`, which carries the
/// results of the others.
///
/// >>> import onedraw, numpy as np
/// >>> rows = np.array([[1.0, 3.5, 0.2, 2.9]] * 3, dtype="f4")
/// >>> sampler = onedraw.Sampler(temperature=0.8, seed=7)
/// >>> tokens = [sampler.sample(row).token for row in rows]
/// >>> onedraw.audit(rows, tokens, temperature=0.8, seed=7)
/// Audits(3 of 3 tokens equal)
/// >>> onedraw.audit(rows, tokens, temperature=0.2, seed=7)[0]
/// Audit(token=3, drawn=1, gap=2.0029, is_kept=True, outside=0.0000)
#[pyfunction]
#[pyo3(signature = (logits, tokens, params=None, *, mask=None, sequence=0, **parameters))]
pub fn audit<'py>(
    logits: &Bound<'py, PyAny>,
    tokens: &Bound<'py, PyAny>,
    params: Option<&Bound<'py, PyAny>>,
    mask: Option<&Bound<'py, PyAny>>,
    sequence: u32,
    parameters: Option<&Bound<'py, PyDict>>,
) -> Result<Audits> {
    let py = logits.py();
    let logits = Logits::read(logits)?;
    let params = params::read(py, params, parameters)?;
    if params.seed.is_none() {
        return Err(ParamError::new("seed", "an audit needs the seed that the tokens were drawn with").into());
    }
    let tokens: Vec<u32> = tokens.try_iter()?.map(|token| result::token(&token?)).collect::<Result<_>>()?;
    let rows = logits.rows();
    if tokens.len() != rows.len() {
        let message = format!("there are {} tokens and {} rows of logits", tokens.len(), rows.len());
        return Err(Error::Tensor(message));
    }
    let masks = mask::read_each(mask, &rows)?;
    let mut sampler = Sampler::sequence(params, sequence)?;
    let audits: Vec<std::result::Result<onedraw::Audit, RowError>> = released(py, || {
        let each = rows.iter().zip(&tokens).enumerate();
        each.map(|(i, (&row, &token))| {
            let audit = match masks.get(i).and_then(Option::as_deref) {
                None => sampler.audit(row, token),
                Some(mask) => sampler.audit_masked(row, mask, token),
            };
            match &audit {
                Ok(audit) => sampler.accept_audited(audit),
                Err(_) => sampler.accept(token),
            }
            audit
        })
        .collect()
    })?;
    if audits.iter().all(std::result::Result::is_ok) {
        return Ok(Audits(audits.into_iter().flatten().collect()));
    }
    let results = audits.into_iter().map(|audit| match audit {
        Ok(audit) => Ok(Ok(Py::new(py, Audit(audit))?.into_any())),
        Err(error) => Ok(Err(error)),
    });
    Err(rows_error(py, results.collect::<PyResult<_>>()?).into())
}
