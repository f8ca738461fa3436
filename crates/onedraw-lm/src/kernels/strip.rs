//! Products of bfloat16 weights where there is no fused multiply-add: four rows at a time, two sums of each.
//!
//! ```text
//! for lane in 0..16:
//!     for row in 0..4:
//!         sum = 0
//!         for step in 0..steps:
//!             for odd in 0..2: sum = fma(rows[row][step][2·lane + odd], numbers[step][16·odd + lane], sum)
//! ```
//!
//! What the code does differently:
//!
//! 1. Weights and numbers are widened to f64, the numbers once for all rows (`widened`). Their products are
//!    exact, because a weight has 8 significant bits and a number 24.
//! 2. A product is added in f64. The result is rounded to the 24 bits of an f32 ([`single`]) and stays in
//!    f64.
//! 3. The numbers are multiplied by a power of two, such that sums which leave the range [2^965, 2^995)
//!    either become NaN, because their product with 2^29 + 1 overflows, or are seen in the least magnitude.
//!    Then, and where a number is treacherous (`widened`), the rows are summed again in the plain
//!    way.
//!
//! Why it is exact. All powers of two are chosen such that the range lies within the normal range of f32, so
//! what is left to show is that rounding twice, to 53 bits and then to 24, is rounding once. It differs only
//! if the sum of 53 bits is a middle M between two f32 but the exact sum is M + r with r ≠ 0. Let 2^m
//! be the last bit of M, so that 2^(m+24) < |M| < 2^(m+25) and |r| ≤ 2^(m-29). The sum before, s, is 0 or
//! in the range, so it is a multiple of 2^942; the product is p = P·2^g with an integer P below 2^32.
//!
//! - If g ≥ 942, the exact sum is a multiple of 2^942 and below 2^995, so it has 53 bits and r = 0.
//! - Else M, s, p and so r are multiples of 2^g or of 2^m, and r ≠ 0 needs g ≤ m - 29. So |p| < 2^(m+3),
//!   and s, which is nearly M, is a multiple of 2^m, but it is not M, which has 25 bits. So p = j·2^m + r
//!   with j ≠ 0. With k = m - g, that is P = j·2^k + r·2^-g, where k ≥ 29 and |r·2^-g| ≤ 2^(k-29), and k ≤
//!   32: P is beside a multiple of 2^29, at most 8 from it. Some weight makes such a P of a treacherous
//!   number.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x4, f64x2, f64x8, u32x4, u64x2};
use half::bf16;

use crate::kernels::block::block;
use crate::kernels::dot::{Inputs, folded};
use crate::kernels::element::STEP;
use crate::kernels::lanes::Lanes;
use crate::kernels::sums::single;
use crate::kernels::widened::power_of_two;

/// Rows of a strip. Two sums of each, with what they need, fit into sixteen registers, and take as long as
/// the processor needs to start their operations.
const ROWS: usize = 4;

/// Sums from 2^965 on, and below 2^995, are rounded exactly.
const LEAST: f64 = power_of_two(965);

/// The products as [`products`](super::product::products) has them. A row has whole steps.
#[inline(always)]
pub(super) fn strips<S: Lanes>(simd: S, weights: &[bf16], inputs: &Inputs, products: &mut [f32]) {
    let (length, positions) = (inputs.length(), inputs.positions());
    let rows = products.len() / positions.max(1);
    let row = |row: usize| &weights[row * length..(row + 1) * length];
    for first in (0..rows).step_by(ROWS) {
        let count = ROWS.min(rows - first);
        // Where fewer rows are left, the last is summed several times.
        let four = std::array::from_fn(|i| row(first + i.min(count - 1)).as_chunks().0);
        for position in 0..positions {
            let products = &mut products[position * rows + first..][..count];
            let widened = inputs.widened().row(position, length / STEP);
            if let Some(sums) = widened.and_then(|(numbers, unit)| strip(simd, four, numbers, unit)) {
                products.copy_from_slice(&sums[..count]);
                continue;
            }
            for (i, product) in products.iter_mut().enumerate() {
                let [[sum]] = block(simd, [row(first + i)], [inputs.row(position)], length);
                *product = folded(sum);
            }
        }
    }
}

/// The dot products of four rows with the same numbers; `None` if a sum was not in the range.
#[inline(always)]
fn strip<S: Lanes>(
    simd: S,
    rows: [&[[bf16; STEP]]; ROWS],
    numbers: &[[f64; STEP]],
    unit: f64,
) -> Option<[f32; ROWS]> {
    let rows = rows.map(|row| &row[..numbers.len()]);
    let mut least = u32x4::splat(simd, u32::MAX);
    let mut lanes = [[0.0; 16]; ROWS];
    for pair in 0..8 {
        let mut sums = [f64x2::splat(simd, 0.0); ROWS];
        // One step of all rows at a time: no single row can be iterated over.
        #[allow(clippy::needless_range_loop)]
        for step in 0..numbers.len() {
            let numbers: &[[f64; 2]; 16] = bytemuck::cast_ref(&numbers[step]);
            let even = f64x2::load_array_ref(simd, &numbers[pair]);
            let odd = f64x2::load_array_ref(simd, &numbers[pair + 8]);
            for row in 0..ROWS {
                // Two at even places and two at odd places, a 32-bit lane for each two.
                let four: &[[bf16; 4]; 8] = bytemuck::cast_ref(&rows[row][step]);
                let four: u32x4<S> = u64x2::splat(simd, bytemuck::cast(four[pair])).bitcast();
                let (first, second): (f32x4<S>, f32x4<S>) =
                    ((four << 16).bitcast(), (four & 0xffff_0000).bitcast());
                let sum = first.widen().0 * even + sums[row];
                least = least.min(magnitude(sum));
                let sum = second.widen().0 * odd + single(sum);
                least = least.min(magnitude(sum));
                sums[row] = single(sum);
            }
        }
        for (lanes, sums) in lanes.iter_mut().zip(sums) {
            lanes[2 * pair..2 * pair + 2].copy_from_slice(&<[f64; 2]>::from(sums));
        }
    }
    let products = lanes.map(
        #[inline(always)]
        |lanes| {
            let [low, high]: [[f64; 8]; 2] = bytemuck::cast(lanes);
            let (low, high) = (f64x8::load_array(simd, low), f64x8::load_array(simd, high));
            folded((low * unit).narrow(high * unit))
        },
    );
    // NaN, where a sum was beyond the range, stays.
    let least: [u32; 4] = least.into();
    let is_in_range = least[1].min(least[3]) >= (LEAST.to_bits() >> 31) as u32;
    (is_in_range && products.iter().all(|product| product.is_finite())).then_some(products)
}

/// The upper 32 bits behind the sign, in the upper half of each lane.
#[inline(always)]
fn magnitude<S: Simd>(sum: f64x2<S>) -> u32x4<S> {
    sum.bitcast::<u32x4<S>>() << 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use onedraw::Kernel;
    use onedraw::math::fma;

    use crate::kernels::lanes::{Instructions, vectorized};

    /// Random bits, the same on every run.
    struct Bits(u64);

    impl Bits {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.0 ^ self.0 >> 29
        }

        /// A number whose exponent is one of `exponents` from `low` on.
        fn number(&mut self, low: i32, exponents: u32) -> f32 {
            let word = self.next();
            let exponent = low + ((word >> 40) as u32 % exponents) as i32;
            f32::from_bits((word as u32 & 0x807f_ffff) | ((exponent + 127) as u32) << 23)
        }

        fn weight(&mut self, low: i32, exponents: u32) -> bf16 {
            bf16::from_bits((self.number(low, exponents).to_bits() >> 16) as u16)
        }
    }

    /// The definition, one number after the other.
    fn dot(weights: &[bf16], numbers: &[f32]) -> f32 {
        let mut lanes = [0.0; 16];
        for (i, (weight, &number)) in weights.iter().zip(numbers).enumerate() {
            let sum = &mut lanes[i % STEP / 2];
            // In a step, even places come before odd ones, and each lane has one of each.
            *sum = fma(weight.to_f32(), number, *sum);
        }
        let eight: [f32; 8] = std::array::from_fn(|i| lanes[i] + lanes[i + 8]);
        let four: [f32; 4] = std::array::from_fn(|i| eight[i] + eight[i + 4]);
        (four[0] + four[2]) + (four[1] + four[3])
    }

    /// Compares with the definition, and returns in how many positions a strip gave all rows.
    fn check(what: &str, length: usize, weights: &[bf16], numbers: &[f32]) -> usize {
        let (rows, inputs) = (weights.len() / length, Inputs::new(numbers, length));
        let positions = inputs.positions();
        let mut found = vec![f32::NAN; rows * positions];
        let mut done = 0;
        let instructions = Instructions::of(Kernel::Scalar).expect("a kernel");
        vectorized!(instructions, simd => {
            strips(simd, weights, &inputs, &mut found);
            let four = std::array::from_fn(|i| weights[i % rows * length..][..length].as_chunks().0);
            for position in 0..positions {
                let widened = inputs.widened().row(position, length / STEP);
                let sums = widened.and_then(|(numbers, unit)| strip(simd, four, numbers, unit));
                done += usize::from(sums.is_some());
            }
        });
        for (i, &found) in found.iter().enumerate() {
            let (row, position) = (i % rows, i / rows);
            let expected = dot(&weights[row * length..][..length], &numbers[position * length..][..length]);
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{what}: row {row} at {position} gives {found:e}, not {expected:e}");
        }
        done
    }

    #[test]
    fn strips_give_the_definition() {
        let mut bits = Bits(1);
        for (what, [weight, weights, number, numbers], done) in [
            ("a model's", [-9, 8, -6, 8], 90..=100),
            ("numbers of one size", [-4, 1, 0, 1], 90..=100),
            ("weights of many sizes", [-60, 60, -3, 4], 0..=60),
            ("numbers of many sizes", [-3, 4, -60, 60], 0..=60),
            ("large", [100, 20, 0, 8], 0..=0),
            ("small", [-120, 10, -10, 8], 0..=0),
            ("any", [-126, 254, -126, 254], 0..=0),
        ] {
            let mut found = 0;
            for (length, rows) in [(32, 4), (64, 1), (256, 7), (96, 9)] {
                let weights: Vec<bf16> =
                    (0..rows * length).map(|_| bits.weight(weight, weights as u32)).collect();
                let numbers: Vec<f32> =
                    (0..25 * length).map(|_| bits.number(number, numbers as u32)).collect();
                found += check(what, length, &weights, &numbers);
            }
            assert!(done.contains(&found), "{what}: {found} of 100");
        }
    }

    #[test]
    fn numbers_of_every_size_give_the_definition() {
        let mut bits = Bits(4);
        let mut done = Vec::new();
        for exponent in -149..=127 {
            let scale = power_of_two(exponent);
            let weights: Vec<bf16> = (0..4 * 64).map(|_| bits.weight(-9, 8)).collect();
            let numbers: Vec<f32> = (0..64).map(|_| (f64::from(bits.number(-3, 4)) * scale) as f32).collect();
            if check(&format!("numbers up to 2^{exponent}"), 64, &weights, &numbers) > 0 {
                done.push(exponent);
            }
        }
        assert!(done.len() > 100, "{done:?}");
        assert!(done.iter().all(|exponent| (-29..=120).contains(exponent)), "{done:?}");
    }

    /// Middles between two f32 where the sum before is long, so that a bit far below decides; zeros,
    /// infinities, NaN and subnormal numbers among the usual ones.
    #[test]
    fn unusual_sums_are_the_definitions() {
        let mut bits = Bits(2);
        let mut missed = 0;
        for round in 0..400 {
            let mut weights: Vec<bf16> = (0..4 * 64).map(|_| bits.weight(-9, 8)).collect();
            let mut numbers: Vec<f32> = (0..64).map(|_| bits.number(-4, 4)).collect();
            let lane = bits.next() as usize % 16;
            // The product of 205 and 5,237,765 is 2^30 + 1. The sum before ends in a bit of 2^31 times as
            // much.
            let sum = f32::from_bits((54 + 127) << 23 | bits.next() as u32 & 0x7f_ffff);
            match round % 8 {
                0 | 1 => {
                    for row in 0..4 {
                        weights[row * 64 + 2 * lane] = bf16::ONE;
                        weights[row * 64 + 2 * lane + 1] = bf16::from_f32(205.0);
                    }
                    let sign = if round % 8 == 0 { 1.0 } else { -1.0 };
                    (numbers[2 * lane], numbers[2 * lane + 1]) = (sum, sign * 5_237_765.0);
                    let twice = (f64::from(sum) + 205.0 * 5_237_765.0 * f64::from(sign)) as f32;
                    missed += usize::from(twice != fma(205.0, sign * 5_237_765.0, sum));
                }
                // A middle, and a sum before that is tiny beside it.
                2 => {
                    for row in 0..4 {
                        weights[row * 64 + 2 * lane] = bf16::from_f32(1e-30);
                        weights[row * 64 + 2 * lane + 1] = bf16::from_f32(3.0);
                    }
                    numbers[2 * lane + 1] = 11_184_811.0 * 2.0f32.powi(-20);
                }
                3 => weights[lane] = bf16::INFINITY,
                4 => numbers[lane] = f32::NAN,
                5 => numbers[lane] = 0.0,
                6 => weights[lane] = bf16::from_bits(0x8001),
                _ => numbers[lane] = f32::from_bits(5),
            }
            check("unusual", 64, &weights, &numbers);
        }
        assert!(missed > 0, "the cases do not tell one rounding from two");
    }
}
