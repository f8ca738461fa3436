//! Optional files of a model's folder.

use std::io::ErrorKind;
use std::path::Path;

use crate::error::ModelError;

/// The text of a file, without a byte order mark; `None` if there is no such file.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<String>, ModelError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(ModelError::file(path, cause)),
    }
}
