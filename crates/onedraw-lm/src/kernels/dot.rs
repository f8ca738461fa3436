//! The dot product: the one order in which this crate adds.
//!
//! ```text
//! sums = [0; 16]
//! for each step of 32 numbers, zeros past the end:
//!     for lane in 0..16: sums[lane] = fma(weights[2·lane],     numbers[2·lane],     sums[lane])
//!     for lane in 0..16: sums[lane] = fma(weights[2·lane + 1], numbers[2·lane + 1], sums[lane])
//! while there is more than one sum: add the upper half of the sums to the lower half
//! ```
//!
//! Neighbours go to one lane, because two 16-bit weights share a 32-bit lane where they lie in the file.

use fearless_simd::f32x16;
use fearless_simd::prelude::*;

use crate::kernels::element::{Element, STEP};
use crate::kernels::lanes::Lanes;
#[cfg(any(test, all(target_arch = "wasm32", target_feature = "simd128")))]
use crate::kernels::widened::Widened;

/// The numbers that a matrix is multiplied with: one row for each position. In every step of thirty-two, the
/// numbers at even places come first; the last step is filled up with zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs {
    /// The numbers from `start` on.
    numbers: Vec<f32>,
    /// Where a cache line began when the rows were set: a vector that lies in two of them takes twice as long to load.
    start: usize,
    length: usize,
    #[cfg(any(test, all(target_arch = "wasm32", target_feature = "simd128")))]
    widened: Widened,
}

impl Inputs {
    /// Takes rows of `length` numbers.
    pub(crate) fn new(rows: &[f32], length: usize) -> Self {
        let mut inputs = Self::default();
        inputs.set(rows, length);
        inputs
    }

    /// Takes other rows instead. Allocates only if they are more numbers than ever before.
    pub(crate) fn set(&mut self, rows: &[f32], length: usize) {
        const CACHE_LINE: usize = 64;
        self.length = length;
        self.numbers.clear();
        let count = rows.len() / length.max(1) * length.next_multiple_of(STEP);
        self.numbers.reserve(count + CACHE_LINE / size_of::<f32>());
        self.start = self.numbers.as_ptr().align_offset(CACHE_LINE).min(CACHE_LINE / size_of::<f32>());
        self.numbers.resize(self.start, 0.0);
        for row in rows.chunks_exact(length.max(1)) {
            let (steps, rest) = row.as_chunks::<STEP>();
            for step in steps {
                self.numbers.extend_from_slice(&even_places_first(step));
            }
            if !rest.is_empty() {
                self.numbers.extend_from_slice(&even_places_first(&padded(rest)));
            }
        }
        #[cfg(any(test, all(target_arch = "wasm32", target_feature = "simd128")))]
        self.widened.set(&self.numbers[self.start..], length.next_multiple_of(STEP));
    }

    /// The numbers in f64, in the same order.
    #[cfg(any(test, all(target_arch = "wasm32", target_feature = "simd128")))]
    pub(super) fn widened(&self) -> &Widened {
        &self.widened
    }

    /// How many numbers a row has, without the zeros.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// How many positions there are.
    pub(crate) fn positions(&self) -> usize {
        (self.numbers.len() - self.start) / self.length.next_multiple_of(STEP).max(1)
    }

    /// The numbers of one position, in whole steps.
    pub(crate) fn row(&self, position: usize) -> &[[f32; STEP]] {
        let steps = self.length.div_ceil(STEP);
        &self.numbers[self.start..].as_chunks().0[position * steps..(position + 1) * steps]
    }
}

fn even_places_first(step: &[f32; STEP]) -> [f32; STEP] {
    std::array::from_fn(|i| step[if i < 16 { 2 * i } else { 2 * (i - 16) + 1 }])
}

/// The sum of the lanes: 8 added to 8, 4 to 4, 2 to 2, 1 to 1.
#[inline(always)]
pub(crate) fn folded<S: Lanes>(lanes: f32x16<S>) -> f32 {
    let (low, high) = lanes.split();
    let (low, high) = (low + high).split();
    let four: [f32; 4] = (low + high).into();
    (four[0] + four[2]) + (four[1] + four[3])
}

/// The dot product of numbers with themselves.
#[inline(always)]
pub(crate) fn squares<S: Lanes>(simd: S, numbers: &[f32]) -> f32 {
    let mut sum = f32x16::splat(simd, 0.0);
    let mut advance = |step: &[f32; STEP]| {
        let (even, odd) = f32::load(simd, step);
        sum = simd.fma(odd, odd, simd.fma(even, even, sum));
    };
    let (steps, rest) = numbers.as_chunks::<STEP>();
    steps.iter().for_each(&mut advance);
    if !rest.is_empty() {
        advance(&padded(rest));
    }
    folded(sum)
}

/// A last step, with zeros past the end.
#[inline(always)]
pub(crate) fn padded<W: Element>(rest: &[W]) -> [W; STEP] {
    let mut step = [W::zeroed(); STEP];
    step[..rest.len()].copy_from_slice(rest);
    step
}
