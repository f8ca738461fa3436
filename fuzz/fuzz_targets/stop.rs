//! The stop matcher against a naive search; see [`onedraw_testkit::fuzz::stop`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| onedraw_testkit::fuzz::stop(data));
