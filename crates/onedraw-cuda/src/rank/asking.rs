//! What the host asks of a part of a row, laid out as `kernels/question.cuh` has it.

use bytemuck::{Pod, Zeroable};
use onedraw::mass::Softmax;
use onedraw::key::Key;

/// Blocks of threads that answer, at most: the host puts together what each says.
pub(crate) const MOST_BLOCKS: usize = 128;
/// Threads of a block.
pub(crate) const THREADS: u32 = 256;
/// Tokens for which another block of threads is worth its answer.
const TOKENS: usize = 4 * THREADS as usize;
/// Words of an answer of a block of threads.
pub(crate) const ANSWERED: usize = 4;
/// Sums of a histogram, at most.
pub(crate) const BINS: usize = 2048;

/// What is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Asking {
    #[default]
    Summit = 0,
    Emptied = 1,
    Race = 2,
    CountBefore = 3,
    Weigh = 4,
    Total = 5,
    Spread = 6,
    Last = 7,
    Deviations = 8,
    Distances = 9,
    Sketch = 10,
    Band = 11,
    Kept = 12,
    Counts = 13,
    Masses = 14,
    Logit = 15,
}

/// The argument of the kernel. Addresses are device memory.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Ask {
    pub logits: u64,
    pub sequence: u64,
    pub mask: u64,
    pub answers: u64,
    pub bins: u64,
    pub listed: u64,
    pub keys: u64,
    pub head: u64,
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
    pub room: u32,
    pub shift: u32,
    pub bin_count: u32,
    pub is_raw: u32,
}

// As kernels/question.cuh has it; the derives above refuse hidden padding.
const _: () = assert!(size_of::<Ask>() == 144);

impl Ask {
    /// A question about all tokens alive.
    pub(crate) fn new(kind: Asking) -> Self {
        Self { kind: kind as u32, last: number(Key::END), ..Zeroable::zeroed() }
    }

    /// Among the tokens up to `last`, or before it, as the kind has it.
    pub(crate) fn last(self, last: Key) -> Self {
        Self { last: number(last), ..self }
    }

    /// By what a token weighs.
    pub(crate) fn softmax(self, softmax: Softmax) -> Self {
        Self { x_max: softmax.x_max, scale: softmax.scale, ..self }
    }

    /// `bin_count` bins, each 2^`shift` long, from `first` on.
    pub(crate) fn bins(self, first: u64, shift: u32, bin_count: usize) -> Self {
        Self { first, shift, bin_count: bin_count as u32, ..self }
    }

    /// Blocks of threads that go over so many tokens.
    pub(crate) fn blocks(&self) -> usize {
        (self.length as usize).div_ceil(TOKENS).clamp(1, MOST_BLOCKS)
    }

    /// Puts what blocks of threads found together.
    pub(crate) fn merged(&self, answers: &[u64]) -> [u64; ANSWERED] {
        let (words, _) = answers.as_chunks::<ANSWERED>();
        let is = |kind: Asking| self.kind == kind as u32;
        if is(Asking::Race) {
            return words.iter().copied().max().unwrap_or_default();
        }
        let is_largest = [Asking::Summit, Asking::Emptied, Asking::Last, Asking::Logit].into_iter().any(is);
        words.iter().fold([0; ANSWERED], |all, own| {
            std::array::from_fn(|i| if is_largest { all[i].max(own[i]) } else { all[i] + own[i] })
        })
    }
}

/// A key as the kernels have it: the logit's place in the order, then the id.
pub(crate) fn number(key: Key) -> u64 {
    let bits = key.logit().to_bits();
    let place = !(if bits >> 31 == 1 { !bits } else { bits | 0x8000_0000 });
    u64::from(place) << 32 | u64::from(key.token())
}

/// The key of a number that a kernel wrote.
pub(crate) fn key(number: u64) -> Key {
    let bits = !((number >> 32) as u32);
    let logit = f32::from_bits(if bits >> 31 == 1 { bits ^ 0x8000_0000 } else { !bits });
    Key::new(logit, number as u32)
}

/// A score in the order of integers, back as a number.
pub(crate) fn score(order: u64) -> f64 {
    f64::from_bits(if order >> 63 == 1 { order ^ 1 << 63 } else { !order })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_the_order_of_keys() {
        let falling = [f32::MAX, 5.0, 1e-45, 0.0, -1e-45, -1.0, -f32::MAX, f32::NEG_INFINITY];
        let keys: Vec<Key> = falling.iter().flat_map(|&x| [Key::new(x, 3), Key::last_of(x)]).collect();
        for pair in keys.windows(2) {
            assert!(number(pair[0]) < number(pair[1]), "{pair:?}");
        }
        for &own in &keys {
            assert_eq!(key(number(own)), own);
        }
        assert_eq!(number(Key::new(-0.0, 3)), number(Key::new(0.0, 3)));
        assert!(number(Key::new(-f32::MAX, 5)) < number(Key::END));
    }

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
        assert_eq!(Ask::new(Asking::Race).merged(&answers), [3, 10, 1, 0], "the largest pair");
        assert_eq!(Ask::new(Asking::Summit).merged(&answers), [3, 99, 1, 0]);
        assert_eq!(Ask::new(Asking::Spread).merged(&answers), [8, 118, 3, 0]);
        let of = |length| Ask { length, ..Ask::new(Asking::Last) }.blocks();
        assert_eq!((of(1), of(1024), of(1025), of(1 << 20)), (1, 1, 2, 128));
    }
}
