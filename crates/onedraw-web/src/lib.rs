//! onedraw in WebAssembly: what the modules of the npm package `onedraw`, in `package/`, call.
//!
//! | module | what it is for |
//! |---|---|
//! | `error` | errors as text, with the kind and the field that the JavaScript error gets |
//! | `params` | parameters as text, and their seed |
//! | `logits` | a row in WebAssembly's memory, which JavaScript writes |
//! | `sampler`, `stop` | the sampler and the stop matcher |
//! | `stories` | the story model; with the feature `stories` alone |
//!
//! Objects cross the border as JSON, arrays of numbers as typed arrays. Seeds are decimal text in both directions: a
//! JavaScript number does not hold them all. `./build` makes one WebAssembly module for each set of features.

mod error;
mod logits;
mod params;
mod sampler;
mod stop;
#[cfg(feature = "stories")]
mod stories;

use wasm_bindgen::prelude::wasm_bindgen;

/// The version of the package.
#[wasm_bindgen]
pub fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// The version of the streams: which token a seed draws.
#[wasm_bindgen]
pub fn stream_version() -> u32 {
    onedraw::STREAM_VERSION
}
