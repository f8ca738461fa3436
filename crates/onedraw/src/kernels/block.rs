//! A block of 64 numbers as four vectors of sixteen lanes.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16};

use crate::numeric::noise::BLOCK;

/// The numbers of one block, sixteen in each vector.
pub(crate) type Four<S> = (f32x16<S>, f32x16<S>, f32x16<S>, f32x16<S>);

/// A mask of 64 bits: bit i is set where number i is at least `limit`.
#[inline(always)]
pub(crate) fn at_least<S: Simd>((a, b, c, d): Four<S>, limit: f32) -> u64 {
    let (a, b) = (a.simd_ge(limit).to_bitmask(), b.simd_ge(limit).to_bitmask());
    let (c, d) = (c.simd_ge(limit).to_bitmask(), d.simd_ge(limit).to_bitmask());
    a | b << 16 | c << 32 | d << 48
}

/// A mask of 64 bits: bit i is set where number i is at most `limit`.
#[inline(always)]
pub(crate) fn at_most<S: Simd>((a, b, c, d): Four<S>, limit: f32) -> u64 {
    let (a, b) = (a.simd_le(limit).to_bitmask(), b.simd_le(limit).to_bitmask());
    let (c, d) = (c.simd_le(limit).to_bitmask(), d.simd_le(limit).to_bitmask());
    a | b << 16 | c << 32 | d << 48
}

/// Writes 64 numbers to memory.
#[inline(always)]
pub(crate) fn store<S: Simd>((a, b, c, d): Four<S>, to: &mut [f32; BLOCK]) {
    a.store_slice(&mut to[..16]);
    b.store_slice(&mut to[16..32]);
    c.store_slice(&mut to[32..48]);
    d.store_slice(&mut to[48..]);
}
