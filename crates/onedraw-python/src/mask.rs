//! Masks from Python: which tokens may be drawn.

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use onedraw::Row;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::error::{Error, Result};
use crate::value::type_name;

/// Reads the mask of a row with so many logits: 32-bit words of 32 tokens each, lowest bit first (as our
/// grammars and those of other engines give it), or one bool per token.
pub fn read(mask: Option<&Bound<'_, PyAny>>, vocabulary: usize) -> Result<Option<Vec<u32>>> {
    let Some(mask) = mask.filter(|mask| !mask.is_none()) else { return Ok(None) };
    let array = mask.py().import("numpy")?.call_method1("asarray", (mask,))?;
    if let Ok(words) = array.extract::<PyReadonlyArray1<'_, u32>>() {
        return Ok(Some(words.as_array().to_vec()));
    }
    if let Ok(words) = array.extract::<PyReadonlyArray1<'_, i32>>() {
        return Ok(Some(words.as_array().iter().map(|word| word.cast_unsigned()).collect()));
    }
    if let Ok(flags) = array.cast::<PyArray1<bool>>() {
        let flags = flags.readonly();
        let count = flags.as_array().len();
        if count != vocabulary {
            return Err(Error::Tensor(format!(
                "the mask has a bool for {count} tokens; this row has {vocabulary}"
            )));
        }
        let mut words = vec![0; count.div_ceil(32)];
        for (token, _) in flags.as_array().iter().enumerate().filter(|(_, is_allowed)| **is_allowed) {
            words[token / 32] |= 1 << (token % 32);
        }
        return Ok(Some(words));
    }
    let shape = array.getattr("shape")?;
    let message = format!(
        "a mask is one row of 32-bit words (dtype uint32), 32 tokens each, or of bools, one a token; not an object of the type {} with the dtype {} and the shape {shape}",
        type_name(mask),
        array.getattr("dtype")?,
    );
    Err(PyTypeError::new_err(message).into())
}

/// Reads the masks of several rows: None, or a list with a mask or None for each row.
pub fn read_each(masks: Option<&Bound<'_, PyAny>>, rows: &[Row<'_>]) -> Result<Vec<Option<Vec<u32>>>> {
    let masks = list(masks, rows.len())?;
    masks.iter().zip(rows).map(|(mask, row)| read(Some(mask), row.len())).collect()
}

/// The masks of so many rows as Python objects; empty if there are none.
pub fn list<'py>(masks: Option<&Bound<'py, PyAny>>, rows: usize) -> Result<Vec<Bound<'py, PyAny>>> {
    let Some(masks) = masks.filter(|masks| !masks.is_none()) else { return Ok(Vec::new()) };
    let list = masks.try_iter().map_err(|_| {
        PyTypeError::new_err(format!(
            "masks are a list with a mask or None for each row, not an object of the type {}",
            type_name(masks)
        ))
    })?;
    let masks = list.collect::<PyResult<Vec<_>>>()?;
    if masks.len() != rows {
        return Err(Error::Tensor(format!(
            "there are {} masks for {rows} rows; give one a row, or None",
            masks.len()
        )));
    }
    Ok(masks)
}
