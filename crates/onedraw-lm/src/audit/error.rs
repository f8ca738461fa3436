//! Why a text cannot be audited.

use std::fmt;

use onedraw::{ParamError, RowError};

use crate::error::ModelError;
use crate::trace::NotReplayable;

/// Why a text cannot be audited.
#[derive(Debug)]
#[non_exhaustive]
pub enum AuditError {
    /// Its tokens cannot be drawn again from the logits of the text alone.
    NotReplayable(NotReplayable),
    /// The trace contradicts itself.
    Malformed(String),
    /// A constraint is in the trace and was not given, or the other way round.
    Constraint,
    /// A token is not in the vocabulary of the model.
    OutsideVocabulary {
        /// The token.
        token: u32,
        /// The tokens of the model.
        vocabulary: usize,
    },
    /// The text is longer than the context of the model.
    TooLong {
        /// Its tokens.
        length: usize,
        /// The positions of the model.
        context: usize,
    },
    /// A parameter is invalid.
    Param(ParamError),
    /// No token can be drawn at a place of the output.
    Row {
        /// The place.
        place: usize,
        /// Why.
        cause: RowError,
    },
    /// The model failed.
    Model(ModelError),
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReplayable(why) => write!(f, "the text cannot be drawn again: {why}"),
            Self::Malformed(what) => f.write_str(what),
            Self::Constraint => write!(f, "the constraint of the text is needed, and none without one"),
            Self::OutsideVocabulary { token, vocabulary } => {
                write!(f, "token {token} is outside the vocabulary of {vocabulary}")
            }
            Self::TooLong { length, context } => {
                write!(f, "the text has {length} tokens, and the model a context of {context}")
            }
            Self::Param(error) => write!(f, "`params`: {error}"),
            Self::Row { place, cause } => write!(f, "output token {place}: {cause}"),
            Self::Model(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AuditError {}

impl From<ParamError> for AuditError {
    fn from(error: ParamError) -> Self {
        Self::Param(error)
    }
}

impl From<ModelError> for AuditError {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}
