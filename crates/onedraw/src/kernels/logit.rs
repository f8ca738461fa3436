//! Reading logits of any type into vectors, where they lie.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, u16x32, u32x16};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

use crate::kernels::lanes::Lanes;
use crate::noise::BLOCK;

/// Sixteen logits or block maxima at a time, four times: a block.
pub(crate) type Four<S> = (f32x16<S>, f32x16<S>, f32x16<S>, f32x16<S>);

/// A type of logits.
pub(crate) trait Logit: Copy {
    /// The logits of a block, widened exactly.
    fn load<S: Lanes>(simd: S, lanes: &[Self; BLOCK]) -> Four<S>;
}

impl Logit for f32 {
    #[inline(always)]
    fn load<S: Lanes>(simd: S, lanes: &[f32; BLOCK]) -> Four<S> {
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
    fn load<S: Lanes>(simd: S, lanes: &[bf16; BLOCK]) -> Four<S> {
        halves(simd, lanes.reinterpret_cast(), bf16_bits)
    }
}

impl Logit for f16 {
    #[inline(always)]
    fn load<S: Lanes>(simd: S, lanes: &[f16; BLOCK]) -> Four<S> {
        halves(
            simd,
            lanes.reinterpret_cast(),
            #[inline(always)]
            |bits| simd.widen_halves(bits),
        )
    }
}

#[inline(always)]
fn halves<S: Lanes>(simd: S, bits: &[u16], widen: impl Fn(u32x16<S>) -> f32x16<S>) -> Four<S> {
    let (a, b) = u16x32::from_slice(simd, &bits[..32]).widen();
    let (c, d) = u16x32::from_slice(simd, &bits[32..64]).widen();
    (widen(a), widen(b), widen(c), widen(d))
}

/// A bfloat16 is the upper half of an f32.
#[inline(always)]
fn bf16_bits<S: Lanes>(bits: u32x16<S>) -> f32x16<S> {
    (bits << 16).bitcast()
}

/// Which of 64 logits are `logit` or more, a bit each.
#[inline(always)]
pub(crate) fn at_least<S: Lanes>((a, b, c, d): Four<S>, logit: f32) -> u64 {
    let (a, b) = (a.simd_ge(logit).to_bitmask(), b.simd_ge(logit).to_bitmask());
    let (c, d) = (c.simd_ge(logit).to_bitmask(), d.simd_ge(logit).to_bitmask());
    a | b << 16 | c << 32 | d << 48
}
