//! How much memory a text takes, and what mirostat keeps beside it.

use super::Pool;

/// Tokens that every text has room for.
const SHORTEST: usize = 1024;

/// Bytes of the memory of a text of so many tokens.
pub(crate) fn bytes_of_text(tokens: usize) -> usize {
    Pool::size(size_of::<u32>() * tokens.max(SHORTEST))
}

/// Bytes of what mirostat keeps for an output of so many tokens: a number after each, and one before the first.
pub(crate) fn bytes_of_mus(tokens: usize) -> usize {
    Pool::size(size_of::<f64>() * (tokens + 1).max(SHORTEST))
}
