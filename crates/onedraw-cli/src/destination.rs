//! A file that results are written to, beside standard output.

use std::fs::OpenOptions;
use std::path::PathBuf;

use anyhow::{Result, anyhow};

/// A file that can be written.
pub struct Destination {
    flag: &'static str,
    path: PathBuf,
    /// Whether the file was created here and is still empty.
    is_empty: bool,
}

impl Destination {
    /// Opens the file before the work begins, so that an error does not come after it. A file that exists
    /// keeps its content until the results are there.
    pub fn open(flag: &'static str, path: PathBuf) -> Result<Self> {
        let is_empty = !path.exists();
        let file = OpenOptions::new().append(true).create(true).open(&path);
        file.map_err(|error| anyhow!("{flag} {}: {error}", path.display()))?;
        Ok(Self { flag, path, is_empty })
    }

    pub fn write(mut self, bytes: &[u8]) -> Result<()> {
        self.is_empty = false;
        std::fs::write(&self.path, bytes)
            .map_err(|error| anyhow!("{} {}: {error}", self.flag, self.path.display()))
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        if self.is_empty {
            // There are no results, so no empty file is left behind.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
