//! Text from bytes that arrive in pieces.

/// Makes text of bytes that arrive in pieces. A character that is cut in two waits for its other part.
///
/// Bytes that are not UTF-8 become U+FFFD. All the text together is what [`String::from_utf8_lossy`] makes of
/// all the bytes, wherever they were cut.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// The beginning of an incomplete character, at most three bytes between calls.
    bytes: Vec<u8>,
    text: String,
}

impl Utf8Stream {
    /// Takes the next bytes and returns the text they complete.
    pub fn push(&mut self, bytes: &[u8]) -> &str {
        self.bytes.extend_from_slice(bytes);
        self.text.clear();
        let mut chunks = self.bytes.utf8_chunks().peekable();
        let mut unfinished = 0;
        while let Some(chunk) = chunks.next() {
            self.text.push_str(chunk.valid());
            let bad = chunk.invalid();
            // Invalid bytes at the very end may be the beginning of a character, unless they are invalid
            // whatever follows.
            if chunks.peek().is_none() && str::from_utf8(bad).is_err_and(|error| error.error_len().is_none())
            {
                unfinished = bad.len();
            } else if !bad.is_empty() {
                self.text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.bytes.drain(..self.bytes.len() - unfinished);
        &self.text
    }

    /// Ends the stream. A character that is still incomplete becomes U+FFFD.
    pub fn finish(&mut self) -> &str {
        self.text.clear();
        if !self.bytes.is_empty() {
            self.bytes.clear();
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        &self.text
    }
}
