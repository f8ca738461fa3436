//! The reader of `.npy` files; see [`readers::npy`].
#![no_main]

#[path = "../readers.rs"]
#[allow(dead_code, reason = "the other readers have targets of their own")]
mod readers;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| readers::npy(data));
