//! Errors of a device, of a batch, or of a whole step. What is wrong with one row is that row's [`RowError`].

use std::fmt;

use cudarc::driver::DriverError;
use onedraw::{ParamError, RowError};

/// Why nothing could be drawn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum CudaError {
    /// The driver's library is not on this machine.
    NoDriver,
    /// The driver is older than the kernels.
    OldDriver {
        /// The CUDA version it knows, as 1000 · major + 10 · minor.
        found: u32,
        /// The version that is needed.
        needed: u32,
    },
    /// There is no such device.
    NoDevice {
        /// The device asked for.
        ordinal: usize,
        /// How many there are.
        count: usize,
    },
    /// The device is older than the kernels.
    OldDevice {
        /// What it is called.
        name: String,
        /// Its compute capability.
        major: u32,
        /// The second number of it.
        minor: u32,
    },
    /// An address, of logits or of a mask, is null.
    NullAddress,
    /// An address is not memory of the device.
    NotOnDevice {
        /// The address.
        address: u64,
    },
    /// An address, of logits or of a mask, is no multiple of an element's size.
    Misaligned {
        /// The address.
        address: u64,
        /// Bytes of an element.
        size: usize,
    },
    /// A stream is one of another device.
    OtherStream {
        /// The device of the stream.
        ordinal: usize,
        /// The device that draws.
        needed: usize,
    },
    /// The parameters ask for something that only the CPU can do. This version of the library has nothing of the kind
    /// but stages of the user's own, which are [`CudaError::OwnStage`].
    Unsupported {
        /// The stage or the parameter.
        what: String,
    },
    /// The chain has a stage of the user's own.
    OwnStage {
        /// What it is called.
        name: String,
    },
    /// A parameter cannot be used.
    Params(ParamError),
    /// A sequence does not fit the rows.
    Row(RowError),
    /// More than there is room for.
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        given: usize,
        /// The most there may be.
        capacity: usize,
    },
    /// The rows are not as long as the batch was made for.
    Vocabulary {
        /// Logits of a row.
        given: usize,
        /// The batch's vocabulary.
        needed: usize,
    },
    /// The matrix does not have one row for each turn.
    Rows {
        /// Rows of the matrix.
        rows: usize,
        /// Turns of the step.
        turns: usize,
    },
    /// There are no results: nothing is prepared, nothing was launched, or they were read before.
    NoResults,
    /// The driver refused an allocation or a copy.
    Memory(String),
    /// The kernels could not be loaded or launched, or they failed.
    Launch(String),
}

impl CudaError {
    /// The error of an allocation or a copy.
    pub(crate) fn memory(error: DriverError) -> Self {
        Self::Memory(message(error))
    }

    /// The error of anything else.
    pub(crate) fn launch(error: DriverError) -> Self {
        Self::Launch(message(error))
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported { what: what.into() }
    }
}

/// The driver's own message.
fn message(error: DriverError) -> String {
    match error.error_string() {
        Ok(text) => format!("{} ({:?})", text.to_string_lossy(), error.0),
        Err(_) => format!("{:?}", error.0),
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDriver => {
                write!(f, "no NVIDIA driver was found (libcuda): install one, or draw on the CPU")
            }
            Self::OldDriver { found, needed } => {
                write!(
                    f,
                    "the NVIDIA driver knows CUDA {}; {} or later is needed",
                    version(*found),
                    version(*needed)
                )
            }
            Self::NoDevice { ordinal, count } => {
                write!(f, "there is no CUDA device {ordinal}; devices found: {count}")
            }
            Self::OldDevice { name, major, minor } => {
                write!(f, "{name} has compute capability {major}.{minor}; 8.0 or later is needed")
            }
            Self::NullAddress => write!(f, "the address of the logits or of a mask is null"),
            Self::NotOnDevice { address } => {
                write!(f, "the address {address:#x} is not memory of the device that draws")
            }
            Self::Misaligned { address, size } => {
                write!(f, "the address {address:#x} is not a multiple of {size} bytes, an element's size")
            }
            Self::OtherStream { ordinal, needed } => {
                write!(
                    f,
                    "the stream is one of device {ordinal}; device {needed} draws, and needs one of its own"
                )
            }
            Self::Unsupported { what } => {
                write!(f, "{what} is not on the device; draw these rows on the CPU")
            }
            Self::OwnStage { name } => write!(
                f,
                "{name} is a stage of your own, which a device cannot run: draw these rows on the CPU, or make it a \
                 logit_bias or a mask"
            ),
            Self::Params(error) => error.fmt(f),
            Self::Row(error) => error.fmt(f),
            Self::TooMany { what, given, capacity } => {
                write!(f, "{what}: {given} are too many, there is room for {capacity}")
            }
            Self::Vocabulary { given, needed } => {
                write!(f, "the rows have {given} logits; the batch was made for {needed}")
            }
            Self::Rows { rows, turns } => {
                write!(f, "the matrix has {rows} rows for {turns} turns; each turn needs one")
            }
            Self::NoResults => {
                write!(f, "there are no results to read: prepare, then launch, then read the results once")
            }
            Self::Memory(message) => write!(f, "device memory: {message}"),
            Self::Launch(message) => write!(f, "the device failed: {message}"),
        }
    }
}

fn version(version: u32) -> String {
    format!("{}.{}", version / 1000, version % 1000 / 10)
}

impl std::error::Error for CudaError {}

impl From<ParamError> for CudaError {
    fn from(error: ParamError) -> Self {
        Self::Params(error)
    }
}

impl From<RowError> for CudaError {
    fn from(error: RowError) -> Self {
        Self::Row(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let message = |error: CudaError| error.to_string();
        assert_eq!(
            message(CudaError::OldDriver { found: 12080, needed: 13000 }),
            "the NVIDIA driver knows CUDA 12.8; 13.0 or later is needed"
        );
        assert_eq!(
            message(CudaError::unsupported("a later stage")),
            "a later stage is not on the device; draw these rows on the CPU"
        );
        assert_eq!(
            message(CudaError::OtherStream { ordinal: 1, needed: 0 }),
            "the stream is one of device 1; device 0 draws, and needs one of its own"
        );
        assert_eq!(
            message(CudaError::TooMany { what: "sequences", given: 9, capacity: 8 }),
            "sequences: 9 are too many, there is room for 8"
        );
        assert_eq!(message(ParamError::new("top_k", "is odd").into()), "top_k: is odd");
    }
}
