//! Weights as they lie in a file, widened exactly as they are read.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16, i32x16, u16x32, u32x16};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// How many numbers a step of a dot product takes.
pub(crate) const STEP: usize = 32;

/// A type of weights.
pub(crate) trait Weight: Copy + Send + Sync + bytemuck::Pod {
    /// Thirty-two neighbours: those of even places, and those of odd ones.
    fn load<S: Simd>(simd: S, weights: &[Self; STEP]) -> (f32x16<S>, f32x16<S>);

    /// The number.
    fn widen(self) -> f32;
}

impl Weight for f32 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, weights: &[f32; STEP]) -> (f32x16<S>, f32x16<S>) {
        let (a, b) = (f32x16::from_slice(simd, &weights[..16]), f32x16::from_slice(simd, &weights[16..]));
        (a.unzip_low(b), a.unzip_high(b))
    }

    fn widen(self) -> f32 {
        self
    }
}

impl Weight for bf16 {
    /// A bfloat16 is the upper half of an f32.
    #[inline(always)]
    fn load<S: Simd>(simd: S, weights: &[bf16; STEP]) -> (f32x16<S>, f32x16<S>) {
        let pairs = pairs(simd, weights.reinterpret_cast());
        ((pairs << 16).bitcast(), (pairs & 0xffff_0000).bitcast())
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}

impl Weight for f16 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, weights: &[f16; STEP]) -> (f32x16<S>, f32x16<S>) {
        let pairs = pairs(simd, weights.reinterpret_cast());
        (widened(pairs & 0xffff), widened(pairs >> 16))
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}

/// Two neighbours a lane, the first in the lower half.
#[inline(always)]
fn pairs<S: Simd>(simd: S, bits: &[u16]) -> u32x16<S> {
    u16x32::from_slice(simd, bits).bitcast()
}

/// Halves of IEEE: the exponent's bias grows by 112, which a product with 2^112 does exactly; what then is 2^16 or more was infinite or no
/// number.
#[inline(always)]
fn widened<S: Simd>(bits: u32x16<S>) -> f32x16<S> {
    const BIAS: f32 = f32::from_bits((127 + 112) << 23);
    let magnitude: f32x16<S> = ((bits & 0x7fff) << 13).bitcast();
    let magnitude = magnitude * BIAS;
    let number: i32x16<S> = magnitude.bitcast();
    let sign: i32x16<S> = ((bits & 0x8000) << 16).bitcast();
    (magnitude.simd_ge(65536.0).select(number | 0x7f80_0000, number) | sign).bitcast()
}
