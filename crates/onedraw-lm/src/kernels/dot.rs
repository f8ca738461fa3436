//! The dot product: the one order in which this crate sums.
//!
//! Sixteen sums run side by side. Of every thirty-two numbers, lane i takes number 2i, then number 2i + 1, each by one fused multiply-add; past the
//! end are zeros. At last the lanes are added in halves: 8 to 8, 4 to 4, 2 to 2, 1 to 1.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16};

use crate::kernels::weight::{STEP, Weight};

/// Numbers laid out for dot products: of every thirty-two, those of even places first, and zeros up to a whole step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arranged {
    numbers: Vec<f32>,
    length: usize,
}

impl Arranged {
    /// Arranges rows of `length` numbers.
    pub(crate) fn rows(rows: &[f32], length: usize) -> Self {
        let mut arranged = Self::default();
        arranged.set(rows, length);
        arranged
    }

    /// Takes other rows.
    pub(crate) fn set(&mut self, rows: &[f32], length: usize) {
        self.length = length;
        self.numbers.clear();
        for row in rows.chunks_exact(length.max(1)) {
            let (steps, rest) = row.as_chunks::<STEP>();
            for step in steps {
                self.numbers.extend_from_slice(&arranged(step));
            }
            if !rest.is_empty() {
                let mut step = [0.0; STEP];
                step[..rest.len()].copy_from_slice(rest);
                self.numbers.extend_from_slice(&arranged(&step));
            }
        }
    }

    /// How many numbers a row has.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len() / self.length.next_multiple_of(STEP).max(1)
    }

    /// One row, in whole steps.
    pub(crate) fn row(&self, row: usize) -> &[[f32; STEP]] {
        let steps = self.length.div_ceil(STEP);
        &self.numbers.as_chunks().0[row * steps..(row + 1) * steps]
    }
}

fn arranged(step: &[f32; STEP]) -> [f32; STEP] {
    std::array::from_fn(|i| step[if i < 16 { 2 * i } else { 2 * (i - 16) + 1 }])
}

/// The sum of the lanes, in halves.
#[inline(always)]
pub(crate) fn folded<S: Simd>(lanes: f32x16<S>) -> f32 {
    let (low, high) = lanes.split();
    let (low, high) = (low + high).split();
    let four: [f32; 4] = (low + high).into();
    (four[0] + four[2]) + (four[1] + four[3])
}

/// The dot product of numbers with themselves.
#[inline(always)]
pub(crate) fn squares<S: Simd>(simd: S, numbers: &[f32]) -> f32 {
    let mut sum = f32x16::splat(simd, 0.0);
    let mut go_on = |step: &[f32; STEP]| {
        let (even, odd) = f32::load(simd, step);
        sum = odd.mul_add_precise(odd, even.mul_add_precise(even, sum));
    };
    let (steps, rest) = numbers.as_chunks::<STEP>();
    steps.iter().for_each(&mut go_on);
    if !rest.is_empty() {
        go_on(&padded(rest));
    }
    folded(sum)
}

/// One step of one sum.
#[inline(always)]
pub(crate) fn advanced<S: Simd>(
    simd: S,
    sum: f32x16<S>,
    (even, odd): (f32x16<S>, f32x16<S>),
    numbers: &[f32; STEP],
) -> f32x16<S> {
    let sum = even.mul_add_precise(f32x16::from_slice(simd, &numbers[..16]), sum);
    odd.mul_add_precise(f32x16::from_slice(simd, &numbers[16..]), sum)
}

/// A last step, with zeros past the end.
#[inline(always)]
pub(crate) fn padded<W: Weight>(rest: &[W]) -> [W; STEP] {
    let mut step = [W::zeroed(); STEP];
    step[..rest.len()].copy_from_slice(rest);
    step
}
