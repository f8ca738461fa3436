//! The file of traces. A full disk must not end a text, so what cannot be written is reported and left out.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use onedraw_lm::Tracer;

use crate::metrics::Metrics;
use crate::model::Model;

/// Appends lines to a file that only its owner can read.
pub(crate) struct TraceFile {
    file: File,
    /// Whether the file may end in the middle of a line.
    is_cut: bool,
    metrics: Metrics,
}

impl TraceFile {
    /// Opens the file, or makes it.
    pub(crate) fn open(path: &Path, metrics: Metrics) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path)?;
        #[cfg(unix)]
        if file.metadata()?.is_file() {
            // It may have been there, with another mode.
            file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
        }
        let mut last = [b'\n'];
        // A pipe has no end to look at.
        if file.metadata()?.is_file() && file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        Ok(Self { file, is_cut: last != *b"\n", metrics })
    }

    /// Writes a line for each text of a model.
    pub(crate) fn tracer(self, model: &Model) -> Tracer<'static> {
        Tracer::new(self, model.llama.sha256(), model.tokenizer.sha256())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_cut {
            self.file.write_all(b"\n")?;
            self.is_cut = false;
        }
        self.is_cut = true;
        self.file.write_all(bytes)?;
        self.is_cut = !bytes.ends_with(b"\n");
        Ok(())
    }
}

impl Write for TraceFile {
    /// Takes everything, also what the file does not take.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.append(bytes) {
            self.metrics.trace_failed();
            tracing::error!(%error, "a line of the trace cannot be written");
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
