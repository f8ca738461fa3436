//! One row through the engine and through the scalar reference; see [`onedraw_testkit::fuzz::chain`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| onedraw_testkit::fuzz::chain(data));
