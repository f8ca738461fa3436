//! Checks that find out, while a row is read for another reason, whether any logit is NaN.
//!
//! The naive loop:
//!
//! ```text
//! for each logit x:
//!     if x ≠ x: is_sound = false
//! ```
//!
//! What the checks do differently: they put every logit into a running result that becomes NaN with it, and
//! look at that result once, at the end. [`Products`] needs one operation for two vectors, [`Sums`] needs one
//! for each vector, and [`Ordered`] compares two vectors at a time.
//!
//! Why no NaN is missed: a product or a sum with a NaN operand is NaN, and stays NaN. The other direction
//! does not hold for [`Products`] and [`Sums`]: −inf or an overflow can make them NaN without any NaN in the
//! row. They may report a NaN that is not there, so the caller looks again; see `kernels/skyline.rs`.

#[cfg(target_arch = "x86_64")]
use fearless_simd::Avx512;
use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16};

use crate::kernels::block::Four;

/// A check that accumulates from block to block.
pub(crate) trait Check<S: Simd>: Copy {
    /// Whether a row that it calls unsound has a NaN for certain.
    const IS_EXACT: bool;

    /// A check that has seen no block.
    fn new(simd: S) -> Self;

    /// The check after one more block.
    fn after(self, simd: S, four: Four<S>) -> Self;

    /// Whether it found no NaN. A check that is not exact may find one that is not there.
    fn is_sound(self) -> bool;
}

/// The sum of the products of two vectors each: one operation for two vectors. −inf can make it NaN too, for
/// example as `−inf · 0` or `inf − inf`.
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

/// The sum of the logits. Finite logits and −inf make it NaN only if it overflows.
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

/// A mask of the lanes that held no NaN so far. One instruction compares two vectors under that mask, and
/// AVX-512 keeps masks in registers of their own.
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

/// Whether no lane is NaN.
#[inline(always)]
fn is_number<S: Simd>(lanes: f32x16<S>) -> bool {
    lanes.simd_eq(lanes).to_bitmask() == 0xffff
}
