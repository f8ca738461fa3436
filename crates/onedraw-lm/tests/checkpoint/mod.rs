//! A safetensors file taken apart, to be put together in other ways.

use std::path::Path;

use serde_json::{Map, Value};

/// The header, and the bytes that its offsets count.
pub struct Checkpoint {
    pub header: Map<String, Value>,
    pub data: Vec<u8>,
}

impl Checkpoint {
    pub fn read(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        Self { header, data: bytes[8 + length..].to_vec() }
    }

    /// Writes the file with so many spaces after the header, which move the tensors.
    pub fn write(&self, path: &Path, spaces: usize) {
        let mut header = serde_json::to_vec(&self.header).unwrap();
        header.resize(header.len().next_multiple_of(8) + spaces, b' ');
        let length = (header.len() as u64).to_le_bytes();
        std::fs::write(path, [&length[..], &header, &self.data].concat()).unwrap();
    }
}
