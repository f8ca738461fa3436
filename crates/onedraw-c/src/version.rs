//! Which version this is.

use std::ffi::{CStr, c_char};

/// The version of the library: "0.1.0".
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no zero in it"),
};

/// The version of the library, such as "0.1.0". The text lives as long as the program. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_version() -> *const c_char {
    VERSION.as_ptr()
}

/// The version of the streams: which token a seed draws. Two libraries with the same number draw the same
/// tokens. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_stream_version() -> u32 {
    library::STREAM_VERSION
}
