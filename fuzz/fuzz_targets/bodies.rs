//! Bodies of requests to the server; see `bodies.rs` above.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../bodies.rs"]
mod bodies;

fuzz_target!(|data: &[u8]| bodies::bodies(data));
