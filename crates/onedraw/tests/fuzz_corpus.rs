//! Runs the bodies of the fuzz targets over the committed corpus: seeds, inputs that reach new code, and
//! every input that once broke a promise. See `fuzz/README.md`.

use onedraw_testkit::fuzz::{self, replay};

#[test]
fn params() {
    replay("params", 100, fuzz::params);
}

#[test]
fn chain() {
    replay("chain", 100, fuzz::chain);
}

#[test]
fn kernels() {
    replay("kernels", 40, fuzz::kernels);
}

#[test]
fn stop() {
    replay("stop", 80, fuzz::stop);
}

#[test]
fn messages() {
    replay("messages", 100, fuzz::messages);
}

#[test]
fn exchange() {
    replay("exchange", 100, fuzz::exchange);
}
