//! Whether any logit is NaN, found on the way past it.

#[cfg(target_arch = "x86_64")]
use fearless_simd::Avx512;
use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16};

use crate::kernels::block::Four;

/// A check that goes on from block to block.
pub(crate) trait Check<S: Simd>: Copy {
    /// Whether what it finds is NaN for sure.
    const IS_EXACT: bool;

    fn new(simd: S) -> Self;

    /// After one more block.
    fn after(self, simd: S, four: Four<S>) -> Self;

    /// Whether it found none. Where it is not exact, it may find what is not there.
    fn is_sound(self) -> bool;
}

/// The sum of the products of neighbours: one operation for two vectors. −inf can make it NaN too.
#[derive(Clone, Copy)]
pub(crate) struct Products<S: Simd>(f32x16<S>);

impl<S: Simd> Check<S> for Products<S> {
    const IS_EXACT: bool = false;

    #[inline(always)]
    fn new(simd: S) -> Self {
        Self(f32x16::splat(simd, 0.0))
    }

    #[inline(always)]
    fn after(self, _: S, (a, b, c, d): Four<S>) -> Self {
        Self(c.mul_add(d, a.mul_add(b, self.0)))
    }

    #[inline(always)]
    fn is_sound(self) -> bool {
        is_number(self.0)
    }
}

/// The sum of the logits, which neither −inf nor finite logits make NaN unless it overflows.
#[derive(Clone, Copy)]
pub(crate) struct Sums<S: Simd>(f32x16<S>);

impl<S: Simd> Check<S> for Sums<S> {
    const IS_EXACT: bool = false;

    #[inline(always)]
    fn new(simd: S) -> Self {
        Self(f32x16::splat(simd, 0.0))
    }

    #[inline(always)]
    fn after(self, _: S, (a, b, c, d): Four<S>) -> Self {
        Self(self.0 + ((a + b) + (c + d)))
    }

    #[inline(always)]
    fn is_sound(self) -> bool {
        is_number(self.0)
    }
}

/// Which lanes were always numbers: a comparison of two vectors under a mask, which AVX-512 keeps beside the
/// vectors.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Ordered(u16);

#[cfg(target_arch = "x86_64")]
impl Check<Avx512> for Ordered {
    const IS_EXACT: bool = true;

    #[inline(always)]
    fn new(_: Avx512) -> Self {
        Self(u16::MAX)
    }

    #[inline(always)]
    fn after(self, simd: Avx512, (a, b, c, d): Four<Avx512>) -> Self {
        fearless_simd::kernel!(
            #[inline(always)]
            fn ordered(_simd: Avx512, so_far: u16, a: f32x16<Avx512>, b: f32x16<Avx512>) -> u16 {
                use std::arch::x86_64::*;
                _mm512_mask_cmp_ps_mask::<_CMP_ORD_Q>(so_far, a.into(), b.into())
            }
        );
        Self(ordered(simd, ordered(simd, self.0, a, b), c, d))
    }

    #[inline(always)]
    fn is_sound(self) -> bool {
        self.0 == u16::MAX
    }
}

#[inline(always)]
fn is_number<S: Simd>(lanes: f32x16<S>) -> bool {
    lanes.simd_eq(lanes).to_bitmask() == 0xffff
}
