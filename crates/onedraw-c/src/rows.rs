//! Logits, and the masks of grammars, where the caller has them.

use std::ffi::c_void;

use half::{bf16, f16};
use library::Row;

use crate::error::{Failure, Result};
use crate::memory::{Memory, Plain};

/// A type of numbers: `ONEDRAW_F32`, `ONEDRAW_F16` or `ONEDRAW_BF16`.
pub type onedraw_dtype = u32;

/// 32-bit floats.
pub const ONEDRAW_F32: onedraw_dtype = 0;
/// IEEE half precision.
pub const ONEDRAW_F16: onedraw_dtype = 1;
/// bfloat16.
pub const ONEDRAW_BF16: onedraw_dtype = 2;

/// One row of logits, which is read in place. Set what you do not need to zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_row {
    /// The logits, aligned as their type is. A logit is finite, or -inf for a token that is masked.
    pub logits: *const c_void,
    /// How many there are, at most 1,048,576.
    pub vocabulary: usize,
    /// Their type; zero is `ONEDRAW_F32`.
    pub dtype: onedraw_dtype,
    /// The 32-bit words of the mask, at least (vocabulary + 31) / 32; 0 without a mask.
    pub mask_words: u32,
    /// The tokens that may be drawn, 32 in each word, lowest bit first; NULL: all.
    pub mask: *const u32,
}

/// Several rows: a matrix in one buffer, whose rows may have something between them, or a pointer to each row. Set
/// what you do not need to zero.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct onedraw_rows {
    /// The first logit of the first row, aligned as its type is; NULL if there are `pointers`.
    pub logits: *const c_void,
    /// How many rows there are.
    pub count: usize,
    /// The logits of a row, at most 1,048,576.
    pub vocabulary: usize,
    /// How many logits the beginnings of two rows are apart; zero is the same as `vocabulary`, and goes with
    /// `pointers`.
    pub stride: usize,
    /// The type of the logits; zero is `ONEDRAW_F32`.
    pub dtype: onedraw_dtype,
    /// The 32-bit words of every mask, at least (vocabulary + 31) / 32; 0 without masks.
    pub mask_words: u32,
    /// A mask for each row, or NULL for a row without one; NULL: no row has one.
    pub masks: *const *const u32,
    /// A pointer to the first logit of each row, where they are not in one buffer; NULL: they are.
    pub pointers: *const *const c_void,
}

impl Plain for onedraw_row {}
impl Plain for onedraw_rows {}

/// A row, and its mask if there is one.
#[derive(Clone, Copy)]
pub(crate) struct Masked<'a> {
    pub row: Row<'a>,
    pub mask: Option<&'a [u32]>,
}

/// Logits of some type.
fn logits<'a>(
    memory: Memory<'a>,
    pointer: *const c_void,
    length: usize,
    dtype: onedraw_dtype,
) -> Result<Row<'a>> {
    Ok(match dtype {
        ONEDRAW_F32 => Row::F32(memory.array(pointer.cast::<f32>(), length, "logits")?),
        ONEDRAW_F16 => Row::F16(memory.array(pointer.cast::<f16>(), length, "logits")?),
        ONEDRAW_BF16 => Row::Bf16(memory.array(pointer.cast::<bf16>(), length, "logits")?),
        other => {
            let message =
                format!("must be ONEDRAW_F32 (0), ONEDRAW_F16 (1) or ONEDRAW_BF16 (2), not {other}");
            return Err(Failure::argument("dtype", message));
        }
    })
}

fn mask<'a>(memory: Memory<'a>, pointer: *const u32, words: u32) -> Result<Option<&'a [u32]>> {
    match pointer.is_null() {
        true => Ok(None),
        false => Ok(Some(memory.array(pointer, words as usize, "mask")?)),
    }
}

/// Reads one row.
pub(crate) fn read_row<'a>(memory: Memory<'a>, row: *const onedraw_row) -> Result<Masked<'a>> {
    let row = memory.value(row, "row")?;
    if row.mask.is_null() && row.mask_words != 0 {
        return Err(Failure::argument("mask", format_args!("is NULL, and mask_words is {}", row.mask_words)));
    }
    Ok(Masked {
        row: logits(memory, row.logits, row.vocabulary, row.dtype)?,
        mask: mask(memory, row.mask, row.mask_words)?,
    })
}

/// Several rows.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a> {
    memory: Memory<'a>,
    place: Place<'a>,
    masks: &'a [*const u32],
    mask_words: u32,
}

/// Where the rows are.
#[derive(Clone, Copy)]
enum Place<'a> {
    Buffer(library::Rows<'a>),
    Pointers { rows: &'a [*const c_void], vocabulary: usize, dtype: onedraw_dtype },
}

/// Reads rows.
pub(crate) fn read_rows<'a>(memory: Memory<'a>, rows: *const onedraw_rows) -> Result<Matrix<'a>> {
    let rows = memory.value(rows, "rows")?;
    let place = match rows.pointers.is_null() {
        true => Place::Buffer(buffer(memory, &rows)?),
        false => {
            Place::Pointers { rows: pointers(memory, &rows)?, vocabulary: rows.vocabulary, dtype: rows.dtype }
        }
    };
    let onedraw_rows { count, mask_words, masks, .. } = rows;
    if masks.is_null() && mask_words != 0 {
        return Err(Failure::argument("masks", format_args!("is NULL, and mask_words is {mask_words}")));
    }
    let masks = if masks.is_null() { &[][..] } else { memory.array(masks, count, "masks")? };
    Ok(Matrix { memory, place, masks, mask_words })
}

fn buffer<'a>(memory: Memory<'a>, rows: &onedraw_rows) -> Result<library::Rows<'a>> {
    let &onedraw_rows { logits: pointer, count, vocabulary, stride, dtype, .. } = rows;
    let stride = if stride == 0 { vocabulary } else { stride };
    let length =
        count.checked_sub(1).map_or(Some(0), |others| stride.checked_mul(others)?.checked_add(vocabulary));
    let too_large = || Failure::argument("rows", "are more than memory can hold");
    let data = logits(memory, pointer, length.ok_or_else(too_large)?, dtype)?;
    library::Rows::new(data, count, vocabulary, stride).ok_or_else(|| {
        Failure::argument(
            "stride",
            format_args!("must be at least the vocabulary ({vocabulary}), not {stride}"),
        )
    })
}

fn pointers<'a>(memory: Memory<'a>, rows: &onedraw_rows) -> Result<&'a [*const c_void]> {
    let unused = |name| Err(Failure::argument(name, "must be zero where there are pointers"));
    if !rows.logits.is_null() {
        return unused("logits");
    }
    if rows.stride != 0 {
        return unused("stride");
    }
    memory.array(rows.pointers, rows.count, "pointers")
}

impl<'a> Matrix<'a> {
    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        match self.place {
            Place::Buffer(rows) => rows.len(),
            Place::Pointers { rows, .. } => rows.len(),
        }
    }

    /// One of the rows.
    pub(crate) fn row(&self, index: usize) -> Result<Masked<'a>> {
        let row = match self.place {
            Place::Buffer(rows) => rows.row(index),
            Place::Pointers { rows, vocabulary, dtype } => {
                logits(self.memory, rows[index], vocabulary, dtype)?
            }
        };
        let mask = match self.masks.get(index) {
            Some(&pointer) => mask(self.memory, pointer, self.mask_words)?,
            None => None,
        };
        Ok(Masked { row, mask })
    }

    /// The rows, where they must be in one buffer and have no masks.
    pub(crate) fn bare_buffer(&self) -> Result<library::Rows<'a>> {
        let Place::Buffer(rows) = self.place else {
            return Err(Failure::argument("pointers", "must be NULL here; the rows must be in one buffer"));
        };
        match self.masks.iter().all(|mask| mask.is_null()) {
            true => Ok(rows),
            false => Err(Failure::argument("masks", "must be NULL here; a prompt has no grammar")),
        }
    }

    /// The rows, where none may have a mask; `instead` says what has the masks.
    pub(crate) fn unmasked(&self, instead: &str) -> Result<Vec<Row<'a>>> {
        let row = |index| match self.row(index)? {
            Masked { row, mask: None } => Ok(row),
            _ => Err(Failure::argument("masks", format_args!("must be NULL here; {instead}"))),
        };
        (0..self.len()).map(row).collect()
    }
}
