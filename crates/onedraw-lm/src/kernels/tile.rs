//! Products with AVX-512: sixteen dot products at a time.
//!
//! ```text
//! for each group of sixteen rows:
//!     for position in 0..positions:
//!         for row in group:
//!             products[position · rows + row] = dot(weights[row], inputs[position])
//! ```
//!
//! What differs from that:
//!
//! 1. A tile is sixteen rows with one position, eight with two, or four with three or four: 32 registers hold
//!    its sums, its inputs and a row's weights. More positions at a time would not leave registers for the
//!    weights; sixteen rows stay in the nearest cache until the next positions read them again.
//! 2. A tile advances four rows at a time ([`block`](super::block)): the addresses of more rows do not fit
//!    into the registers.
//! 3. The sixteen sums of a tile are folded together: a short row takes few steps, and folding each sum by
//!    itself would take half as long as summing it.
//! 4. The last rows, where they are fewer than sixteen, are copied and followed by rows of zeros.
//!
//! All are exact: each dot product is summed by itself in the order of [`dot`](super::dot), the fold adds the
//! same pairs of numbers, and what the rows of zeros give is not kept.

use fearless_simd::prelude::*;
use fearless_simd::{Avx512, f32x16, i32x16};

use crate::kernels::block::block;
use crate::kernels::dot::Inputs;
use crate::kernels::element::{Element, STEP};

/// Dot products of a tile, and rows of a group.
const TILE: usize = 16;

/// Rows of a block.
const ROWS: usize = 4;

/// The products as [`products`](super::product::products) has them.
#[inline(always)]
pub(super) fn tiles<W: Element>(simd: Avx512, weights: &[W], inputs: &Inputs, products: &mut [f32]) {
    let (length, positions) = (inputs.length(), inputs.positions());
    let rows = products.len() / positions.max(1);
    let (mut last_weights, mut last_products) = (Vec::new(), Vec::new());
    for first in (0..rows).step_by(TILE) {
        let is_whole = first + TILE <= rows;
        if !is_whole {
            last_weights.extend_from_slice(&weights[first * length..rows * length]);
            last_weights.resize(TILE * length, W::zeroed());
            last_products.resize(TILE * positions, 0.0);
        }
        let weights =
            if is_whole { &weights[first * length..(first + TILE) * length] } else { &last_weights };
        let (out, stride) =
            if is_whole { (&mut products[first..], rows) } else { (&mut last_products[..], TILE) };
        let mut done = 0;
        while done < positions {
            let out = &mut out[done * stride..];
            done += match positions - done {
                1 => part::<W, 4, 1>(simd, weights, inputs, done, out, stride),
                2 => part::<W, 2, 2>(simd, weights, inputs, done, out, stride),
                3 => part::<W, 1, 3>(simd, weights, inputs, done, out, stride),
                _ => part::<W, 1, 4>(simd, weights, inputs, done, out, stride),
            };
        }
    }
    for (position, last) in last_products.chunks_exact(TILE).enumerate() {
        let kept = rows % TILE;
        products[(position + 1) * rows - kept..(position + 1) * rows].copy_from_slice(&last[..kept]);
    }
}

/// Sixteen rows with the positions from `position` on, tile by tile, into `out[position · stride + row]`.
/// Returns how many positions that were.
#[inline(always)]
fn part<W: Element, const BLOCKS: usize, const POSITIONS: usize>(
    simd: Avx512,
    rows: &[W],
    inputs: &Inputs,
    position: usize,
    out: &mut [f32],
    stride: usize,
) -> usize {
    let height = BLOCKS * ROWS;
    for first in (0..TILE).step_by(height) {
        let rows = &rows[first * inputs.length()..];
        let sums = folded(simd, tile::<W, BLOCKS, POSITIONS>(simd, rows, inputs, position));
        for i in 0..POSITIONS {
            let place = i * stride + first;
            out[place..place + height].copy_from_slice(&sums[i * height..(i + 1) * height]);
        }
    }
    POSITIONS
}

/// The sums of one tile, position by position.
#[inline(always)]
fn tile<W: Element, const BLOCKS: usize, const POSITIONS: usize>(
    simd: Avx512,
    rows: &[W],
    inputs: &Inputs,
    position: usize,
) -> [f32x16<Avx512>; TILE] {
    let length = inputs.length();
    let inputs = std::array::from_fn::<_, POSITIONS, _>(
        #[inline(always)]
        |i| inputs.row(position + i),
    );
    let zero = f32x16::splat(simd, 0.0);
    let mut blocks = [[[zero; ROWS]; POSITIONS]; TILE / ROWS];
    blocks[0] = block_of(simd, rows, length, 0, inputs);
    // Not a loop, which would keep the sums in memory.
    if BLOCKS > 1 {
        blocks[1] = block_of(simd, rows, length, 1, inputs);
    }
    if BLOCKS > 2 {
        blocks[2] = block_of(simd, rows, length, 2, inputs);
        blocks[3] = block_of(simd, rows, length, 3, inputs);
    }
    std::array::from_fn(
        #[inline(always)]
        |i| {
            let (position, row) = (i / (BLOCKS * ROWS), i % (BLOCKS * ROWS));
            if position < POSITIONS { blocks[row / ROWS][position][row % ROWS] } else { zero }
        },
    )
}

/// The sums of four rows of a tile.
#[inline(always)]
fn block_of<W: Element, const POSITIONS: usize>(
    simd: Avx512,
    rows: &[W],
    length: usize,
    number: usize,
    inputs: [&[[f32; STEP]]; POSITIONS],
) -> [[f32x16<Avx512>; ROWS]; POSITIONS] {
    let rows = std::array::from_fn(
        #[inline(always)]
        |i| &rows[(number * ROWS + i) * length..(number * ROWS + i + 1) * length],
    );
    block(simd, rows, inputs, TILE * length)
}

/// The lanes of each sum added up as [`dot::folded`](super::dot::folded) adds them, for all sixteen at once.
///
/// On every level two vectors become one. A lane and the lane `2^level` away from it are added, once for each
/// vector; the results of the first vector stand in the lanes whose bit `level` is 0, those of the second in
/// the others.
#[inline(always)]
fn folded(simd: Avx512, sums: [f32x16<Avx512>; TILE]) -> [f32; TILE] {
    // The first level decides the highest bit of the lane that a sum ends in, so sums go in by their bits
    // reversed.
    const ORDER: [usize; TILE] = [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15];
    let merged = |level: usize, a: f32x16<Avx512>, b: f32x16<Avx512>| {
        merge(simd, a, b, &NEIGHBOURS[level], FROM_SECOND[level])
    };
    let eight: [f32x16<Avx512>; 8] = std::array::from_fn(
        #[inline(always)]
        |i| merged(3, sums[ORDER[2 * i]], sums[ORDER[2 * i + 1]]),
    );
    let four: [f32x16<Avx512>; 4] = std::array::from_fn(
        #[inline(always)]
        |i| merged(2, eight[2 * i], eight[2 * i + 1]),
    );
    let two: [f32x16<Avx512>; 2] = std::array::from_fn(
        #[inline(always)]
        |i| merged(1, four[2 * i], four[2 * i + 1]),
    );
    merged(0, two[0], two[1]).into()
}

fearless_simd::kernel!(
    #[inline(always)]
    fn merge(
        simd: Avx512,
        a: f32x16<Avx512>,
        b: f32x16<Avx512>,
        neighbours: &[i32; 16],
        from_second: u16,
    ) -> f32x16<Avx512> {
        use std::arch::x86_64::*;
        let (a, b): (__m512, __m512) = (a.into(), b.into());
        let neighbours = i32x16::load_array_ref(simd, neighbours).into();
        let moved = _mm512_permutex2var_ps(a, neighbours, b);
        _mm512_add_ps(_mm512_mask_blend_ps(from_second, a, b), moved).simd_into(simd)
    }
);

/// For each level, the lanes that are taken from the second vector.
const FROM_SECOND: [u16; 4] = [0xaaaa, 0xcccc, 0xf0f0, 0xff00];

/// For each level and lane, the lane `2^level` away: of the first vector where the lane's bit `level` is 0,
/// of the second otherwise (which `permutex2var` counts from 16 on).
const NEIGHBOURS: [[i32; 16]; 4] = {
    let mut neighbours = [[0; 16]; 4];
    let mut i = 0;
    while i < 64 {
        let (level, lane) = (i / 16, i % 16);
        neighbours[level][lane] = (lane ^ 1 << level) as i32 + 16 * (lane >> level & 1) as i32;
        i += 1;
    }
    neighbours
};
