//! A row of logits in WebAssembly's memory.

use onedraw::mass::MAX_VOCABULARY;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::error::{Error, Result};

/// A row that JavaScript writes in place.
#[wasm_bindgen]
pub struct Row {
    pub(crate) values: Vec<f32>,
}

#[wasm_bindgen]
impl Row {
    /// A row of `length` logits, all 0.
    #[wasm_bindgen(constructor)]
    pub fn new(length: usize) -> Result<Self> {
        if length > MAX_VOCABULARY {
            return Err(onedraw::RowError::VocabularyTooLarge { vocabulary: length }.into());
        }
        let mut values = Vec::new();
        values.try_reserve_exact(length).map_err(|error| Error::new("memory", error))?;
        values.resize(length, 0.0);
        Ok(Self { values })
    }

    /// Where the logits begin in the memory.
    pub fn address(&self) -> *const f32 {
        self.values.as_ptr()
    }
}
