//! The fuzz targets of the readers over the committed corpus: seeds, inputs that reach new code, and every
//! input that once broke a promise. See `fuzz/README.md`.

use onedraw_testkit::fuzz::replay;

#[path = "../../../fuzz/readers.rs"]
mod readers;

#[test]
fn npy() {
    replay("npy", 100, readers::npy);
}

#[test]
fn safetensors() {
    replay("safetensors", 100, readers::safetensors);
}
