//! SHA-256: what names weights and a tokenizer in a [trace](crate::trace).

use std::fmt::Write;

use sha2::{Digest, Sha256};

/// The hash of a list of parts. A part that may have any length is preceded by its length, so that no two lists
/// are the same bytes.
#[derive(Default)]
pub(crate) struct Hasher(Sha256);

impl Hasher {
    /// A number, as eight bytes, the lowest first.
    pub(crate) fn number(&mut self, number: usize) {
        self.0.update((number as u64).to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        self.0.update(bytes);
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// The hash in hexadecimal.
    pub(crate) fn finish(self) -> String {
        hexadecimal(&self.0.finalize())
    }
}

/// The SHA-256 of bytes in hexadecimal, as `sha256sum` prints it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing into a string cannot fail.
        _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_other_programs() {
        // printf abc | sha256sum
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), abc);
        // printf '\3\0\0\0\0\0\0\0abc' | sha256sum
        let mut hasher = Hasher::default();
        hasher.text("abc");
        assert_eq!(hasher.finish(), "ce91dc5eec0139adf091900d225971d6ad246a845bad791b5693a9d0d55dd391");
    }
}
