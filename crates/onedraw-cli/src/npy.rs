//! Reads `.npy`, NumPy's format for one array: strictly, from any reader, without a second copy of the data.
//!
//! Format versions 1.0, 2.0 and 3.0; dtypes `'<f4'` and `'<f2'`; shapes `[V]` (one row) and `[B, V]`,
//! in C order. Anything else is an [`NpyError`] that says what was found and what is allowed.

mod header;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{self, Read};

use half::f16;

use crate::matrix::{Element, Elements, Matrix, Values, fill, read_elements, rows_and_vocabulary};

/// The first bytes of every `.npy` file.
pub const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// The longest header read. NumPy writes 118 bytes for every array that is read here.
const MAX_HEADER_BYTES: usize = 1 << 20;

/// The byte orders read: little-endian, and "that of the host" where it is the same.
const LITTLE_ENDIAN: &[char] = if cfg!(target_endian = "little") { &['<', '=', '|'] } else { &['<'] };

/// Why a `.npy` cannot be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum NpyError {
    /// The first bytes are not [`MAGIC`].
    Magic {
        /// The bytes there are instead, at most six.
        start: Vec<u8>,
    },
    /// A version of the format that is not known here.
    Version {
        /// The number before the dot.
        major: u8,
        /// The number after it.
        minor: u8,
    },
    /// The file ends before the data begins.
    HeaderCut {
        /// The bytes there are.
        found: usize,
        /// The bytes up to the data; at least so many.
        needed: usize,
    },
    /// The header claims to be longer than any that describes an array of numbers.
    HeaderTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// The header is not the literal of a Python dict.
    HeaderSyntax {
        /// The byte of the header where the trouble begins.
        at: usize,
        /// What should stand there.
        expected: &'static str,
    },
    /// A key of the header is unknown, missing or there twice.
    HeaderKey {
        /// The key.
        key: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The numbers are not of a dtype that is read here; `None`: the dtype has fields.
    Dtype {
        /// The dtype as the header writes it.
        descr: Option<String>,
    },
    /// The array is stored column by column.
    FortranOrder,
    /// The array has no dimension, or more than two.
    Rank {
        /// The number of dimensions.
        dimensions: usize,
    },
    /// The size of the array is beyond what can be addressed.
    TooLarge,
    /// The file ends before the data does.
    DataCut {
        /// The bytes of data there are.
        found: u64,
        /// The bytes the shape asks for.
        needed: usize,
    },
    /// The file goes on after the data.
    TrailingBytes {
        /// The bytes the shape asks for.
        needed: usize,
    },
    /// The reader failed.
    Io(io::Error),
}

impl From<io::Error> for NpyError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl fmt::Display for NpyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic { start } if start.is_empty() => write!(f, "not a .npy file: it is empty"),
            Self::Magic { start } => {
                write!(f, "not a .npy file: it begins with")?;
                start.iter().try_for_each(|byte| write!(f, " {byte:02x}"))?;
                write!(f, ", not with")?;
                MAGIC.iter().try_for_each(|byte| write!(f, " {byte:02x}"))?;
                write!(f, " (\\x93NUMPY)")
            }
            Self::Version { major, minor } => {
                write!(f, ".npy version {major}.{minor} is unknown; allowed are 1.0, 2.0 and 3.0")
            }
            Self::HeaderCut { found, needed } => {
                write!(f, "the .npy header is cut short: {found} bytes found, at least {needed} needed")
            }
            Self::HeaderTooLong { length } => {
                write!(f, "the .npy header claims {length} bytes; at most {MAX_HEADER_BYTES} are allowed")
            }
            Self::HeaderSyntax { at, expected } => {
                write!(f, "the .npy header cannot be parsed: expected {expected} at its byte {at}")
            }
            Self::HeaderKey { key, problem } => {
                let key = key.escape_debug();
                write!(
                    f,
                    "the .npy header cannot be parsed: key '{key}' {problem}; \
                     needed are descr, fortran_order and shape"
                )
            }
            Self::Dtype { descr: Some(descr) } => {
                write!(
                    f,
                    "dtype '{}' is not read; allowed are '<f4' (f32) and '<f2' (f16)",
                    descr.escape_debug()
                )
            }
            Self::Dtype { descr: None } => {
                write!(f, "a structured dtype is not read; allowed are '<f4' (f32) and '<f2' (f16)")
            }
            Self::FortranOrder => write!(f, "the array is in Fortran order; allowed is C order"),
            Self::Rank { dimensions } => {
                write!(f, "the array has {dimensions} dimensions; allowed are 1 ([V]) and 2 ([B, V])")
            }
            Self::TooLarge => {
                write!(f, "the shape is too large: its size in bytes does not fit {} bits", usize::BITS)
            }
            Self::DataCut { found, needed } => {
                write!(f, "the data is cut short: {found} bytes found, {needed} needed by the shape")
            }
            Self::TrailingBytes { needed } => {
                write!(f, "bytes follow the data: the shape needs {needed}, and the file must end there")
            }
            Self::Io(error) => write!(f, "cannot be read: {error}"),
        }
    }
}

impl std::error::Error for NpyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// Reads one array up to the end of `reader`.
///
/// Takes about twice the memory of what `reader` delivers at most, whatever the header claims. A vocabulary
/// of 0 or no rows at all is no error here.
pub fn read(mut reader: impl Read) -> Result<Matrix, NpyError> {
    let header = header::parse(&header_text(&mut reader)?)?;
    let half = match header.descr.strip_prefix(LITTLE_ENDIAN) {
        Some("f4") => false,
        Some("f2") => true,
        _ => return Err(NpyError::Dtype { descr: Some(header.descr) }),
    };
    if header.fortran_order {
        return Err(NpyError::FortranOrder);
    }
    let (rows, vocabulary) =
        rows_and_vocabulary(&header.shape).ok_or(NpyError::Rank { dimensions: header.shape.len() })?;
    let count = rows.checked_mul(vocabulary).ok_or(NpyError::TooLarge)?;
    let values = if half {
        Values::F16(data::<f16>(&mut reader, count)?)
    } else {
        Values::F32(data::<f32>(&mut reader, count)?)
    };
    Matrix::new(rows, vocabulary, values).ok_or(NpyError::TooLarge)
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
    // Version 1 has a length of two bytes; 2 made it four, 3 allows UTF-8 in the names of fields.
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
