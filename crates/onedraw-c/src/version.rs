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

/// The version of the interface, to compare with `onedraw_abi()`. A program that was compiled with a header of this number
/// works with every library of this number that is not older than the header: functions are added, and never removed or
/// changed; structs and numbers stay as they are. What cannot be done so gets another number, and the installed library
/// another name (`libonedraw.so.1`).
pub const ONEDRAW_ABI: u32 = 1;

/// The version of the interface that the library has: its `ONEDRAW_ABI`. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_abi() -> u32 {
    ONEDRAW_ABI
}
