//! The exponential in f32, by the same operations on every machine.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, u32x16};

use crate::kernels::lanes::Lanes;

/// e^x for x at most 88, within 3 units in the last place; 0 for x below −87.
///
/// With n the integer nearest to x / ln 2 and f = x − n·ln 2, e^x = 2^n · e^f. The power of two is added to
/// the exponent's bits; e^f is its Taylor polynomial of degree 7, for |f| up to ln 2 / 2.
#[inline(always)]
pub(crate) fn exp<S: Lanes>(x: f32x16<S>) -> f32x16<S> {
    /// 1.5·2^23: adding it to a number leaves the nearest integer in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    /// ln 2 in two parts, the first short enough that its products with integers up to 128 are exact.
    const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
    /// 1/6! down to 1/0!.
    const TAYLOR: [f32; 7] = [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    let simd = x.simd;
    let splat = |number: f32| f32x16::splat(simd, number);
    let t = x.max(-87.5).min(88.0);
    let shifted = simd.fma(t, splat(std::f32::consts::LOG2_E), splat(ROUND));
    let n = shifted - ROUND;
    let f = simd.fma(n, splat(-LN_2.0), t);
    let f = simd.fma(n, splat(-LN_2.1), f);
    let mut power = splat(1.0 / 5040.0);
    for coefficient in TAYLOR {
        power = simd.fma(power, f, splat(coefficient));
    }
    let (bits, exponent): (u32x16<S>, u32x16<S>) = (power.bitcast(), shifted.bitcast());
    let scaled: f32x16<S> = (bits + (exponent << 23)).bitcast();
    x.simd_ge(-87.0).select(scaled, splat(0.0))
}
