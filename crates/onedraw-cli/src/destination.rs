//! A file that results go to beside standard output.

use std::fs::OpenOptions;
use std::path::PathBuf;

use anyhow::{Result, anyhow};

/// A file that can be written.
pub struct Destination {
    flag: &'static str,
    path: PathBuf,
}

impl Destination {
    /// Before the work, so that an error does not come after it. What is there stays until there is something better.
    pub fn open(flag: &'static str, path: PathBuf) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        file.map_err(|error| anyhow!("{flag} {}: {error}", path.display()))?;
        Ok(Self { flag, path })
    }

    pub fn write(&self, bytes: &[u8]) -> Result<()> {
        std::fs::write(&self.path, bytes)
            .map_err(|error| anyhow!("{} {}: {error}", self.flag, self.path.display()))
    }
}
