//! A draw over ranks whose messages are changed on the way; see [`onedraw_testkit::fuzz::exchange`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| onedraw_testkit::fuzz::exchange(data));
