//! Why a request or a pass fails.

use onedraw::{ParamError, RowError};

use crate::error::ModelError;

/// Why a request was refused, or a pass failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum GenerateError {
    /// A parameter is invalid.
    Param(ParamError),
    /// A parameter names a token that the model does not have.
    Row(RowError),
    /// The model failed or cannot do what was asked.
    Model(ModelError),
    /// A line of the trace cannot be written.
    Trace(std::io::Error),
}

impl std::fmt::Display for GenerateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Param(error) => error.fmt(f),
            Self::Row(error) => error.fmt(f),
            Self::Model(error) => error.fmt(f),
            Self::Trace(error) => write!(f, "the trace cannot be written: {error}"),
        }
    }
}

impl std::error::Error for GenerateError {}

impl From<ParamError> for GenerateError {
    fn from(error: ParamError) -> Self {
        Self::Param(error)
    }
}

impl From<ModelError> for GenerateError {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}
