//! Where logits come from: a file, or standard input.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};

use crate::exit::note;
use crate::matrix::{Matrix, fill};
use crate::{npy, safetensors};

/// What is accepted, for messages.
const ACCEPTED: &str = "accepted are .npy (f32, f16, f64), .safetensors with a tensor `logits` (f32, f16, bf16), \
                        and - for a .npy on standard input";

/// Reads all logits of `source`. Every error begins with the name of the source and fits one line.
///
/// `-` is a `.npy` on standard input. The extension of a file says what it is; where it says neither `.npy`
/// nor `.safetensors`, its first bytes decide.
///
/// Numbers of f64, which `np.save` makes of a Python list, are rounded to f32, and a note on standard error says
/// so.
pub fn load(source: &Path) -> Result<Matrix> {
    let (name, matrix) = match source.as_os_str() == "-" {
        true => {
            let matrix = npy::read(io::stdin().lock()).map_err(|error| anyhow!("standard input: {error}"))?;
            ("standard input".to_owned(), matrix)
        }
        false => {
            let name = source.display().to_string();
            (name.clone(), read_file(source).with_context(|| name)?)
        }
    };
    if matrix.is_rounded() {
        note(&format!("{name}: its f64 numbers are rounded to f32"));
    }
    Ok(matrix)
}

fn read_file(path: &Path) -> Result<Matrix> {
    let mut file = File::open(path).map_err(|error| anyhow!("cannot be opened: {error}"))?;
    let is = |extension| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension));
    // The text of the error already names its cause, which a chain of errors would print twice.
    let npy = |reader: &mut dyn Read| npy::read(reader).map_err(|error| anyhow!("{error}"));
    if is("npy") {
        return npy(&mut file);
    }
    if is("safetensors") {
        return safetensors::read(file);
    }
    let mut start = [0; 9];
    let found = fill(&mut file, &mut start).map_err(|error| anyhow!("cannot be read: {error}"))?;
    let start = &start[..found];
    let mut whole = Cursor::new(start).chain(file);
    if start.starts_with(&npy::MAGIC) {
        npy(&mut whole)
    } else if safetensors::is_start(start) {
        safetensors::read(whole)
    } else {
        bail!("neither a .npy nor a .safetensors file; {ACCEPTED}")
    }
}
