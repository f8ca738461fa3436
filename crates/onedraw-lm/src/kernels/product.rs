//! Products of a matrix with the numbers of many positions.
//!
//! Weights are read once for up to [`WIDE`] positions: a few rows of the matrix and a few positions at a time, as many sums as registers hold. How
//! they are grouped changes the speed, and no sum.

use fearless_simd::prelude::*;
use fearless_simd::{Level, Simd, dispatch, f32x16};

use crate::kernels::dot::{Arranged, advanced, folded, padded};
use crate::kernels::weight::{STEP, Weight};

/// Positions that share a reading of the weights.
const WIDE: usize = 8;

/// The products of the rows of `weights` with every position, row by row: `products[row · positions + position]`.
pub(crate) fn products<W: Weight>(level: Level, weights: &[W], positions: &Arranged, products: &mut [f32]) {
    dispatch!(level, simd => all(simd, weights, positions, products));
}

#[inline(always)]
fn all<S: Simd, W: Weight>(simd: S, weights: &[W], positions: &Arranged, products: &mut [f32]) {
    let (length, count) = (positions.length(), positions.len());
    let row = |number: usize| &weights[number * length..(number + 1) * length];
    let rows = products.len() / count.max(1);
    let mut first = 0;
    if count == 1 {
        // One position: many rows at a time, for one sum alone would wait for itself.
        while first + 8 <= rows {
            let rows = std::array::from_fn::<_, 8, _>(
                #[inline(always)]
                |i| row(first + i),
            );
            block::<S, W, 8, 1>(simd, rows, positions, 0, &mut products[first..], 1);
            first += 8;
        }
    }
    while first + 2 <= rows {
        let rows = [row(first), row(first + 1)];
        many::<S, W, 2>(simd, rows, positions, &mut products[first * count..(first + 2) * count]);
        first += 2;
    }
    if first < rows {
        many::<S, W, 1>(simd, [row(first)], positions, &mut products[first * count..]);
    }
}

/// A few rows with all positions.
#[inline(always)]
fn many<S: Simd, W: Weight, const R: usize>(
    simd: S,
    rows: [&[W]; R],
    positions: &Arranged,
    products: &mut [f32],
) {
    let count = positions.len();
    let mut first = 0;
    while first + WIDE <= count {
        block::<S, W, R, WIDE>(simd, rows, positions, first, products, count);
        first += WIDE;
    }
    if first + 4 <= count {
        block::<S, W, R, 4>(simd, rows, positions, first, products, count);
        first += 4;
    }
    while first < count {
        block::<S, W, R, 1>(simd, rows, positions, first, products, count);
        first += 1;
    }
}

/// R rows with P positions from `first` on.
#[inline(always)]
fn block<S: Simd, W: Weight, const R: usize, const P: usize>(
    simd: S,
    rows: [&[W]; R],
    positions: &Arranged,
    first: usize,
    products: &mut [f32],
    count: usize,
) {
    let mut sums = [[f32x16::splat(simd, 0.0); P]; R];
    let numbers: [&[[f32; STEP]]; P] = std::array::from_fn(
        #[inline(always)]
        |p| positions.row(first + p),
    );
    let whole = rows[0].len() / STEP;
    let steps: [&[[W; STEP]]; R] = std::array::from_fn(
        #[inline(always)]
        |r| &rows[r].as_chunks().0[..whole],
    );
    for step in 0..whole {
        for r in 0..R {
            let weights = W::load(simd, &steps[r][step]);
            for p in 0..P {
                sums[r][p] = advanced(simd, sums[r][p], weights, &numbers[p][step]);
            }
        }
    }
    if !rows[0].len().is_multiple_of(STEP) {
        for r in 0..R {
            let weights = W::load(simd, &padded(&rows[r][whole * STEP..]));
            for p in 0..P {
                sums[r][p] = advanced(simd, sums[r][p], weights, &numbers[p][whole]);
            }
        }
    }
    for r in 0..R {
        for p in 0..P {
            products[r * count + first + p] = folded(sums[r][p]);
        }
    }
}
