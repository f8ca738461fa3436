//! Which of a block's 64 logits lie in a part of the order.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, mask32x16};

use crate::kernels::block::at_least;
use crate::kernels::lanes::Lanes;
use crate::kernels::logit::Logit;
use crate::numeric::key::Key;
use crate::numeric::noise::BLOCK;

/// Which of up to 64 block maxima are at least `logit`, one bit each.
#[inline(always)]
pub(crate) fn reaching<S: Lanes>(simd: S, maxima: &[f32], logit: f32) -> u64 {
    match maxima.first_chunk::<BLOCK>() {
        Some(maxima) => at_least(f32::load(simd, maxima), logit),
        None => maxima.iter().rev().fold(0, |bits, &x| bits << 1 | u64::from(x >= logit)),
    }
}

/// Which of 64 logits are at least `lowest` and below `limit`, one bit each.
#[inline(always)]
pub(crate) fn between<S: Lanes>(simd: S, lanes: &[f32; BLOCK], lowest: f32, limit: f32) -> u64 {
    let (a, b, c, d) = f32::load(simd, lanes);
    let (a, b) = (a.simd_ge(lowest) & a.simd_lt(limit), b.simd_ge(lowest) & b.simd_lt(limit));
    let (c, d) = (c.simd_ge(lowest) & c.simd_lt(limit), d.simd_ge(lowest) & d.simd_lt(limit));
    a.to_bitmask() | b.to_bitmask() << 16 | c.to_bitmask() << 32 | d.to_bitmask() << 48
}

/// Which of 64 logits, the first of which belongs to token `first`, come no later than `last` in the order,
/// one bit each.
#[inline(always)]
pub(crate) fn up_to<S: Lanes>(simd: S, lanes: &[f32; BLOCK], first: u32, last: Key) -> u64 {
    let four = f32::load(simd, lanes);
    let reaching = at_least(four, last.logit());
    let before = last.token().wrapping_sub(first);
    if last.token() >= first && before >= BLOCK as u32 - 1 {
        return reaching;
    }
    // Of the logits equal to that of `last`, those with ids up to its id.
    let lower = if last.token() >= first { u64::MAX >> (63 - before) } else { 0 };
    reaching & (lower | at_least(four, last.logit().next_up()))
}

/// The logits whose bit is set; −inf for the others.
#[inline(always)]
pub(crate) fn only<'b, S: Lanes>(
    simd: S,
    lanes: &'b [f32; BLOCK],
    bits: u64,
    buffer: &'b mut [f32; BLOCK],
) -> &'b [f32; BLOCK] {
    only_or(simd, lanes, bits, f32::NEG_INFINITY, buffer)
}

/// The logits whose bit is set; `other` for the others.
#[inline(always)]
pub(crate) fn only_or<'b, S: Lanes>(
    simd: S,
    lanes: &'b [f32; BLOCK],
    bits: u64,
    other: f32,
    buffer: &'b mut [f32; BLOCK],
) -> &'b [f32; BLOCK] {
    if bits == u64::MAX {
        return lanes;
    }
    let other = f32x16::splat(simd, other);
    for i in 0..BLOCK / 16 {
        let mask = mask32x16::from_bitmask(simd, bits >> (16 * i) & 0xffff);
        let logits = f32x16::from_slice(simd, &lanes[16 * i..16 * i + 16]);
        mask.select(logits, other).store_slice(&mut buffer[16 * i..16 * i + 16]);
    }
    buffer
}
