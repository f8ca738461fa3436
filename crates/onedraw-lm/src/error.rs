//! What can go wrong with a model. Every message names the file, tensor or token.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a model cannot be read or run.
#[derive(Debug)]
#[non_exhaustive]
pub enum ModelError {
    /// A file cannot be read.
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// A file has content that is not valid.
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// The model is of a kind that is not supported.
    Unsupported(String),
    /// A tensor is missing, or not as the configuration says.
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A request cannot be answered.
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

/// The message in one line.
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

// Without `source`: a message includes its cause, and a printed chain of errors would show it twice.
impl std::error::Error for ModelError {}
