//! The exponential in f32, by the same operations everywhere.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16, u32x16};

/// e^x, within 3 units of the last place, for x at most 88; 0 below −87.
#[inline(always)]
pub(crate) fn exp<S: Simd>(x: f32x16<S>) -> f32x16<S> {
    /// Adding it leaves the nearest integer in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    /// ln 2 in two parts, the first short enough that its products with small integers are exact.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    let simd = x.simd;
    let splat = |number: f32| f32x16::splat(simd, number);
    let t = x.max(-87.5).min(88.0);
    let shifted = t.mul_add_precise(splat(std::f32::consts::LOG2_E), splat(ROUND));
    let n = shifted - ROUND;
    let f = n.mul_add_precise(splat(-LN_2.0), t);
    let f = n.mul_add_precise(splat(-LN_2.1), f);
    // The series of e^f for |f| up to ln 2 / 2.
    let mut power = splat(1.0 / 5040.0);
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        power = power.mul_add_precise(f, splat(coefficient));
    }
    let (bits, exponent): (u32x16<S>, u32x16<S>) = (power.bitcast(), shifted.bitcast());
    let scaled: f32x16<S> = (bits + (exponent << 23)).bitcast();
    x.simd_ge(-87.0).select(scaled, splat(0.0))
}
