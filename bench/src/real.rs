//! Rows that a language model gave.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result, bail};
use onedraw::Row;
use onedraw_cli::npy;

/// The rows of `rows/smollm2-135m-8x49152.npy`.
pub fn rows() -> Result<Vec<Vec<f32>>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("rows/smollm2-135m-8x49152.npy");
    let file = File::open(&path).with_context(|| format!("{} cannot be opened", path.display()))?;
    let matrix = npy::read(file).with_context(|| format!("{} cannot be read", path.display()))?;
    let row = |row| match matrix.row(row) {
        Row::F32(logits) => Ok(logits.to_vec()),
        _ => bail!("the real rows are f32"),
    };
    (0..matrix.rows()).map(row).collect()
}
