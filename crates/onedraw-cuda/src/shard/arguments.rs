//! What the kernel `ask` is asked with, as `kernels/shard/question.cuh` has it.

use bytemuck::{Pod, Zeroable};
use onedraw::key::Key;
use onedraw::mass::Softmax;

use super::change::Change;
use crate::record::shared::{ANSWER_WORDS, ASK_THREADS, count, shared_struct, value};

/// The most thread blocks that answer: the host merges their answers.
pub(crate) const MAX_THREAD_BLOCKS: usize = 128;
/// Tokens that are worth one more thread block, and its answer: four for each thread.
const TOKENS_PER_THREAD_BLOCK: usize = 4 * ASK_THREADS as usize;

/// What is asked: `kernels/record/shared.def` says how each is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum QuestionKind {
    #[default]
    Summit = value("QUESTION_KIND(SUMMIT"),
    Emptied = value("QUESTION_KIND(EMPTIED"),
    Race = value("QUESTION_KIND(RACE"),
    CountBefore = value("QUESTION_KIND(COUNT_BEFORE"),
    Weigh = value("QUESTION_KIND(WEIGH"),
    Total = value("QUESTION_KIND(TOTAL"),
    Spread = value("QUESTION_KIND(SPREAD"),
    Last = value("QUESTION_KIND(LAST"),
    Deviations = value("QUESTION_KIND(DEVIATIONS"),
    Distances = value("QUESTION_KIND(DISTANCES"),
    Sketch = value("QUESTION_KIND(SKETCH"),
    Band = value("QUESTION_KIND(BAND"),
    Kept = value("QUESTION_KIND(KEPT"),
    Counts = value("QUESTION_KIND(COUNTS"),
    Masses = value("QUESTION_KIND(MASSES"),
    Logit = value("QUESTION_KIND(LOGIT"),
}

// Every kind of the list is a variant above.
const _: () = assert!(count("QUESTION_KIND(") == 16);

shared_struct! { "Ask":
    /// The argument of the kernel. Addresses are device memory.
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    pub(crate) struct AskArguments {
        pub logits: u64,
        pub sequence: u64,
        pub mask: u64,
        pub late_mask: u64,
        pub repeats: u64,
        pub desk: u64,
        pub answers: u64,
        pub bins: u64,
        pub key_count: u64,
        pub keys: u64,
        pub first: u64,
        pub last: u64,
        pub factor: f64,
        pub mean: f64,
        pub x_max: f32,
        pub scale: f32,
        pub inner_highest: f32,
        pub inner_lowest: f32,
        pub outer_highest: f32,
        pub kind: u32,
        pub start: u32,
        pub length: u32,
        pub key_capacity: u32,
        pub shift: u32,
        pub bin_count: u32,
        pub is_raw: u32,
        pub is_on_desk: u32,
        pub ahead: u32,
        pub change: Change,
    }
}

impl AskArguments {
    /// A question about all tokens alive.
    pub(crate) fn new(kind: QuestionKind) -> Self {
        Self { kind: kind as u32, last: Key::END.number(), ..Zeroable::zeroed() }
    }

    /// The same about the tokens up to `last`, or before it, as the kind has it.
    pub(crate) fn last(self, last: Key) -> Self {
        Self { last: last.number(), ..self }
    }

    /// The same with these weights.
    pub(crate) fn softmax(self, softmax: Softmax) -> Self {
        Self { x_max: softmax.x_max, scale: softmax.scale, ..self }
    }

    /// The same with `bin_count` bins, each 2^`shift` long, from `first` on.
    pub(crate) fn bins(self, first: u64, shift: u32, bin_count: usize) -> Self {
        Self { first, shift, bin_count: bin_count as u32, ..self }
    }

    /// The thread blocks that answer it.
    pub(crate) fn thread_blocks(&self) -> usize {
        (self.length as usize).div_ceil(TOKENS_PER_THREAD_BLOCK).clamp(1, MAX_THREAD_BLOCKS)
    }

    /// Merges the answers of the thread blocks.
    pub(crate) fn merged(&self, answers: &[u64]) -> [u64; ANSWER_WORDS] {
        let (words, _) = answers.as_chunks::<ANSWER_WORDS>();
        let is = |kind: QuestionKind| self.kind == kind as u32;
        if is(QuestionKind::Race) {
            return words.iter().copied().max().unwrap_or_default();
        }
        let is_largest =
            [QuestionKind::Summit, QuestionKind::Emptied, QuestionKind::Last, QuestionKind::Logit]
                .into_iter()
                .any(is);
        words.iter().fold([0; ANSWER_WORDS], |all, own| {
            std::array::from_fn(
                |i| if is_largest { all[i].max(own[i]) } else { all[i].saturating_add(own[i]) },
            )
        })
    }
}

/// The score of an integer that a kernel coded it as: in the order of integers.
pub(crate) fn score(order: u64) -> f64 {
    f64::from_bits(if order >> 63 == 1 { order ^ 1 << 63 } else { !order })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_come_back() {
        for own in [0.0, 1.5, -2.25, 1e300, -1e300, f64::NEG_INFINITY] {
            let bits = f64::to_bits(own);
            assert_eq!(score(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }), own);
        }
    }

    #[test]
    fn answers_are_put_together() {
        let answers = [3, 9, 1, 0, 3, 10, 1, 0, 2, 99, 1, 0];
        assert_eq!(AskArguments::new(QuestionKind::Race).merged(&answers), [3, 10, 1, 0], "the largest pair");
        assert_eq!(AskArguments::new(QuestionKind::Summit).merged(&answers), [3, 99, 1, 0]);
        assert_eq!(AskArguments::new(QuestionKind::Spread).merged(&answers), [8, 118, 3, 0]);
        let of = |length| AskArguments { length, ..AskArguments::new(QuestionKind::Last) }.thread_blocks();
        assert_eq!((of(1), of(1024), of(1025), of(1 << 20)), (1, 1, 2, 128));
    }
}
