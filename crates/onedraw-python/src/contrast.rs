//! Two rows of logits into one.

use numpy::PyArray1;
use pyo3::prelude::*;

use crate::display;
use crate::error::Result;
use crate::tensor::Logits;

/// How two rows of logits become one: those of an expert and an amateur, or those after two prompts. The
/// result is a row like any other.
///
/// >>> import onedraw
/// >>> onedraw.Contrast.li(0.1, 1.0).apply([2.0, 1.9, -3.0], [2.0, 0.0, -9.0])
/// array([ 0. ,  1.9, -inf], dtype=float32)
#[pyclass(module = "onedraw", frozen)]
pub struct Contrast(onedraw::Contrast);

#[pymethods]
impl Contrast {
    fn __repr__(&self) -> String {
        display::plain(&self.0)
    }

    /// The expert's logits minus those of the amateur at its own temperature, among the tokens at least
    /// `alpha` times as likely as the expert's best.
    #[staticmethod]
    #[pyo3(signature = (alpha=0.1, amateur_temperature=0.5))]
    fn li(alpha: f64, amateur_temperature: f64) -> Result<Self> {
        Ok(Self(onedraw::Contrast::li(alpha, amateur_temperature)?))
    }

    /// The expert's logits, moved further away from those of the amateur.
    #[staticmethod]
    #[pyo3(signature = (alpha=0.1, beta=0.5))]
    fn obrien(alpha: f64, beta: f64) -> Result<Self> {
        Ok(Self(onedraw::Contrast::obrien(alpha, beta)?))
    }

    /// Moves the logits away from those after another prompt, over all tokens: 1 gives the row of the prompt,
    /// 0 that of the other one.
    #[staticmethod]
    fn guidance(scale: f64) -> Result<Self> {
        Ok(Self(onedraw::Contrast::guidance(scale)?))
    }

    /// The logits of the last layer minus those of an earlier one, among the tokens at least `relative_top`
    /// times as likely as the best.
    #[staticmethod]
    #[pyo3(signature = (relative_top=0.1))]
    fn dola(relative_top: f64) -> Result<Self> {
        Ok(Self(onedraw::Contrast::dola(relative_top)?))
    }

    /// The combined row, float32.
    fn apply<'py>(
        &self,
        expert: &Bound<'py, PyAny>,
        amateur: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyArray1<f32>>> {
        let py = expert.py();
        let (expert, amateur) = (Logits::read(expert)?, Logits::read(amateur)?);
        let (expert, amateur) = (expert.row()?, amateur.row()?);
        let mut row = Vec::new();
        py.detach(|| self.0.apply(expert, amateur, &mut row))?;
        Ok(PyArray1::from_vec(py, row))
    }
}
