//! Reading logits of any type into vectors, where they lie.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16, i32x16, u16x32, u32x16};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::noise::BLOCK;

/// Sixteen logits or block maxima at a time, four times: a block.
pub(crate) type Four<S> = (f32x16<S>, f32x16<S>, f32x16<S>, f32x16<S>);

/// A type of logits.
pub(crate) trait Logit: Copy {
    /// The logits of a block, widened exactly.
    fn load<S: Simd>(simd: S, lanes: &[Self; BLOCK]) -> Four<S>;
}

impl Logit for f32 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, lanes: &[f32; BLOCK]) -> Four<S> {
        (
            f32x16::from_slice(simd, &lanes[..16]),
            f32x16::from_slice(simd, &lanes[16..32]),
            f32x16::from_slice(simd, &lanes[32..48]),
            f32x16::from_slice(simd, &lanes[48..]),
        )
    }
}

impl Logit for bf16 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, lanes: &[bf16; BLOCK]) -> Four<S> {
        halves(simd, lanes.reinterpret_cast(), bf16_bits)
    }
}

impl Logit for f16 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, lanes: &[f16; BLOCK]) -> Four<S> {
        halves(simd, lanes.reinterpret_cast(), f16_bits)
    }
}

#[inline(always)]
fn halves<S: Simd>(simd: S, bits: &[u16], widen: impl Fn(u32x16<S>) -> f32x16<S>) -> Four<S> {
    let (a, b) = u16x32::from_slice(simd, &bits[..32]).widen();
    let (c, d) = u16x32::from_slice(simd, &bits[32..64]).widen();
    (widen(a), widen(b), widen(c), widen(d))
}

/// A bfloat16 is the upper half of an f32.
#[inline(always)]
fn bf16_bits<S: Simd>(bits: u32x16<S>) -> f32x16<S> {
    (bits << 16).bitcast()
}

/// The exponent's bias grows by 112, which a product with 2^112 does, exactly, for subnormal numbers too. What then is 2^16 or more
/// was no number.
#[inline(always)]
fn f16_bits<S: Simd>(bits: u32x16<S>) -> f32x16<S> {
    const BIAS: f32 = f32::from_bits((127 + 112) << 23);
    let magnitude: f32x16<S> = ((bits & 0x7fff) << 13).bitcast();
    let magnitude = magnitude * BIAS;
    let widened: i32x16<S> = magnitude.bitcast();
    let special = widened | 0x7f80_0000;
    let is_special = magnitude.simd_ge(65536.0);
    let sign: i32x16<S> = ((bits & 0x8000) << 16).bitcast();
    (is_special.select(special, widened) | sign).bitcast()
}
