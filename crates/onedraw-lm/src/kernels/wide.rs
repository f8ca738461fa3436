//! Products of bfloat16 weights with three positions and more, with the foundation of AVX-512.
//!
//! ```text
//! for each group of four rows:
//!     for position in 0..positions:
//!         for row in group:
//!             products[position · rows + row] = dot(weights[row], inputs[position])
//! ```
//!
//! What differs from that:
//!
//! 1. A tile is four rows with two to four positions: its sums, its inputs and a row's weights are in
//!    registers. After the first tile the rows are in the nearest cache.
//! 2. The next group is fetched from memory evenly over the time of this one. Fetched all at once, the
//!    processor would first wait for memory, and then memory for the processor.
//! 3. The sums of a tile are folded together: folding each by itself would take a quarter of the time of a
//!    short row.
//!
//! All are exact: each dot product is summed by itself in the order of [`dot`](super::dot), and the fold adds
//! the same pairs of numbers.

use std::arch::x86_64::*;

use half::bf16;

use crate::kernels::dot::{Inputs, padded};
use crate::kernels::element::STEP;
use crate::kernels::foundation::{Foundation, load, store};
use crate::kernels::lanes::fetch;

/// Rows of a group.
const ROWS: usize = 4;

/// Positions of a tile at most.
const POSITIONS: usize = 4;

/// The fewest positions for which it is faster than AVX2 alone: fewer wait for memory anyway.
const LEAST: usize = 3;

/// The sums of a tile, position by position, in memory: the compiler, left to pass them from the loop to the
/// fold in registers, keeps some of them in memory within the loop.
type Sums = [[[f32; 16]; ROWS]; POSITIONS];

/// Memory that is to be fetched.
struct Ahead {
    next: *const bf16,
    /// How many weights lie between one fetch and the next.
    stride: usize,
}

impl Ahead {
    #[inline(always)]
    fn fetch(&mut self) {
        fetch(self.next);
        self.next = self.next.wrapping_add(self.stride);
    }
}

/// The products of as many rows as there are in whole groups, as
/// [`products`](super::product::products) has them. Returns how many rows that were.
#[allow(unsafe_code)]
pub(super) fn groups(_: Foundation, weights: &[bf16], inputs: &Inputs, products: &mut [f32]) -> usize {
    if inputs.positions() < LEAST || inputs.length() == 0 {
        return 0;
    }
    // SAFETY: a `Foundation` exists only where the processor has it.
    unsafe { whole_groups(weights, inputs, products) }
}

#[target_feature(enable = "avx512f")]
fn whole_groups(weights: &[bf16], inputs: &Inputs, products: &mut [f32]) -> usize {
    let (length, positions) = (inputs.length(), inputs.positions());
    let rows = products.len() / positions;
    let tiles = positions.div_ceil(POSITIONS);
    let fetches = if tiles < ROWS { ROWS } else { 1 };
    let slots = tiles * length.div_ceil(STEP) * fetches;
    let mut sums = [[[0.0; 16]; ROWS]; POSITIONS];
    for (group, weights) in weights.chunks_exact(ROWS * length).enumerate() {
        let next = weights.as_ptr().wrapping_add(ROWS * length);
        let mut ahead = Ahead { next, stride: (ROWS * length).div_ceil(slots) };
        let mut done = 0;
        for tile in 0..tiles {
            let taken = (positions - done).div_ceil(tiles - tile);
            match (taken, fetches) {
                (4, ROWS) => advance::<4, ROWS>(weights, inputs, done, &mut ahead, &mut sums),
                (3, ROWS) => advance::<3, ROWS>(weights, inputs, done, &mut ahead, &mut sums),
                (2, ROWS) => advance::<2, ROWS>(weights, inputs, done, &mut ahead, &mut sums),
                (4, _) => advance::<4, 1>(weights, inputs, done, &mut ahead, &mut sums),
                _ => advance::<3, 1>(weights, inputs, done, &mut ahead, &mut sums),
            }
            let folded = folded(&sums);
            for (i, folded) in folded.as_chunks::<ROWS>().0[..taken].iter().enumerate() {
                products[(done + i) * rows + group * ROWS..][..ROWS].copy_from_slice(folded);
            }
            done += taken;
        }
    }
    rows / ROWS * ROWS
}

/// The sums of four rows with some positions.
#[target_feature(enable = "avx512f")]
#[inline(never)]
// Indices count in several arrays.
#[allow(clippy::needless_range_loop)]
fn advance<const TAKEN: usize, const FETCHES: usize>(
    weights: &[bf16],
    inputs: &Inputs,
    position: usize,
    ahead: &mut Ahead,
    out: &mut Sums,
) {
    let length = inputs.length();
    let whole = length / STEP;
    let mut rows: [&[[bf16; STEP]]; ROWS] = [&[]; ROWS];
    for row in 0..ROWS {
        rows[row] = &weights[row * length..(row + 1) * length].as_chunks().0[..whole];
    }
    let mut numbers: [&[[f32; STEP]]; TAKEN] = [&[]; TAKEN];
    for i in 0..TAKEN {
        numbers[i] = &inputs.row(position + i)[..whole];
    }
    let upper = _mm512_set1_epi32(0xffff_0000_u32.cast_signed());
    let mut sums = [[_mm512_setzero_ps(); ROWS]; TAKEN];
    for step in 0..whole {
        let mut even = [_mm512_setzero_ps(); TAKEN];
        let mut odd = [_mm512_setzero_ps(); TAKEN];
        for i in 0..TAKEN {
            let halves = numbers[i][step].as_chunks().0;
            (even[i], odd[i]) = (load(&halves[0]), load(&halves[1]));
        }
        for row in 0..ROWS {
            if row < FETCHES {
                ahead.fetch();
            }
            add_products(&rows[row][step], even, odd, upper, &mut sums, row);
        }
    }
    if whole * STEP < length {
        let mut even = [_mm512_setzero_ps(); TAKEN];
        let mut odd = [_mm512_setzero_ps(); TAKEN];
        for i in 0..TAKEN {
            let halves = inputs.row(position + i)[whole].as_chunks().0;
            (even[i], odd[i]) = (load(&halves[0]), load(&halves[1]));
        }
        for row in 0..ROWS {
            let rest = padded(&weights[row * length..(row + 1) * length][whole * STEP..]);
            add_products(&rest, even, odd, upper, &mut sums, row);
        }
    }
    for i in 0..TAKEN {
        for row in 0..ROWS {
            store(sums[i][row], &mut out[i][row]);
        }
    }
}

/// Adds a step of a row. A bfloat16 is the upper half of an f32, as in `Element::load`.
#[target_feature(enable = "avx512f")]
#[inline]
fn add_products<const TAKEN: usize>(
    weights: &[bf16; STEP],
    even: [__m512; TAKEN],
    odd: [__m512; TAKEN],
    upper: __m512i,
    sums: &mut [[__m512; ROWS]; TAKEN],
    row: usize,
) {
    let pairs = _mm512_castps_si512(load(&bytemuck::cast(*weights)));
    let first = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs));
    let second = _mm512_castsi512_ps(_mm512_and_si512(pairs, upper));
    for i in 0..TAKEN {
        sums[i][row] = _mm512_fmadd_ps(first, even[i], sums[i][row]);
        sums[i][row] = _mm512_fmadd_ps(second, odd[i], sums[i][row]);
    }
}

/// The lanes of each sum added up as [`dot::folded`](super::dot::folded) adds them.
#[target_feature(enable = "avx512f")]
#[inline]
fn folded(sums: &Sums) -> [f32; 16] {
    let mut rows = [_mm512_setzero_ps(); ROWS];
    for (row, sum) in rows.iter_mut().enumerate() {
        let [a, b, c, d] = [&sums[0], &sums[1], &sums[2], &sums[3]].map(|sums| &sums[row]);
        *sum = fours(eights(load(a), load(b)), eights(load(c), load(d)));
    }
    let (a, b) = (twos(rows[0], rows[1]), twos(rows[2], rows[3]));
    let mut folded = [0.0; 16];
    store(_mm512_add_ps(_mm512_shuffle_ps::<0x88>(a, b), _mm512_shuffle_ps::<0xdd>(a, b)), &mut folded);
    folded
}

/// The upper eight lanes added to the lower eight: of `a`, then of `b`.
#[target_feature(enable = "avx512f")]
#[inline]
fn eights(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xee>(a, b))
}

/// In each half of `a`, then of `b`, the upper four lanes added to the lower four.
#[target_feature(enable = "avx512f")]
#[inline]
fn fours(a: __m512, b: __m512) -> __m512 {
    _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(a, b), _mm512_shuffle_f32x4::<0xdd>(a, b))
}

/// In each four lanes of `a` and of `b`, the upper two added to the lower two.
#[target_feature(enable = "avx512f")]
#[inline]
fn twos(a: __m512, b: __m512) -> __m512 {
    let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
    let (lower, upper) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
    _mm512_add_ps(_mm512_castpd_ps(lower), _mm512_castpd_ps(upper))
}
