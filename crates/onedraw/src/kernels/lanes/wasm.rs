//! The operations that WebAssembly's vectors of 128 bits do in other ways.

use core::arch::wasm32::{
    f32x4_extract_lane, f32x4_pmax, i32x4_shuffle, u32x4_shuffle, u32x4_splat, u64x2_extmul_high_u32x4,
    u64x2_extmul_low_u32x4, v128, v128_xor,
};
use std::hint::black_box;

use fearless_simd::prelude::*;
use fearless_simd::{f32x4, f32x16, f64x8, i32x16, u32x4, u32x16};

use crate::kernels::lanes::{Baseline, Lanes, Words};
use crate::kernels::sound::Products;
use crate::numeric::mass::{POWERS, ROUND, UNIT};
use crate::numeric::noise::{Noise, Purpose};

/// WebAssembly's vectors have neither a fused multiply-add nor a maximum in one instruction of the
/// processor: theirs says which zero is larger, and passes NaN on.
impl Lanes for Baseline {
    const IS_WIDE: bool = false;

    type Check = Products<Self>;

    /// The "pseudo-maximum", which is the processor's.
    #[inline(always)]
    fn larger(self, a: f32x16<Self>, b: f32x16<Self>) -> f32x16<Self> {
        let (((a, b), (c, d)), ((e, f), (g, h))) = (quarters(a), quarters(b));
        let pair = |a: f32x4<Self>, b: f32x4<Self>, c: f32x4<Self>, d: f32x4<Self>| {
            let low: f32x4<Self> = f32x4_pmax(a.into(), b.into()).simd_into(self);
            let high: f32x4<Self> = f32x4_pmax(c.into(), d.into()).simd_into(self);
            low.combine(high)
        };
        pair(a, e, b, f).combine(pair(c, g, d, h))
    }

    #[inline(always)]
    fn largest(self, lanes: f32x16<Self>) -> f32 {
        let ((a, b), (c, d)) = quarters(lanes);
        let four = f32x4_pmax(f32x4_pmax(a.into(), b.into()), f32x4_pmax(c.into(), d.into()));
        let two = f32x4_pmax(four, i32x4_shuffle::<2, 3, 0, 1>(four, four));
        f32x4_extract_lane::<0>(f32x4_pmax(two, i32x4_shuffle::<1, 0, 3, 2>(two, two)))
    }

    /// The polynomial of the default, with each multiply-add in f64, rounded to the 24 bits of an f32 by
    /// Veltkamp's splitting ([`single`]). The conversions to f32 and back would take twice as long.
    ///
    /// The product of two f32 is exact in f64, so the result is rounded twice, which differs from rounding
    /// once only where the first result lies in the middle between two neighbouring f32. None here is
    /// subnormal in f32, so the last 29 bits of such a middle are a 1 and then zeros: shifted, the lower
    /// word is the least integer. The upper word is that only beyond f32. Where there may be a middle, all
    /// sixteen are computed again one by one.
    #[inline(always)]
    fn powers(self, t: f32x16<Self>) -> f32x16<Self> {
        #[inline(never)]
        fn one_by_one(t: [f32; 16]) -> [f32; 16] {
            t.map(crate::numeric::mass::exp2_scaled)
        }
        const SCALE: f64 = UNIT as f64;
        let limited = self.larger(f32x16::splat(self, -64.0), t);
        let shifted = limited + ROUND;
        let (f, g) = (limited - (shifted - ROUND)).widen();
        let [c1, c2, c3, c4, c5, c6] = POWERS.map(|coefficient| f64::from(coefficient) * SCALE);
        let (mut p, mut q) = (f64x8::splat(self, c6), f64x8::splat(self, c6));
        let mut least = i32x16::splat(self, i32::MAX);
        for coefficient in [c5, c4, c3, c2, c1, SCALE] {
            (p, q) = (p * f + coefficient, q * g + coefficient);
            least = least.min(p.bitcast::<i32x16<Self>>() << 3).min(q.bitcast::<i32x16<Self>>() << 3);
            (p, q) = (single(p), single(q));
        }
        if least.simd_eq(i32::MIN).any_true() {
            return f32x16::load_array(self, one_by_one(t.into()));
        }
        let (power, n): (u32x16<Self>, u32x16<Self>) = (p.narrow(q).bitcast(), shifted.bitcast());
        (power + (n << 23)).bitcast()
    }

    /// A product of 64 bits takes about eight instructions here. The products of two vectors of 32 bits take
    /// three for each half, so the words stay packed, and shuffles part the products into upper and lower words.
    #[inline(always)]
    fn philox(self, noise: &Noise, purpose: Purpose, index: u32x16<Self>) -> Words<Self> {
        let (low, high) = index.split();
        let ((a, b), (c, d)) = (low.split(), high.split());
        let [a, b, c, d] = [a, b, c, d].map(|index| four_calls(noise, purpose, index.into()));
        let word = |n: usize| {
            let [a, b, c, d] = [a[n], b[n], c[n], d[n]].map(|word| -> u32x4<Self> { word.simd_into(self) });
            a.combine(b).combine(c.combine(d))
        };
        (word(0), word(1), word(2), word(3))
    }
}

/// Four Philox calls, one per lane, between two rounds: their words, and the key.
type Calls = ([v128; 4], [u32; 2]);

/// The four words of four Philox calls.
#[inline(always)]
fn four_calls(noise: &Noise, purpose: Purpose, index: v128) -> [v128; 4] {
    let splat = |word: u32| u32x4_splat(word);
    // Were the factors known, or the rounds in a loop, the compiler would widen the factors before, and multiply
    // 64 bits by them.
    let factors = black_box([splat(0xd251_1f53), splat(0xcd9e_8d57)]);
    let next = |calls| round(calls, factors);
    let last = purpose as u32 | noise.round << 8;
    let words = [index, splat(noise.position), splat(noise.sequence), splat(last)];
    let key = [noise.seed as u32, (noise.seed >> 32) as u32];
    let half = next(next(next(next(next((words, key))))));
    next(next(next(next(next(half))))).0
}

#[inline(always)]
fn round(([c0, c1, c2, c3], [k0, k1]): Calls, [m0, m1]: [v128; 2]) -> Calls {
    let product = |a: v128, b: v128| {
        let (low, high) = (u64x2_extmul_low_u32x4(a, b), u64x2_extmul_high_u32x4(a, b));
        (u32x4_shuffle::<1, 3, 5, 7>(low, high), u32x4_shuffle::<0, 2, 4, 6>(low, high))
    };
    let ((upper0, lower0), (upper1, lower1)) = (product(c0, m0), product(c2, m1));
    let first = v128_xor(v128_xor(upper1, c1), u32x4_splat(k0));
    let third = v128_xor(v128_xor(upper0, c3), u32x4_splat(k1));
    let key = [k0.wrapping_add(0x9e37_79b9), k1.wrapping_add(0xbb67_ae85)];
    ([first, lower1, third, lower0], key)
}

/// Rounds to the nearest number of 24 significant bits (Boldo: Pitfalls of a full floating-point proof,
/// 2006).
#[inline(always)]
fn single(sum: f64x8<Baseline>) -> f64x8<Baseline> {
    let product = sum * 536_870_913.0;
    (sum - product) + product
}

/// A vector as WebAssembly's four.
#[inline(always)]
#[allow(clippy::type_complexity)]
fn quarters(
    lanes: f32x16<Baseline>,
) -> ((f32x4<Baseline>, f32x4<Baseline>), (f32x4<Baseline>, f32x4<Baseline>)) {
    let (low, high) = lanes.split();
    (low.split(), high.split())
}
