//! Why a `.npy` cannot be read, and the limits that the messages name.

use std::fmt;
use std::io;

/// The first bytes of every `.npy` file.
pub const MAGIC: [u8; 6] = *b"\x93NUMPY";

/// The longest header that is read. NumPy writes 118 bytes for every array that is read here.
pub(super) const MAX_HEADER_BYTES: usize = 1 << 20;

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
        /// The byte of the header where the error is.
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
    Dimensions {
        /// The number of dimensions.
        count: usize,
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
                    "dtype '{}' is not read; allowed are '<f4' (f32), '<f2' (f16) and '<f8' (f64)",
                    descr.escape_debug()
                )
            }
            Self::Dtype { descr: None } => {
                write!(
                    f,
                    "a structured dtype is not read; allowed are '<f4' (f32), '<f2' (f16) and '<f8' (f64)"
                )
            }
            Self::FortranOrder => write!(f, "the array is in Fortran order; allowed is C order"),
            Self::Dimensions { count } => {
                write!(f, "the array has {count} dimensions; allowed are 1 ([V]) and 2 ([B, V])")
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
