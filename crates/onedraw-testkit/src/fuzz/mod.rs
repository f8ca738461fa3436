//! The bodies of the fuzz targets, as plain functions over bytes, and the replay of their corpus.
//!
//! Any input is allowed; a body panics where a promise is broken and returns otherwise. The targets in
//! `fuzz/` run them on mutated inputs, and tests run them on the committed corpus, so that a fault once found
//! stays found.

mod chain;
mod exchange;
mod given;
mod kernels;
mod messages;
mod params;
mod stop;

use std::fs;
use std::path::{Path, PathBuf};

pub use chain::chain;
pub use exchange::exchange;
pub use kernels::kernels;
pub use messages::messages;
pub use params::params;
pub use stop::stop;

/// Takes an input apart. Past its end everything is 0, so every prefix of an input is an input too.
pub(crate) struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let taken = N.min(self.0.len());
        let mut array = [0; N];
        array[..taken].copy_from_slice(&self.0[..taken]);
        self.0 = &self.0[taken..];
        array
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    /// In 0..`bound`, by one byte; `bound` is 1 to 256.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.u8()) % bound
    }

    /// Up to `most` values.
    pub(crate) fn list<T>(&mut self, most: usize, mut value: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(most + 1)).map(|_| value(self)).collect()
    }
}

/// Runs `body` over each file of a target's corpus, of which there are at least so many. Files that fail are
/// named.
pub fn replay(target: &str, least: usize, body: fn(&[u8])) {
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
