//! One shard of a vocabulary, in the process that holds it.

use crate::engine::edits::ChainEdits;
use crate::engine::wire;
use crate::logits::query::Question;
use crate::logits::slice::Slice;
use crate::numeric::float_mode::Standard;
use crate::numeric::noise::Noise;

/// One shard's part of a row, loaded and edited, ready to answer. Made by
/// [`Sampler::shard`](crate::Sampler::shard).
pub struct Shard<'a> {
    slice: Slice<'a, ChainEdits<'a>>,
    noise: Noise,
}

impl<'a> Shard<'a> {
    pub(crate) fn new(slice: Slice<'a, ChainEdits<'a>>, noise: Noise) -> Self {
        Self { slice, noise }
    }

    /// The reply to a question, both as messages. A question that cannot be read, or belongs to another draw,
    /// gets a reply that says so, and the draw ends with an error that names this shard.
    pub fn reply(&mut self, question: &[u8]) -> Vec<u8> {
        let _mode = Standard::enter();
        let Self { slice, noise } = self;
        wire::reply(*noise, slice.held(), question, |question, lists| match question {
            Question::Narrow(narrow) if !slice.has_segment(narrow.segment) => {
                Err(format!("the chain has no segment {}", narrow.segment))
            }
            question => Ok(question.answer(slice, lists)),
        })
    }
}
