//! Reads `.npy`, NumPy's format for one array: strictly, from any reader, without a second copy of the data.
//!
//! Format versions 1.0, 2.0 and 3.0; dtypes `'<f4'`, `'<f2'` and `'<f8'`, which is rounded to f32; shapes `[V]` (one row) and `[B, V]`,
//! in C order. Anything else is an [`NpyError`] that says what was found and what is allowed.

mod error;
mod header;
#[cfg(test)]
mod tests;

use std::io::Read;

use half::f16;

use crate::matrix::{Element, Elements, Matrix, Values, fill, read_elements, rows_and_vocabulary};

use error::MAX_HEADER_BYTES;
pub use error::{MAGIC, NpyError};

/// The byte orders that are read: little-endian, and "that of the host" if it is the same.
const LITTLE_ENDIAN: &[char] = if cfg!(target_endian = "little") { &['<', '=', '|'] } else { &['<'] };

/// Reads one array up to the end of `reader`.
///
/// Takes at most about three times the memory of what `reader` delivers, even if the header claims more. A
/// vocabulary of 0 or no rows at all is no error here.
pub fn read(mut reader: impl Read) -> Result<Matrix, NpyError> {
    let header = header::parse(&header_text(&mut reader)?)?;
    let dtype = match header.descr.strip_prefix(LITTLE_ENDIAN) {
        Some(dtype @ ("f2" | "f4" | "f8")) => dtype,
        _ => return Err(NpyError::Dtype { descr: Some(header.descr) }),
    };
    if header.fortran_order {
        return Err(NpyError::FortranOrder);
    }
    let (rows, vocabulary) =
        rows_and_vocabulary(&header.shape).ok_or(NpyError::Dimensions { count: header.shape.len() })?;
    let count = rows.checked_mul(vocabulary).ok_or(NpyError::TooLarge)?;
    let (values, is_rounded) = match dtype {
        "f2" => (Values::F16(data::<f16>(&mut reader, count)?), false),
        "f4" => (Values::F32(data::<f32>(&mut reader, count)?), false),
        _ => {
            let numbers = data::<f64>(&mut reader, count)?;
            (Values::F32(numbers.into_iter().map(|number| number as f32).collect()), true)
        }
    };
    let matrix = Matrix::new(rows, vocabulary, values).ok_or(NpyError::TooLarge)?;
    Ok(if is_rounded { matrix.rounded() } else { matrix })
}

/// Everything between the length of the header and the data.
fn header_text(reader: &mut impl Read) -> Result<Vec<u8>, NpyError> {
    let mut start = [0; 8];
    let found = fill(reader, &mut start)?;
    if found < MAGIC.len() || start[..MAGIC.len()] != MAGIC {
        return Err(NpyError::Magic { start: start[..found.min(MAGIC.len())].to_vec() });
    }
    if found < start.len() {
        return Err(NpyError::HeaderCut { found, needed: start.len() + 2 });
    }
    // The length has two bytes in version 1 and four in versions 2 and 3; version 3 also allows UTF-8 in
    // names.
    let mut length = [0; 4];
    let width = match (start[6], start[7]) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        (major, minor) => return Err(NpyError::Version { major, minor }),
    };
    let before = start.len() + width;
    let found = fill(reader, &mut length[..width])?;
    if found < width {
        return Err(NpyError::HeaderCut { found: start.len() + found, needed: before });
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER_BYTES {
        return Err(NpyError::HeaderTooLong { length });
    }
    let mut text = Vec::new();
    reader.take(length as u64).read_to_end(&mut text)?;
    if text.len() < length {
        return Err(NpyError::HeaderCut { found: before + text.len(), needed: before + length });
    }
    Ok(text)
}

/// `count` numbers, and then the end.
fn data<T: Element>(reader: &mut impl Read, count: usize) -> Result<Vec<T>, NpyError> {
    let needed = count.checked_mul(size_of::<T>()).ok_or(NpyError::TooLarge)?;
    match read_elements(reader, count)? {
        Elements::Cut(found) => Err(NpyError::DataCut { found, needed }),
        Elements::All(_) if fill(reader, &mut [0])? > 0 => Err(NpyError::TrailingBytes { needed }),
        Elements::All(values) => Ok(values),
    }
}
