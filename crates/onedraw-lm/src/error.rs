//! What can go wrong with a model: every message names the file, tensor or token.

use std::fmt;
use std::path::{Path, PathBuf};

/// A model that cannot be read or run.
#[derive(Debug)]
#[non_exhaustive]
pub enum ModelError {
    /// A file cannot be read.
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// A file says something that cannot be.
    Malformed {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The model is of a kind that is not known here.
    Unsupported(String),
    /// A tensor is missing or not as the configuration says.
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// What was asked cannot be answered.
    Request(String),
}

impl ModelError {
    pub(crate) fn file(path: &Path, cause: std::io::Error) -> Self {
        Self::File { path: path.to_owned(), cause }
    }

    pub(crate) fn malformed(path: &Path, message: impl fmt::Display) -> Self {
        Self::Malformed { path: path.to_owned(), message: one_line(message) }
    }

    pub(crate) fn unsupported(path: &Path, message: impl fmt::Display) -> Self {
        Self::Unsupported(format!("{}: {}", path.display(), one_line(message)))
    }

    pub(crate) fn tensor(name: &str, message: impl Into<String>) -> Self {
        Self::Tensor { name: name.to_owned(), message: message.into() }
    }
}

/// One line, whatever a cause or a file had to say.
fn one_line(message: impl fmt::Display) -> String {
    message.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

impl fmt::Display for ModelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, cause } => write!(f, "{}: {cause}", path.display()),
            Self::Malformed { path, message } => write!(f, "{}: {message}", path.display()),
            Self::Unsupported(message) | Self::Request(message) => f.write_str(message),
            Self::Tensor { name, message } => write!(f, "tensor `{name}`: {message}"),
        }
    }
}

// Messages hold their causes: whoever prints a chain of errors would print them twice.
impl std::error::Error for ModelError {}
