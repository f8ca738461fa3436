//! The tokens that a draw could have come to.

use numpy::{IntoPyArray, PyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::Result;
use crate::tensor::Logits;

/// The logits of a row after all edits of a chain, as float32; -inf where a token was masked. `Sampler.edited`
/// makes it; `EditedRow(logits)` is for logits that no edit changes, or that were edited elsewhere.
#[pyclass(module = "onedraw", frozen)]
pub struct EditedRow(pub onedraw::EditedRow);

#[pymethods]
impl EditedRow {
    #[new]
    fn new(logits: &Bound<'_, PyAny>) -> Result<Self> {
        let read = Logits::read(logits)?;
        Ok(Self(onedraw::EditedRow::from_edited(read.row()?)))
    }

    /// The logits.
    #[getter]
    fn logits<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, self.0.logits())
    }

    fn __len__(&self) -> usize {
        self.0.logits().len()
    }

    fn __repr__(&self) -> String {
        format!("EditedRow({} logits)", self.0.logits().len())
    }
}

/// The tokens that a chain kept of a row, where the parameter `kept` asks for them.
///
/// >>> import onedraw
/// >>> sampled = onedraw.sample([1.5, 0.2, 3.1, -4.0], top_p=0.9, seed=42, kept="ids")
/// >>> sampled.kept
/// Kept(count=2, last_token=0, last_logit=1.5, ln_mass=0.1839, ids=[0, 2])
#[pyclass(module = "onedraw", frozen)]
pub struct Kept(pub onedraw::Kept);

#[pymethods]
impl Kept {
    /// How many there are.
    #[getter]
    fn count(&self) -> u32 {
        self.0.count
    }

    /// The last of them in the order; None where the set is no prefix of it.
    #[getter]
    fn last_token(&self) -> Option<u32> {
        self.0.last.map(|border| border.token)
    }

    /// The logit of the last of them after all edits; None where the set is no prefix of the order.
    #[getter]
    fn last_logit(&self) -> Option<f32> {
        self.0.last.map(|border| border.logit)
    }

    /// The logarithm of their mass: of the sum of exp((x - x_max) / temperature) over them, with logits after
    /// all edits.
    #[getter]
    fn ln_mass(&self) -> f64 {
        self.0.ln_mass
    }

    /// Their ids in ascending order, where `kept` is "ids"; else None.
    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyArray1<u32>>> {
        self.0.ids.as_ref().map(|ids| PyArray1::from_slice(py, ids))
    }

    /// Whether a token is in the set, which was kept of this row. ValueError if it was kept of another.
    fn contains(&self, row: &EditedRow, token: u32) -> PyResult<bool> {
        self.0.contains(&row.0, token).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// The ids of the set, which was kept of this row, in ascending order: what a summary says, made again.
    /// ValueError if it was kept of another row.
    fn ids_of<'py>(&self, py: Python<'py>, row: &EditedRow) -> PyResult<Bound<'py, PyArray1<u32>>> {
        let ids = self.0.ids(&row.0).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(ids.into_pyarray(py))
    }

    /// All fields by name.
    pub fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("count", self.count())?;
        fields.set_item("last_token", self.last_token())?;
        fields.set_item("last_logit", self.last_logit())?;
        fields.set_item("ln_mass", self.ln_mass())?;
        fields.set_item("ids", self.0.ids.clone())?;
        Ok(fields)
    }

    fn __len__(&self) -> usize {
        self.0.count as usize
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Self>().is_ok_and(|other| other.get().0 == self.0)
    }

    fn __repr__(&self) -> String {
        let onedraw::Kept { count, last, ln_mass, ref ids } = self.0;
        let mut text = format!("Kept(count={count}");
        if let Some(onedraw::Border { token, logit }) = last {
            text += &format!(", last_token={token}, last_logit={logit}");
        }
        text += &format!(", ln_mass={ln_mass:.4}");
        if let Some(ids) = ids {
            let first: Vec<String> = ids.iter().take(8).map(u32::to_string).collect();
            let dots = if ids.len() > 8 { ", ..." } else { "" };
            text += &format!(", ids=[{}{dots}]", first.join(", "));
        }
        text + ")"
    }
}
