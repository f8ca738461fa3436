//! The product of a matrix with the inputs of many positions.
//!
//! ```text
//! for position in 0..positions:
//!     for row in 0..rows:
//!         products[position · rows + row] = dot(weights[row], inputs[position])
//! ```
//!
//! What differs from that:
//!
//! 1. Four rows are taken at a time, with four positions, and about four dot products are computed together
//!    ([`block`](super::block)): four rows with one position, two with two, or one with three or four. With
//!    AVX-512 it is sixteen ([`tile`](super::tile)); with its foundation alone, which processors before Ice
//!    Lake have, it is up to sixteen for bfloat16 and three positions or more ([`wide`](super::wide)).
//! 2. Without a fused multiply-add instruction it is one at a time: emulating it takes so long that nothing
//!    is gained by more, and the code would be large. WebAssembly has a way of its own for bfloat16, `strip`.
//!
//! Both are exact: each dot product is summed by itself, in the order of [`dot`](super::dot).

use fearless_simd::Simd;

use crate::kernels::block::block;
use crate::kernels::dot::{Inputs, folded};
use crate::kernels::element::{Element, Elements};
use crate::kernels::lanes::{Instructions, Lanes};
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use crate::kernels::{element::STEP, lanes::vectorized, strip::strips};
#[cfg(target_arch = "x86_64")]
use crate::kernels::{tile::tiles, wide};

/// How many rows are taken at a time where there is a fused multiply-add.
const GROUP: usize = 4;

/// Writes the products of the rows of `weights` with every position, position by position:
/// `products[position · rows + row]`.
pub(crate) fn products(
    instructions: Instructions,
    weights: Elements<'_>,
    inputs: &Inputs,
    products: &mut [f32],
) {
    match weights {
        #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
        Elements::Bf16(weights) if inputs.length().is_multiple_of(STEP) => {
            vectorized!(instructions, simd => strips(simd, weights, inputs, products))
        }
        Elements::Bf16(weights) => products_of(instructions, weights, inputs, products),
        Elements::F16(weights) => products_of(instructions, weights, inputs, products),
        Elements::F32(weights) => products_of(instructions, weights, inputs, products),
    }
}

fn products_of<W: Element>(instructions: Instructions, weights: &[W], inputs: &Inputs, products: &mut [f32]) {
    match instructions {
        Instructions::Baseline(simd) => simd.vectorize(
            #[inline(always)]
            || groups(simd, weights, inputs, products, 0),
        ),
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2(simd) => simd.vectorize(
            #[inline(always)]
            || groups(simd, weights, inputs, products, 0),
        ),
        #[cfg(target_arch = "x86_64")]
        Instructions::Foundation(simd, foundation) => {
            let first = match bytemuck::try_cast_slice(weights) {
                Ok(weights) if W::IS_BF16 => wide::groups(foundation, weights, inputs, products),
                _ => 0,
            };
            simd.vectorize(
                #[inline(always)]
                || groups(simd, weights, inputs, products, first),
            );
        }
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512(simd) => simd.vectorize(
            #[inline(always)]
            || tiles(simd, weights, inputs, products),
        ),
    }
}

/// The products of the rows from `first` on, in groups of four rows, and one by one what is left.
#[inline(always)]
fn groups<S: Lanes, W: Element>(simd: S, weights: &[W], inputs: &Inputs, products: &mut [f32], first: usize) {
    let (length, positions) = (inputs.length(), inputs.positions());
    let rows = products.len() / positions.max(1);
    let mut done = first;
    while S::HAS_FMA && done + GROUP <= rows {
        let weights = &weights[done * length..(done + GROUP) * length];
        group(simd, weights, inputs, &mut products[done..], rows);
        done += GROUP;
    }
    for row in done..rows {
        for position in 0..positions {
            let weights = &weights[row * length..(row + 1) * length];
            let [[sum]] = block(simd, [weights], [inputs.row(position)], length);
            products[position * rows + row] = folded(sum);
        }
    }
}

/// Four rows with all positions, into `products[position · stride + row]`. After the first positions the rows are in the
/// nearest cache.
#[inline(always)]
fn group<S: Lanes, W: Element>(simd: S, rows: &[W], inputs: &Inputs, products: &mut [f32], stride: usize) {
    let mut done = 0;
    while done < inputs.positions() {
        let products = &mut products[done * stride..];
        done += match inputs.positions() - done {
            1 => rows_with::<S, W, 4, 1>(simd, rows, inputs, done, products, stride),
            2 => rows_with::<S, W, 2, 2>(simd, rows, inputs, done, products, stride),
            3 => rows_with::<S, W, 1, 3>(simd, rows, inputs, done, products, stride),
            _ => rows_with::<S, W, 1, 4>(simd, rows, inputs, done, products, stride),
        };
    }
}

/// Four rows, `ROWS` at a time, with the positions from `position` on. Returns how many positions that were.
#[inline(always)]
fn rows_with<S: Lanes, W: Element, const ROWS: usize, const POSITIONS: usize>(
    simd: S,
    rows: &[W],
    inputs: &Inputs,
    position: usize,
    products: &mut [f32],
    stride: usize,
) -> usize {
    let length = inputs.length();
    let inputs = std::array::from_fn::<_, POSITIONS, _>(
        #[inline(always)]
        |i| inputs.row(position + i),
    );
    for first in (0..GROUP).step_by(ROWS) {
        let rows = std::array::from_fn::<_, ROWS, _>(
            #[inline(always)]
            |i| &rows[(first + i) * length..(first + i + 1) * length],
        );
        let sums = block(simd, rows, inputs, GROUP * length);
        for (i, sums) in sums.into_iter().enumerate() {
            for (product, sum) in products[i * stride + first..].iter_mut().zip(sums) {
                *product = folded(sum);
            }
        }
    }
    POSITIONS
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};
    use onedraw::Kernel;

    use crate::kernels::element::STEP;

    /// The definition, one number after the other.
    fn dot(weights: &[f32], numbers: &[f32]) -> f32 {
        let mut lanes = [0.0f32; 16];
        for start in (0..numbers.len()).step_by(STEP) {
            for odd in 0..2 {
                for (lane, sum) in lanes.iter_mut().enumerate() {
                    let place = start + 2 * lane + odd;
                    let term = |values: &[f32]| values.get(place).copied().unwrap_or(0.0);
                    *sum = libm::fmaf(term(weights), term(numbers), *sum);
                }
            }
        }
        let eight: Vec<f32> = (0..8).map(|i| lanes[i] + lanes[i + 8]).collect();
        let four: Vec<f32> = (0..4).map(|i| eight[i] + eight[i + 4]).collect();
        (four[0] + four[2]) + (four[1] + four[3])
    }

    fn number(i: usize) -> f32 {
        let word = (i as u32).wrapping_mul(2_654_435_761) >> 7;
        f16::from_f32(word as f32 / 1e7 - 1.6).to_f32()
    }

    #[test]
    fn every_shape_and_kernel_gives_the_definition() {
        for length in [1, 2, 31, 32, 33, 64, 100, 160] {
            for count in [1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 17] {
                let rows = 37;
                let weights: Vec<f32> =
                    (0..rows * length).map(|i| bf16::from_f32(number(i)).to_f32()).collect();
                let inputs: Vec<f32> = (0..count * length).map(|i| number(i + 77) * 3.7).collect();
                let arranged = Inputs::new(&inputs, length);
                assert_eq!((arranged.positions(), arranged.length()), (count, length));
                let expected: Vec<f32> = (0..rows * count)
                    .map(|i| {
                        let (row, position) = (i % rows, i / rows);
                        dot(&weights[row * length..][..length], &inputs[position * length..][..length])
                    })
                    .collect();
                let named = Kernel::ALL.into_iter().filter_map(Instructions::of);
                for instructions in named.chain(Instructions::foundation()) {
                    let mut found = vec![f32::NAN; rows * count];
                    products(instructions, Elements::F32(&weights), &arranged, &mut found);
                    assert_eq!(found, expected, "f32, {instructions:?}, {length} x {count}");
                    let halves: Vec<bf16> = weights.iter().map(|&x| bf16::from_f32(x)).collect();
                    products(instructions, Elements::Bf16(&halves), &arranged, &mut found);
                    assert_eq!(found, expected, "bf16, {instructions:?}, {length} x {count}");
                }
            }
        }
    }

    #[test]
    fn halves_of_ieee_are_widened_exactly() {
        // Every half that is a number, a row each, times one.
        let halves: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).filter(|half| half.is_finite()).collect();
        for kernel in Kernel::ALL {
            let Some(instructions) = Instructions::of(kernel) else { continue };
            let one = Inputs::new(&[1.0], 1);
            let mut found = vec![0.0; halves.len()];
            products(instructions, Elements::F16(&halves), &one, &mut found);
            let wrong = halves.iter().zip(&found).find(|&(half, &found)| half.to_f32() != found);
            assert_eq!(wrong, None, "{kernel}");
        }
    }
}
