//! Files of a model's folder that need not be there.

use std::io::ErrorKind;
use std::path::Path;

use crate::error::ModelError;

/// A file's text, after a byte order mark if there is one. `None`: there is no such file.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<String>, ModelError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(ModelError::file(path, cause)),
    }
}
