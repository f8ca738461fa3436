//! Products of three positions and more with the foundation of AVX-512.
//!
//! ```text
//! for each group of eight rows:
//!     for position in 0..positions:
//!         for row in group:
//!             products[position · rows + row] = dot(weights[row], inputs[position])
//! ```
//!
//! What differs from that:
//!
//! 1. The weights of a group are widened to f32 once for all positions, into memory that stays in the nearest
//!    cache, in the order in which they are used.
//! 2. A tile is eight rows with three positions, or with two. Its 24 sums, a step's inputs and a row's
//!    weights are in registers. The inputs of many positions do not fit into the nearest cache, and eight
//!    rows take them from the next one as slowly as that can deliver them.
//! 3. Long rows are widened and summed chunk by chunk: between two chunks the sums are in memory.
//! 4. The next group is fetched from memory evenly over the time of this one.
//! 5. The eight sums of a position are folded together.
//!
//! All are exact: each sum adds the same numbers in the order of [`dot`](super::dot) (it may rest in memory as
//! it may rest in a register), and the fold adds the same pairs of numbers.

use std::arch::x86_64::*;

use crate::kernels::dot::{Inputs, padded};
use crate::kernels::element::{Element, STEP};
use crate::kernels::foundation::{Foundation, load, store};
use crate::kernels::lanes::{Lanes, fetch};

/// Rows of a group.
const ROWS: usize = 8;

/// Steps of a chunk at most: its weights fill half of the nearest cache.
const STEPS: usize = 18;

/// Positions of a tile at most.
const POSITIONS: usize = 3;

/// Positions whose sums are kept at a time.
const BATCH: usize = 24;

/// What is aligned to a cache line: a vector that lies in two of them takes twice as long to load.
#[repr(align(64))]
struct Aligned<T>(T);

/// The widened weights of a step: those at even places, then those at odd places, row by row.
type Step = [[[f32; 16]; ROWS]; 2];

/// The sums of a position.
type Sums = [[f32; 16]; ROWS];

/// The memory that a group needs.
struct Group {
    foundation: Foundation,
    weights: Aligned<[Step; STEPS]>,
    sums: Aligned<[Sums; BATCH]>,
}

/// Lines of memory to be fetched.
struct Ahead {
    next: *const u8,
    /// How far apart they are; 0 if all are fetched already.
    stride: usize,
}

impl Ahead {
    #[inline(always)]
    fn fetch(&mut self) {
        fetch(self.next);
        self.next = self.next.wrapping_add(self.stride);
    }
}

/// A part of the rows that a tile sums.
#[derive(Clone, Copy)]
struct Chunk {
    first: usize,
    steps: usize,
    is_last: bool,
}

/// Where a tile's products go: the first row of its first position, and how far apart positions are.
struct Out<'a> {
    products: &'a mut [f32],
    stride: usize,
}

/// The products of as many rows as there are in whole groups, as
/// [`products`](super::product::products) has them. Returns how many rows that were.
pub(super) fn groups<S: Lanes, W: Element>(
    foundation: Foundation,
    simd: S,
    weights: &[W],
    inputs: &Inputs,
    products: &mut [f32],
) -> usize {
    let (length, positions) = (inputs.length(), inputs.positions());
    if positions < POSITIONS {
        return 0;
    }
    let rows = products.len() / positions;
    let mut group = Group::new(foundation);
    for (i, weights) in weights.chunks_exact(ROWS * length).enumerate() {
        group.products(simd, weights, inputs, &mut products[i * ROWS..], rows);
    }
    rows / ROWS * ROWS
}

impl Group {
    fn new(foundation: Foundation) -> Self {
        let sums = Aligned([[[0.0; 16]; ROWS]; BATCH]);
        Self { foundation, weights: Aligned([[[[0.0; 16]; ROWS]; 2]; STEPS]), sums }
    }

    /// Eight rows with all positions, into `products[position · stride + row]`.
    fn products<S: Lanes, W: Element>(
        &mut self,
        simd: S,
        rows: &[W],
        inputs: &Inputs,
        products: &mut [f32],
        stride: usize,
    ) {
        let (length, positions) = (inputs.length(), inputs.positions());
        let steps = length.div_ceil(STEP);
        let chunk = steps.div_ceil(steps.div_ceil(STEPS));
        for batch in (0..positions).step_by(BATCH) {
            let count = BATCH.min(positions - batch);
            let tiles = count.div_ceil(POSITIONS);
            let fetches = if tiles < 4 { 4 } else { 2 };
            let stride_ahead = (ROWS * length * size_of::<W>()).div_ceil((ROWS + tiles * fetches) * steps);
            let mut ahead = Ahead {
                next: rows.as_ptr().wrapping_add(ROWS * length).cast(),
                stride: if batch == 0 { stride_ahead } else { 0 },
            };
            for first in (0..steps).step_by(chunk) {
                let chunk = Chunk { first, steps: chunk.min(steps - first), is_last: first + chunk >= steps };
                self.widen(simd, rows, length, chunk, &mut ahead);
                let mut done = 0;
                for tile in 0..tiles {
                    let taken = (count - done).div_ceil(tiles - tile);
                    let out = Out { products: &mut products[(batch + done) * stride..], stride };
                    let at = (batch + done, done);
                    match (taken, fetches) {
                        (3, 4) => self.tile::<3, 4>(inputs, at, chunk, &mut ahead, out),
                        (2, 4) => self.tile::<2, 4>(inputs, at, chunk, &mut ahead, out),
                        (3, _) => self.tile::<3, 2>(inputs, at, chunk, &mut ahead, out),
                        (2, _) => self.tile::<2, 2>(inputs, at, chunk, &mut ahead, out),
                        _ => self.tile::<1, 2>(inputs, at, chunk, &mut ahead, out),
                    }
                    done += taken;
                }
            }
        }
    }

    /// Widens a chunk of the weights.
    fn widen<S: Lanes, W: Element>(
        &mut self,
        simd: S,
        rows: &[W],
        length: usize,
        chunk: Chunk,
        ahead: &mut Ahead,
    ) {
        let widened = &mut self.weights.0[..chunk.steps];
        for row in 0..ROWS {
            let weights = &rows[row * length..(row + 1) * length];
            let weights = &weights[chunk.first * STEP..length.min((chunk.first + chunk.steps) * STEP)];
            let (whole, rest) = weights.as_chunks::<STEP>();
            let (widened, widened_rest) = widened.split_at_mut(whole.len());
            widen(self.foundation, simd, whole, row, widened, ahead);
            if !rest.is_empty() {
                widen(self.foundation, simd, &[padded(rest)], row, widened_rest, ahead);
            }
        }
    }

    /// A chunk of the positions from `position` on. Their sums are those from `slot` on.
    #[allow(unsafe_code)]
    fn tile<const POSITIONS: usize, const FETCHES: usize>(
        &mut self,
        inputs: &Inputs,
        (position, slot): (usize, usize),
        chunk: Chunk,
        ahead: &mut Ahead,
        out: Out<'_>,
    ) {
        let weights = &self.weights.0[..chunk.steps];
        let inputs = std::array::from_fn(|i| &inputs.row(position + i)[chunk.first..][..chunk.steps]);
        let (sums, _) = self.sums.0[slot..].split_first_chunk_mut().expect("a tile is within a batch");
        // SAFETY: a `Foundation` exists only where the processor has it.
        unsafe { advance::<POSITIONS, FETCHES>(weights, inputs, sums, chunk, ahead, out) };
    }
}

/// Widens whole steps of a row.
#[allow(unsafe_code)]
fn widen<S: Lanes, W: Element>(
    _: Foundation,
    simd: S,
    weights: &[[W; STEP]],
    row: usize,
    widened: &mut [Step],
    ahead: &mut Ahead,
) {
    if W::IS_BF16 {
        let bytes = bytemuck::cast_slice(weights.as_flattened());
        // SAFETY: a `Foundation` exists only where the processor has it.
        return unsafe { widen_bf16(bytes, row, widened, ahead) };
    }
    simd.vectorize(
        #[inline(always)]
        || {
            for (weights, widened) in weights.iter().zip(widened) {
                ahead.fetch();
                let (even, odd) = W::load(simd, weights);
                widened[0][row] = even.into();
                widened[1][row] = odd.into();
            }
        },
    );
}

/// As `Element::load` does it for bfloat16.
#[target_feature(enable = "avx512f")]
fn widen_bf16(weights: &[[u8; 64]], row: usize, widened: &mut [Step], ahead: &mut Ahead) {
    let upper = _mm512_set1_epi32(0xffff_0000_u32.cast_signed());
    for (weights, widened) in weights.iter().zip(widened) {
        ahead.fetch();
        let pairs = _mm512_castps_si512(load(&bytemuck::cast(*weights)));
        store(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs)), &mut widened[0][row]);
        store(_mm512_castsi512_ps(_mm512_and_si512(pairs, upper)), &mut widened[1][row]);
    }
}

/// Adds the products of a chunk to the sums of all rows with some positions. After the last chunk folds them.
#[target_feature(enable = "avx512f")]
// Indices count in several arrays.
#[allow(clippy::needless_range_loop)]
fn advance<const POSITIONS: usize, const FETCHES: usize>(
    weights: &[Step],
    mut inputs: [&[[f32; STEP]]; POSITIONS],
    sums: &mut [Sums; POSITIONS],
    chunk: Chunk,
    ahead: &mut Ahead,
    out: Out<'_>,
) {
    let mut own = [[_mm512_setzero_ps(); ROWS]; POSITIONS];
    for i in 0..POSITIONS {
        inputs[i] = &inputs[i][..weights.len()];
        if chunk.first > 0 {
            for row in 0..ROWS {
                own[i][row] = load(&sums[i][row]);
            }
        }
    }
    let (mut next, stride) = (ahead.next, ahead.stride);
    for (step, weights) in weights.iter().enumerate() {
        for _ in 0..FETCHES {
            fetch(next);
            next = next.wrapping_add(stride);
        }
        for odd in 0..2 {
            let mut numbers = [_mm512_setzero_ps(); POSITIONS];
            for i in 0..POSITIONS {
                numbers[i] = load(&inputs[i][step].as_chunks().0[odd]);
            }
            for row in 0..ROWS {
                let weights = load(&weights[odd][row]);
                for i in 0..POSITIONS {
                    own[i][row] = _mm512_fmadd_ps(weights, numbers[i], own[i][row]);
                }
            }
        }
    }
    ahead.next = next;
    for i in 0..POSITIONS {
        for row in 0..ROWS {
            store(own[i][row], &mut sums[i][row]);
        }
    }
    if chunk.is_last {
        for i in 0..POSITIONS {
            out.products[i * out.stride..][..ROWS].copy_from_slice(&folded(&sums[i]));
        }
    }
}

/// The lanes of each sum added up as [`dot::folded`](super::dot::folded) adds them.
#[target_feature(enable = "avx512f")]
#[inline]
fn folded(sums: &Sums) -> [f32; ROWS] {
    let mut lanes = [_mm512_setzero_ps(); ROWS];
    for row in 0..ROWS {
        lanes[row] = load(&sums[row]);
    }
    let sums = lanes;
    let even = fours(eights(sums[0], sums[2]), eights(sums[4], sums[6]));
    let odd = fours(eights(sums[1], sums[3]), eights(sums[5], sums[7]));
    let twos = twos(even, odd);
    let sums = _mm512_add_ps(_mm512_shuffle_ps::<0x88>(twos, twos), _mm512_shuffle_ps::<0xdd>(twos, twos));
    let mut lanes = [0.0; 16];
    store(_mm512_castpd_ps(_mm512_maskz_compress_pd(0x55, _mm512_castps_pd(sums))), &mut lanes);
    std::array::from_fn(#[inline(always)] |row| lanes[row])
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

/// In each four lanes, the upper two added to the lower two: of `a`, then of `b`.
#[target_feature(enable = "avx512f")]
#[inline]
fn twos(a: __m512, b: __m512) -> __m512 {
    let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
    let (lower, upper) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
    _mm512_add_ps(_mm512_castpd_ps(lower), _mm512_castpd_ps(upper))
}
