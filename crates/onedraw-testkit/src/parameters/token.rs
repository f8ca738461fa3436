//! A strategy for token ids.

use proptest::prelude::*;

/// An id, often one of the first four: histories then hold tokens twice and lists overlap.
pub(super) fn any_token(vocabulary: usize) -> impl Strategy<Value = u32> {
    let vocabulary = vocabulary as u32;
    prop_oneof![0..vocabulary.min(4), 0..vocabulary]
}
