//! Weights of three types, read from where they lie in a file and widened to f32, exactly.

use std::ops::Range;

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16, i32x16, u16x32, u32x16};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// How many numbers one step of a dot product takes.
pub(crate) const STEP: usize = 32;

/// A type of weights.
pub(crate) trait Element: Copy + Send + Sync + bytemuck::Pod {
    /// Whether it is bfloat16.
    const IS_BF16: bool = false;

    /// Thirty-two neighbours as f32: those at even places, and those at odd places.
    fn load<S: Simd>(simd: S, weights: &[Self; STEP]) -> (f32x16<S>, f32x16<S>);

    /// The number as f32.
    fn widen(self) -> f32;
}

/// A slice of weights of any of the types.
#[derive(Clone, Copy)]
pub(crate) enum Elements<'a> {
    Bf16(&'a [bf16]),
    F16(&'a [f16]),
    F32(&'a [f32]),
}

impl Elements<'_> {
    /// The weights of a range.
    pub(crate) fn slice(self, range: Range<usize>) -> Self {
        match self {
            Self::Bf16(weights) => Self::Bf16(&weights[range]),
            Self::F16(weights) => Self::F16(&weights[range]),
            Self::F32(weights) => Self::F32(&weights[range]),
        }
    }

    /// Writes the weights, as f32, into a slice of the same length.
    pub(crate) fn widen(self, numbers: &mut [f32]) {
        fn widen<W: Element>(weights: &[W], numbers: &mut [f32]) {
            weights.iter().zip(numbers).for_each(|(weight, number)| *number = weight.widen());
        }
        match self {
            Self::Bf16(weights) => widen(weights, numbers),
            Self::F16(weights) => widen(weights, numbers),
            Self::F32(weights) => widen(weights, numbers),
        }
    }
}

impl Element for f32 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, weights: &[f32; STEP]) -> (f32x16<S>, f32x16<S>) {
        let (a, b) = (f32x16::from_slice(simd, &weights[..16]), f32x16::from_slice(simd, &weights[16..]));
        (a.unzip_low(b), a.unzip_high(b))
    }

    fn widen(self) -> f32 {
        self
    }
}

impl Element for bf16 {
    const IS_BF16: bool = true;

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

impl Element for f16 {
    #[inline(always)]
    fn load<S: Simd>(simd: S, weights: &[f16; STEP]) -> (f32x16<S>, f32x16<S>) {
        let pairs = pairs(simd, weights.reinterpret_cast());
        (widened(pairs & 0xffff), widened(pairs >> 16))
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}

/// Two neighbours in each lane, the first in its lower half.
#[inline(always)]
fn pairs<S: Simd>(simd: S, bits: &[u16]) -> u32x16<S> {
    u16x32::from_slice(simd, bits).bitcast()
}

/// IEEE halves in the lower half of each lane, as f32.
///
/// The exponent's bias grows from 15 to 127, so its bits, moved to their place, are multiplied by 2^112. That
/// is exact, for subnormal halves too. A product of 2^16 or more was infinite or NaN and gets the exponent of
/// these.
#[inline(always)]
fn widened<S: Simd>(bits: u32x16<S>) -> f32x16<S> {
    const BIAS: f32 = f32::from_bits((127 + 112) << 23);
    let magnitude: f32x16<S> = ((bits & 0x7fff) << 13).bitcast();
    let magnitude = magnitude * BIAS;
    let number: i32x16<S> = magnitude.bitcast();
    let sign: i32x16<S> = ((bits & 0x8000) << 16).bitcast();
    (magnitude.simd_ge(65536.0).select(number | 0x7f80_0000, number) | sign).bitcast()
}
