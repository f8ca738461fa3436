//! The fuzz targets of the readers over the committed corpus: seeds, inputs that reach new code, and every input that
//! once broke a promise. See `fuzz/README.md`.

use std::fs;
use std::path::{Path, PathBuf};

#[path = "../../../fuzz/readers.rs"]
mod readers;

/// Runs `body` over each file of a target's corpus. Files that fail are named.
fn replay(target: &str, least: usize, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let files = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = files.map(|file| file.expect("a file of the corpus").path()).collect();
    paths.sort();
    assert!(paths.len() >= least, "{target}: {} files, at least {least} expected", paths.len());
    let fails = |path: &PathBuf| {
        let data = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        std::panic::catch_unwind(|| body(&data)).is_err()
    };
    let failing: Vec<_> = paths.into_iter().filter(fails).collect();
    assert!(failing.is_empty(), "{target} fails on {failing:#?}");
}

#[test]
fn npy() {
    replay("npy", 100, readers::npy);
}

#[test]
fn safetensors() {
    replay("safetensors", 100, readers::safetensors);
}
