//! Parameters from JSON; see [`onedraw_testkit::fuzz::params`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| onedraw_testkit::fuzz::params(data));
