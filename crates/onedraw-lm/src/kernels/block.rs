//! The inner loop of all products: a few rows of a matrix with the inputs of a few positions.
//!
//! ```text
//! for position in 0..POSITIONS:
//!     for row in 0..ROWS:
//!         sums[position][row] = the sixteen sums of the dot product of rows[row] and inputs[position]
//! ```
//!
//! What differs from that:
//!
//! 1. The steps are the outer loop, and all sums advance together. A single sum would wait for its own last
//!    addition; several keep the machine busy, and weights and inputs that were loaded once serve several
//!    sums.
//! 2. The next rows are fetched from memory ahead of their use.
//!
//! Both are exact: each sum still adds the same numbers in the order of [`dot`](super::dot), and no sum takes
//! part in another.

use fearless_simd::f32x16;
use fearless_simd::prelude::*;

use crate::kernels::dot::padded;
use crate::kernels::element::{Element, STEP};
use crate::kernels::lanes::{Lanes, Sums};

/// `sums[position][row]`, their lanes not yet added up. All rows have one length, and the inputs are as long
/// in whole steps. `next_row` is how many weights further on the row begins that is read after this one.
#[inline(always)]
pub(super) fn block<S: Lanes, W: Element, const ROWS: usize, const POSITIONS: usize>(
    simd: S,
    rows: [&[W]; ROWS],
    inputs: [&[[f32; STEP]]; POSITIONS],
    next_row: usize,
) -> [[f32x16<S>; ROWS]; POSITIONS] {
    let mut sums = [[S::Sums::zero(simd); ROWS]; POSITIONS];
    let whole = rows[0].len() / STEP;
    let steps: [&[[W; STEP]]; ROWS] = std::array::from_fn(
        #[inline(always)]
        |row| &rows[row].as_chunks::<STEP>().0[..whole],
    );
    // One step of all rows at a time: no single row can be iterated over.
    #[allow(clippy::needless_range_loop)]
    for step in 0..whole {
        let weights = std::array::from_fn(
            #[inline(always)]
            |row| &steps[row][step],
        );
        advance(simd, &mut sums, weights, &inputs, step, next_row);
    }
    if whole * STEP < rows[0].len() {
        let rest: [[W; STEP]; ROWS] = std::array::from_fn(
            #[inline(always)]
            |row| padded(&rows[row][whole * STEP..]),
        );
        advance(simd, &mut sums, rest.each_ref(), &inputs, whole, 0);
    }
    std::array::from_fn(
        #[inline(always)]
        |position| {
            std::array::from_fn(
                #[inline(always)]
                |row| sums[position][row].lanes(),
            )
        },
    )
}

/// One step of all sums. The inputs of a position are loaded once for all rows.
#[inline(always)]
fn advance<S: Lanes, W: Element, const ROWS: usize, const POSITIONS: usize>(
    simd: S,
    sums: &mut [[S::Sums; ROWS]; POSITIONS],
    weights: [&[W; STEP]; ROWS],
    inputs: &[&[[f32; STEP]]; POSITIONS],
    step: usize,
    next_row: usize,
) {
    let inputs: [(f32x16<S>, f32x16<S>); POSITIONS] = std::array::from_fn(
        #[inline(always)]
        |position| {
            let numbers = &inputs[position][step];
            (f32x16::from_slice(simd, &numbers[..16]), f32x16::from_slice(simd, &numbers[16..]))
        },
    );
    for row in 0..ROWS {
        simd.prefetch(weights[row].as_ptr().wrapping_add(next_row));
        let (even, odd) = W::load(simd, weights[row]);
        for position in 0..POSITIONS {
            let sum = &mut sums[position][row];
            *sum = sum.plus(simd, even, inputs[position].0).plus(simd, odd, inputs[position].1);
        }
    }
}
