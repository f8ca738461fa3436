//! The same products with AVX-512: sixteen sums at a time, of as many rows and positions as make sixteen, and all of them folded at once.
//!
//! A short row is summed in few steps, and folding a sum by itself takes half as long as summing it.

use fearless_simd::prelude::*;
use fearless_simd::{Avx512, f32x16, i32x16};

use crate::kernels::dot::{Arranged, padded};
use crate::kernels::weight::{STEP, Weight};

/// Sums of a tile.
const SUMS: usize = 16;

/// The products of whole groups of sixteen rows with every position, as [`products`](super::product::products) has them of all `rows`; how many rows that were.
#[inline(always)]
pub(super) fn tiles<W: Weight>(
    simd: Avx512,
    weights: &[W],
    positions: &Arranged,
    rows: usize,
    products: &mut [f32],
) -> usize {
    let (length, count) = (positions.length(), positions.len());
    let groups = rows / SUMS;
    for group in 0..groups {
        let weights = &weights[group * SUMS * length..(group + 1) * SUMS * length];
        let mut at = Corner { row: group * SUMS, position: 0, rows };
        while at.position < count {
            at.position += match count - at.position {
                1 => part::<W, 16, 1>(simd, weights, positions, at, products),
                2 => part::<W, 8, 2>(simd, weights, positions, at, products),
                3 => part::<W, 4, 3>(simd, weights, positions, at, products),
                // More at a time would not leave registers for the weights; sixteen rows stay near enough to be read again.
                _ => part::<W, 4, 4>(simd, weights, positions, at, products),
            };
        }
    }
    groups * SUMS
}

/// Where a part begins, of products of so many rows.
#[derive(Clone, Copy)]
struct Corner {
    row: usize,
    position: usize,
    rows: usize,
}

/// Sixteen rows with a few positions, tile by tile; how many positions that were.
#[inline(always)]
fn part<W: Weight, const ROWS: usize, const POSITIONS: usize>(
    simd: Avx512,
    weights: &[W],
    positions: &Arranged,
    at: Corner,
    products: &mut [f32],
) -> usize {
    let length = positions.length();
    for tile in 0..SUMS / ROWS {
        let start = tile * ROWS;
        let weights = &weights[start * length..];
        let sums = tile_of::<W, ROWS, POSITIONS>(simd, weights, positions, at.position);
        for position in 0..POSITIONS {
            let place = (at.position + position) * at.rows + at.row + start;
            products[place..place + ROWS].copy_from_slice(&sums[position * ROWS..(position + 1) * ROWS]);
        }
    }
    POSITIONS
}

#[inline(always)]
fn tile_of<W: Weight, const ROWS: usize, const POSITIONS: usize>(
    simd: Avx512,
    rows: &[W],
    positions: &Arranged,
    first: usize,
) -> [f32; SUMS] {
    let length = positions.length();
    let numbers: [&[[f32; STEP]]; POSITIONS] = std::array::from_fn(
        #[inline(always)]
        |i| positions.row(first + i),
    );
    let mut sums = [f32x16::splat(simd, 0.0); SUMS];
    // Four rows at a time: where each of more rows lies is too much for the registers.
    if ROWS < 8 {
        few::<W, ROWS, POSITIONS, ROWS, 0>(simd, &mut sums, rows, length, &numbers);
    } else {
        few::<W, ROWS, POSITIONS, 4, 0>(simd, &mut sums, rows, length, &numbers);
        few::<W, ROWS, POSITIONS, 4, 4>(simd, &mut sums, rows, length, &numbers);
    }
    if ROWS == SUMS {
        few::<W, ROWS, POSITIONS, 4, 8>(simd, &mut sums, rows, length, &numbers);
        few::<W, ROWS, POSITIONS, 4, 12>(simd, &mut sums, rows, length, &numbers);
    }
    folded(simd, sums)
}

/// The sums of a few rows of the tile, from `FIRST` on.
#[inline(always)]
fn few<W: Weight, const ROWS: usize, const POSITIONS: usize, const FEW: usize, const FIRST: usize>(
    simd: Avx512,
    sums: &mut [f32x16<Avx512>; SUMS],
    rows: &[W],
    length: usize,
    numbers: &[&[[f32; STEP]]; POSITIONS],
) {
    let whole = length / STEP;
    let rows: [&[W]; FEW] = std::array::from_fn(
        #[inline(always)]
        |i| &rows[(FIRST + i) * length..(FIRST + i + 1) * length],
    );
    let steps: [&[[W; STEP]]; FEW] = std::array::from_fn(
        #[inline(always)]
        |row| &rows[row].as_chunks::<STEP>().0[..whole],
    );
    // A step of several rows.
    #[allow(clippy::needless_range_loop)]
    for step in 0..whole {
        let weights = std::array::from_fn(
            #[inline(always)]
            |row: usize| &steps[row][step],
        );
        advance::<W, ROWS, POSITIONS, FEW, FIRST>(simd, sums, weights, numbers, step, SUMS * length);
    }
    if whole * STEP < length {
        let rest: [[W; STEP]; FEW] = std::array::from_fn(
            #[inline(always)]
            |row| padded(&rows[row][whole * STEP..]),
        );
        let rest = std::array::from_fn(
            #[inline(always)]
            |row: usize| &rest[row],
        );
        advance::<W, ROWS, POSITIONS, FEW, FIRST>(simd, sums, rest, numbers, whole, 0);
    }
}

/// One step of their sums. A position's numbers are loaded once for all rows.
#[inline(always)]
fn advance<W: Weight, const ROWS: usize, const POSITIONS: usize, const FEW: usize, const FIRST: usize>(
    simd: Avx512,
    sums: &mut [f32x16<Avx512>; SUMS],
    weights: [&[W; STEP]; FEW],
    numbers: &[&[[f32; STEP]]; POSITIONS],
    step: usize,
    ahead: usize,
) {
    let numbers: [(f32x16<Avx512>, f32x16<Avx512>); POSITIONS] = std::array::from_fn(
        #[inline(always)]
        |position| {
            let numbers = &numbers[position][step];
            (f32x16::from_slice(simd, &numbers[..16]), f32x16::from_slice(simd, &numbers[16..]))
        },
    );
    for row in 0..FEW {
        fetch(weights[row].as_ptr().wrapping_add(ahead));
        let (even, odd) = W::load(simd, weights[row]);
        for position in 0..POSITIONS {
            let sum = &mut sums[position * ROWS + FIRST + row];
            *sum = odd.mul_add_precise(numbers[position].1, even.mul_add_precise(numbers[position].0, *sum));
        }
    }
}

/// Asks for a line of memory that the next sixteen rows are read from: rows are short, and the machine does not see by itself that another follows.
#[inline(always)]
#[allow(unsafe_code)]
fn fetch<W>(weights: *const W) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: every x86-64 has the instruction, and it reads nothing that the program can see: an address that is not the program's is ignored.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(weights.cast()) };
}

/// The lanes of each sum added in halves, as `dot::folded` adds them. Two vectors become one on every level: sums of the first stand in
/// the lanes whose bit of that level is 0, those of the second in the others.
#[inline(always)]
fn folded(simd: Avx512, sums: [f32x16<Avx512>; SUMS]) -> [f32; SUMS] {
    // The first level decides the highest bit of a sum's lane, so they go in by their bits in reverse.
    const ORDER: [usize; SUMS] = [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15];
    let merged = |level: usize, a: f32x16<Avx512>, b: f32x16<Avx512>| {
        merge(simd, a, b, &NEIGHBOURS[level], MASKS[level])
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
        from_b: u16,
    ) -> f32x16<Avx512> {
        use std::arch::x86_64::*;
        let (a, b): (__m512, __m512) = (a.into(), b.into());
        let neighbours = i32x16::load_array_ref(simd, neighbours).into();
        let moved = _mm512_permutex2var_ps(a, neighbours, b);
        _mm512_add_ps(_mm512_mask_blend_ps(from_b, a, b), moved).simd_into(simd)
    }
);

/// The lanes of each level that are the second vector's.
const MASKS: [u16; 4] = [0xaaaa, 0xcccc, 0xf0f0, 0xff00];

/// For each level and lane, the neighbour `2^level` lanes away: of the first vector where the lane's bit of that level is 0, else of the second.
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
