//! Rows of awkward lengths by every kernel; see [`onedraw_testkit::fuzz::kernels`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| onedraw_testkit::fuzz::kernels(data));
