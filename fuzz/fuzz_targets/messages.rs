//! A draw over shards whose messages are changed on the way; see [`onedraw_testkit::fuzz::messages`].
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| onedraw_testkit::fuzz::messages(data));
