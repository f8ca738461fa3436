//! Sums of products where there is no fused multiply-add: `a · b` is added to a sum and rounded once, in
//! sixteen lanes.
//!
//! ```text
//! for lane in 0..16: sums[lane] = fma(a[lane], b[lane], sums[lane])
//! ```
//!
//! Where there is an instruction for that, the sums are a vector (see [`Sums`](super::lanes::Sums)).
//! WebAssembly has none. What [`Wide`] does there instead:
//!
//! 1. It multiplies and adds in f64 and rounds to the 24 bits of an f32 by Veltkamp's splitting ([`single`]).
//!    The sums stay in f64, where their values are those of f32.
//! 2. If one of the f64 sums may be a middle between two f32, or is not in f32's normal range, all are added
//!    again, rounding to odd ([`to_odd`]), and converted to f32 and back.
//!
//! Why it is exact: the product of two f32 has at most 48 significant bits and an exponent far inside of
//! f64's range, so it is exact. The sum is rounded to 53 bits, and then to 24. Rounding twice differs from
//! rounding once only if the first result lies in the middle between two neighbouring f32 and the exact sum
//! does not. Such a middle has 25 significant bits: the last 29 of its 53 are a 1 and zeros. Rounding to
//! odd keeps two or more extra bits and never gives such a middle unless it is the exact sum, so that
//! rounding its result to f32 is rounding the exact sum, subnormal results included (Boldo, Melquiond:
//! Emulation of FMA and correctly rounded sums, 2008). Infinities and NaN are what f32 makes of them.

use std::ops::{Add, Mul, Sub};

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16, f64x8, i64x8, u32x4, u32x16};

/// Sums that are kept in f64, where there is no fused multiply-add.
#[cfg_attr(not(any(test, target_arch = "wasm32")), allow(dead_code, reason = "only WebAssembly needs it"))]
#[derive(Clone, Copy)]
pub(crate) struct Wide<S: Simd>(f64x8<S>, f64x8<S>);

impl<S: Simd> From<f32x16<S>> for Wide<S> {
    #[inline(always)]
    fn from(lanes: f32x16<S>) -> Self {
        let (low, high) = lanes.widen();
        Self(low, high)
    }
}

impl<S: Simd> Wide<S> {
    /// Sums of nothing.
    #[inline(always)]
    pub(super) fn zero(simd: S) -> Self {
        Self(f64x8::splat(simd, 0.0), f64x8::splat(simd, 0.0))
    }

    /// The sums after `a · b` was added, rounded once.
    #[inline(always)]
    pub(super) fn plus(self, a: f32x16<S>, b: f32x16<S>) -> Self {
        let ((a, c), (b, d)) = (a.widen(), b.widen());
        let (low, high) = (a * b, c * d);
        let (sum, other) = (low + self.0, high + self.1);
        if is_doubtful(sum, other) {
            return Self::from(to_odd(low, self.0).narrow(to_odd(high, self.1)));
        }
        Self(single(sum), single(other))
    }

    /// The sums as f32, which they are.
    #[inline(always)]
    pub(super) fn lanes(self) -> f32x16<S> {
        self.0.narrow(self.1)
    }
}

/// Rounds to the nearest number of 24 significant bits, which is what f32 has in its normal range.
///
/// This is Veltkamp's splitting (Boldo: Pitfalls of a full floating-point proof, 2006). In a tie the sum has
/// 25 significant bits, so that 2^29 times the sum is an even multiple of the last place: the tie goes to the
/// even neighbour, as in f32. Converting to f32 and back takes twice as long.
#[inline(always)]
pub(super) fn single<V>(sum: V) -> V
where
    V: Copy + Add<Output = V> + Sub<Output = V> + Mul<f64, Output = V>,
{
    let product = sum * 536_870_913.0;
    (sum - product) + product
}

/// Whether a sum may be a middle between two f32, or is not surely one of f32's normal numbers; 0 is not.
#[inline(always)]
fn is_doubtful<S: Simd>(sum: f64x8<S>, other: f64x8<S>) -> bool {
    /// The exponents of 2^-126 and 2^127, at their place in an upper word without the sign.
    const RANGE: (u32, u32) = (897 << 21, 1150 << 21);
    let simd = sum.simd;
    let (bits, others): (u32x16<S>, u32x16<S>) = (sum.bitcast(), other.bitcast());
    // A lower word that ends in a 1 and 28 zeros becomes the largest.
    let lower = |bits: u32x16<S>| (bits << 3) ^ 0x7fff_ffff;
    let upper = |bits: u32x16<S>| (bits << 1) - RANGE.0;
    let (lower, upper) = (lower(bits).max(lower(others)), upper(bits).max(upper(others)));
    let is_upper = u32x4::load_array(simd, [0, u32::MAX, 0, u32::MAX]);
    let (lower, upper) = (largest(lower) & !is_upper, largest(upper) & is_upper);
    (lower.simd_eq(u32::MAX) | upper.simd_ge(RANGE.1 - RANGE.0)).any_true()
}

/// The largest of the lanes that are four apart.
#[inline(always)]
fn largest<S: Simd>(lanes: u32x16<S>) -> u32x4<S> {
    let (low, high) = lanes.split();
    let (low, high) = low.max(high).split();
    low.max(high)
}

/// `a + b` rounded to odd: a sum that is not exact is one of the two neighbours, that whose last bit is 1.
///
/// The error of a rounded sum is exact in f64 (Knuth). Where there is one and the last bit is 0, the exact
/// sum lies between the rounded one and its neighbour on the error's side. Of bits without a sign, the
/// neighbour is one more if the error has the sum's sign, else one less. Infinite sums have an error that
/// is NaN, and stay.
#[inline(never)]
fn to_odd<S: Simd>(a: f64x8<S>, b: f64x8<S>) -> f64x8<S> {
    let sum = a + b;
    let back = sum - a;
    let error = (a - (sum - back)) + (b - back);
    let (bits, errors): (i64x8<S>, i64x8<S>) = (sum.bitcast(), error.bitcast());
    // -1 where the signs differ, else 0.
    let sign = (bits ^ errors) >> 63;
    let is_rounded = error.simd_gt(0.0) | error.simd_lt(0.0);
    let is_even = (bits & 1).simd_eq(0);
    (is_rounded & is_even).select(bits + (sign | 1), bits).bitcast()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::lanes::{Instructions, vectorized};
    use onedraw::Kernel;
    use onedraw::math::fma;

    /// Random bits, the same on every run.
    struct Bits(u64);

    impl Bits {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        }

        /// Any f32.
        fn any(&mut self) -> f32 {
            f32::from_bits(self.next() as u32)
        }

        /// An f32 whose exponent lies in a range.
        fn between(&mut self, low: i32, high: i32) -> f32 {
            let word = self.next();
            let exponent = low + (word >> 40) as i32 % (high - low);
            f32::from_bits((word as u32 & 0x807f_ffff) | ((exponent + 127) as u32) << 23)
        }

        /// A bfloat16.
        fn short(&mut self) -> f32 {
            f32::from_bits(self.between(-6, 6).to_bits() & 0xffff_0000)
        }
    }

    fn check(what: &str, mut case: impl FnMut() -> [f32; 3], rounds: usize) {
        for _ in 0..rounds {
            let cases: [[f32; 3]; 16] = std::array::from_fn(|_| case());
            let [a, b, c]: [[f32; 16]; 3] = std::array::from_fn(|i| cases.map(|case| case[i]));
            let instructions = Instructions::of(Kernel::Scalar).expect("a kernel");
            let found: [f32; 16] = vectorized!(instructions, simd => {
                let [a, b, c] = [a, b, c].map(|lanes| f32x16::load_array(simd, lanes));
                Wide::from(c).plus(a, b).lanes().into()
            });
            for (lane, case) in cases.into_iter().enumerate() {
                let expected = fma(case[0], case[1], case[2]);
                let found = found[lane];
                let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
                assert!(same, "{what}: fma of {case:?} is {expected:e}, not {found:e}");
            }
        }
    }

    /// How many times sixteen cases there are of each kind.
    const ROUNDS: usize = 200_000;

    #[test]
    fn sums_of_any_numbers_are_rounded_once() {
        let mut bits = Bits(1);
        check("any", || [bits.any(), bits.any(), bits.any()], ROUNDS);
        check("a model's", || [bits.short(), bits.between(-8, 8), bits.between(-12, 12)], ROUNDS);
        check("near", || [bits.between(-3, 3), bits.between(-3, 3), bits.between(-6, 6)], ROUNDS);
        check("small", || [bits.between(-80, -60), bits.between(-75, -55), bits.between(-127, -110)], ROUNDS);
        check("large", || [bits.between(60, 65), bits.between(58, 64), bits.between(120, 127)], ROUNDS);
    }

    /// Sums that are a middle between two f32 but for a bit far below, from the subnormal to the largest:
    /// what rounding twice gets wrong.
    #[test]
    fn sums_beside_a_middle_are_rounded_once() {
        /// Their products are 2^30 + 1 and 2^30 - 1.
        const FACTORS: [(f32, f32); 2] = [(205.0, 5_237_765.0), (32_767.0, 32_769.0)];
        let power = |exponent: i32| f32::from_bits(((exponent + 127) as u32) << 23);
        let (mut bits, mut missed) = (Bits(2), 0);
        let case = || {
            let word = bits.next();
            let (a, b) = FACTORS[word as usize & 1];
            // The product is about 2^(30 + exponent): half of the last bit of `c`.
            let exponent = ((word >> 32) % 254) as i32 - 180;
            let sign = if word & 2 == 0 { 1.0 } else { -1.0 };
            let (a, b) = (a * power(exponent / 2) * sign, b * power(exponent - exponent / 2));
            let mantissa = if word & 4 == 0 { word as u32 >> 3 } else { u32::MAX } & 0x7f_ffff;
            let top = (exponent + 54 + 127) as u32;
            let subnormal = if top == 1 { 0x40_0000 } else { top << 23 };
            let c = f32::from_bits(subnormal | mantissa | (word as u32 & 8) << 28);
            let twice = (f64::from(a) * f64::from(b) + f64::from(c)) as f32;
            missed += usize::from(twice != fma(a, b, c));
            [a, b, c]
        };
        check("beside a middle", case, ROUNDS);
        // So these cases do tell one rounding from two.
        assert!(missed > ROUNDS * 4, "{missed}");
    }
}
