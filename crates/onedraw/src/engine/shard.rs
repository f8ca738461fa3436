//! One shard of a vocabulary, in the process that holds it.
//!
//! Blocks and noise use global ids, so a shard that holds any run of the vocabulary answers questions about
//! its tokens, and the merged answers of all shards are those of the whole row. Each question is one round:
//! it is sent to every shard, and each shard sends its reply back.
//!
//! | rounds of a draw | question | bytes out, bytes back, each shard |
//! |---|---|---|
//! | over ranks, at first | the opening, which answers most of the questions below | 0, up to 1006 |
//! | always | the first token, the lowest bad logit | 1, 14 |
//! | unless greedy | the race's winner | 29, 17 |
//! | top-k up to 128 | the k best keys, before the race | 5, 5 + 8·k |
//! | top-k above | how many tokens come before it; if it is rejected, the k best keys, once | 13, 5, then 5, 5 + 8·k |
//! | top-p | intervals of the mass before it and of the total, once or twice | 21, 33 |
//! | top-p, if the intervals cannot tell, and after another truncation | both masses | 2 · 17, 2 · 9 |
//! | a cut by mass | a sketch, then one or two bands of n keys | 9, 22,529, then 33, 13 + 8·n |
//! | a cut by mass that no band holds, or a k above 1,024 | five histograms | 5 · 19, up to 2 · 16,385 + 3 · 8,193 |
//! | epsilon, top-a, mirostat 2 | an interval of the total, and if it cannot tell, the total | 21, 33, then 17, 9 |
//! | eta (if the interval cannot tell), dynatemp | count, mass and entropy | 17, 21 |
//! | top-n-sigma | the last token, then sums of deviations | 9, 9, then 17, 29 |
//! | typical | the entropy, a sketch and bands, then what goes, if anything does | 17, 21, then as above, then 17, 14 |
//! | typical, if no band holds its end | three histograms of distances | 3 · 43, 2 · 16,385 + 8,193 |
//! | XTC, if its coin says yes | the total, the last top choice, then what goes | 17, 9, then 9, 9, then 17, 14 |
//! | mirostat 1 | the hundred best keys | 5, 805 |
//! | mirostat, after the draw | what was kept, and its mass | as for top-k or for epsilon |
//! | smoothing | the bend | 29, 14 |
//! | a user's own stage | the mass, all keys, then the change | 17, 9, then 9, 5 + 8·V, then 5 + 8 per token that it edits or 5 + 4 per token that it keeps, 14 |
//! | a later segment of the chain | what the operations so far left, and the edits | 29, 14 |
//!
//! The bytes are those of one shard, without the headers of the messages (34 and 42): a byte for the kind,
//! then the numbers at their width. min-p needs no round. A rejected winner repeats the rounds from the race
//! on.

use crate::engine::edits::ChainEdits;
use crate::engine::wire;
use crate::logits::answer::Held;
use crate::logits::query::Question;
use crate::logits::slice::Slice;
use crate::numeric::float_mode::Standard;
use crate::numeric::mass::Softmax;
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

    /// The tokens that the shard holds.
    pub fn held(&self) -> Held {
        self.slice.held()
    }

    /// The reply to a question, both as messages. A question that cannot be read, or belongs to another draw,
    /// gets a reply that says so, and the draw ends with an error that names this shard.
    pub fn reply(&mut self, question: &[u8]) -> Vec<u8> {
        let _mode = Standard::enter();
        let Self { slice, noise } = self;
        wire::reply(*noise, slice.held(), question, |question, lists| {
            if let Question::Narrow(narrow) = question
                && !slice.has_segment(narrow.segment)
            {
                return Err(format!("the chain has no segment {}", narrow.segment));
            }
            // Sums are bounded by the largest logit of the row. A question about another row could overflow
            // them.
            if let Some(Softmax { x_max, .. }) = question.softmax()
                && x_max < slice.x_max()
            {
                return Err(format!(
                    "the question takes {x_max} for the largest logit, here {}",
                    slice.x_max()
                ));
            }
            Ok(question.answer(slice, lists))
        })
    }
}
