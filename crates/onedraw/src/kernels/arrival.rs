//! The noise of the race, sixteen random words at a time, and lower bounds of arrival times in f32. The
//! bounds rule out all but a few tokens; only those few are scored in f64.
//!
//! The naive loop:
//!
//! ```text
//! for each token i:
//!     block = i / 64
//!     M = −ln(1 − u(block)) / 64                       the block's smallest E
//!     if i is the lane of the block that has M:
//!         E = M
//!     else:
//!         E = M − ln(1 − u(i))
//!     arrival = E / w(i)                               w(i) = 2^((x_i − x_max)·log2(e)/T)
//! the earliest arrival wins
//! ```
//!
//! What this code does differently:
//!
//! 1. Sixteen Philox calls run side by side. A call gives four words, one for each of four neighbouring ids
//!    (or blocks). Word j of all sixteen calls is vector j, so 64 neighbours lie as four vectors, and
//!    neighbour `4·i + j` is lane i of vector j. [`by_word`] brings logits into that layout and [`neighbour`]
//!    translates a bit of a mask back.
//! 2. `E = −ln(1 − u)` is replaced by the first three terms of its series, `u + u²/2 + u³/3`, with u rounded
//!    down to 24 bits.
//! 3. `1 / w` is replaced by `2^((x_max − x)·log2(e)/T)`, from a polynomial of degree 4 ([`delay`]).
//!
//! Why the winner is still exact:
//!
//! 1. Philox is integer arithmetic, so the words have the same bits in any order.
//! 2. Every term of the series `u + u²/2 + u³/3 + u⁴/4 + …` is positive, and rounding u down makes it
//!    smaller, so the result is a lower bound. Rounding in f32 can lift it above E by less than 1e-6 of E.
//! 3. The delay is within 1e-4 of the exact power, above or below.
//!
//! The race compares these bounds with a margin of 2^-10 in logarithms, which is larger than both errors
//! together. So no token that could win is ruled out, and the tokens that remain are scored in f64 with their
//! exact E.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, i32x16, u32x16};

use crate::kernels::block::Four;
use crate::kernels::lanes::{Lanes, Words};
use crate::numeric::mass::{POWERS, ROUND};
use crate::numeric::noise::{BLOCK, Noise, Purpose};

/// The number of Philox calls that run side by side: one per lane.
pub(crate) const CALLS: usize = 16;

/// The words of the sixteen calls `first` to `first + 15`.
#[inline(always)]
pub(crate) fn words<S: Lanes>(simd: S, noise: &Noise, purpose: Purpose, first: u32) -> Words<S> {
    const STEPS: [u32; CALLS] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
    simd.philox(noise, purpose, u32x16::load_array(simd, STEPS) + first)
}

/// A lower bound of E for sixteen random words: `u + u²/2 + u³/3`, with u rounded down to 24 bits.
#[inline(always)]
pub(crate) fn exponential_from<S: Lanes>(words: u32x16<S>) -> f32x16<S> {
    let bits: i32x16<S> = (words >> 8).bitcast();
    let u = bits.to_float::<f32x16<S>>() * (1.0 / 16_777_216.0);
    let series = (u * (1.0 / 3.0) + 0.5) * u;
    series.mul_add(u, u)
}

/// Sorts the logits of 64 neighbours into the layout of their random words: neighbour `4·i + j` moves to lane
/// i of vector j.
#[inline(always)]
pub(crate) fn by_word<S: Lanes>((a, b, c, d): Four<S>) -> Four<S> {
    let (even, odd) = (a.unzip_low(b), a.unzip_high(b));
    let (even_after, odd_after) = (c.unzip_low(d), c.unzip_high(d));
    (
        even.unzip_low(even_after),
        odd.unzip_low(odd_after),
        even.unzip_high(even_after),
        odd.unzip_high(odd_after),
    )
}

/// The neighbour (0 to 63) that bit number `bit` of a mask stands for, where the mask was taken in the layout
/// of the random words.
pub(crate) fn neighbour(bit: usize) -> usize {
    bit % CALLS * 4 + bit / CALLS
}

/// `2^((x_max − x) · scale)`: how many times later than the best logit the logit x arrives at the same E. The
/// result is within 1e-4 of the exact power. The exponent is cut off at 100: a token that is 2^100 times
/// later, −inf included, cannot win.
#[inline(always)]
pub(crate) fn delay<S: Lanes>(x: f32x16<S>, x_max: f32, scale: f32) -> f32x16<S> {
    let t = (f32x16::splat(x.simd, x_max) - x) * scale;
    let t = t.min(100.0);
    let shifted = t + ROUND;
    let f = t - (shifted - ROUND);
    let [c1, c2, c3, c4, ..] = POWERS;
    let power = f32x16::splat(x.simd, c4).mul_add(f, c3);
    let power = power.mul_add(f, c2).mul_add(f, c1).mul_add(f, 1.0);
    let (power, n): (u32x16<S>, u32x16<S>) = (power.bitcast(), shifted.bitcast());
    (power + (n << 23)).bitcast()
}

/// Writes a lower bound of 64 times the smallest E of every block, for whole groups of 64 blocks from group
/// number `first` on. Within a group the bounds lie as the random words do.
#[inline(always)]
pub(super) fn minima<S: Lanes>(simd: S, noise: &Noise, first: u32, minima: &mut [f32]) {
    for (group, minima) in minima.as_chunks_mut::<BLOCK>().0.iter_mut().enumerate() {
        let call = (first + group as u32) * CALLS as u32;
        let (a, b, c, d) = words(simd, noise, Purpose::BlockMinimum, call);
        exponential_from(a).store_slice(&mut minima[..16]);
        exponential_from(b).store_slice(&mut minima[16..32]);
        exponential_from(c).store_slice(&mut minima[32..48]);
        exponential_from(d).store_slice(&mut minima[48..]);
    }
}

/// Lower bounds of E for sixteen tokens with any ids.
#[inline(always)]
pub(crate) fn exponentials<S: Lanes>(simd: S, noise: &Noise, ids: &[u32; CALLS]) -> f32x16<S> {
    let ids = u32x16::load_array_ref(simd, ids);
    let blocks = ids >> 6;
    let lanes = word_of(simd, noise, Purpose::BlockLane, blocks) >> 26;
    let has_minimum = lanes.simd_eq(ids & 63);
    let minimum =
        exponential_from(word_of(simd, noise, Purpose::BlockMinimum, blocks)) * (1.0 / BLOCK as f32);
    let own = exponential_from(word_of(simd, noise, Purpose::Token, ids));
    has_minimum.select(minimum, minimum + own)
}

/// Word `n % 4` of call `n / 4`, for sixteen numbers n.
#[inline(always)]
fn word_of<S: Lanes>(simd: S, noise: &Noise, purpose: Purpose, n: u32x16<S>) -> u32x16<S> {
    let (a, b, c, d) = simd.philox(noise, purpose, n >> 2);
    let is_odd = (n & 1).simd_eq(1);
    let is_upper = (n & 2).simd_eq(2);
    is_upper.select(is_odd.select(d, c), is_odd.select(b, a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::passes::{Passes, vectorized};
    use crate::numeric::noise::exponential;

    const NOISE: Noise = Noise { seed: 0x0123_4567_89ab_cdef, position: 7, sequence: 3, round: 2 };

    #[test]
    fn words_lie_as_documented() {
        for passes in Passes::supported() {
            for first in [0, 16, 1000] {
                let words: [[u32; CALLS]; 4] = vectorized!(passes, simd => {
                    let (a, b, c, d) = words(simd, &NOISE, Purpose::Token, first);
                    [a.into(), b.into(), c.into(), d.into()]
                });
                for bit in 0..BLOCK {
                    let id = 4 * first + neighbour(bit) as u32;
                    let expected = NOISE.words(Purpose::Token, id / 4)[id as usize % 4];
                    assert_eq!(words[bit / CALLS][bit % CALLS], expected, "{passes:?}");
                }
            }
        }
    }

    /// A bound that exceeds E by more than the race's margin could prune the winner.
    #[test]
    fn bounds_are_bounds() {
        for passes in Passes::supported() {
            let mut lowest = vec![0.0; 320 * BLOCK];
            passes.minima(&NOISE, 3, &mut lowest);
            for (i, &u) in lowest.iter().enumerate() {
                let block = 3 * BLOCK + i / BLOCK * BLOCK + neighbour(i % BLOCK);
                let exact = NOISE.block_minimum(block as u32) * 64.0;
                let cube = exact * exact * exact;
                let bounds = exact - cube - 1e-7..=exact * (1.0 + 1e-6);
                assert!(bounds.contains(&f64::from(u)), "{u} {exact}");
            }
            for first in (0..30_000u32).step_by(CALLS) {
                let ids: [u32; CALLS] = std::array::from_fn(|i| (first + i as u32) * 37);
                let bounds: [f32; CALLS] =
                    vectorized!(passes, simd => exponentials(simd, &NOISE, &ids).into());
                for (id, bound) in ids.iter().zip(bounds) {
                    let exact = NOISE.token(*id);
                    // The bound is at least E / 23, so it is also close enough to prune well.
                    let bounds = exact / 23.0 - 2e-7..exact * (1.0 + 1e-6);
                    assert!(bounds.contains(&f64::from(bound)), "{bound} {exact}");
                }
            }
        }
        for bits in (0..100_000).chain((0..100_000).map(|i| u32::MAX - i)) {
            let u = f64::from(bits >> 8) / 16_777_216.0;
            assert!(u + u * u / 2.0 + u * u * u / 3.0 <= exponential(bits), "{bits}");
        }
    }

    #[test]
    fn a_delay_is_close_to_the_exponential() {
        for passes in Passes::supported() {
            for i in 0..20_000 {
                let x = 3.0 - i as f32 * 0.002;
                let late: f32 = vectorized!(passes, simd => delay(f32x16::splat(simd, x), 3.0, 2.0)[0]);
                let exact = core_math::exp2((3.0 - f64::from(x)) * 2.0);
                assert!((f64::from(late) / exact - 1.0).abs() < 1e-4, "{x}: {late} {exact}");
            }
            let dead = f32::NEG_INFINITY;
            let late: f32 = vectorized!(passes, simd => delay(f32x16::splat(simd, dead), 3.0, 2.0)[0]);
            assert!(late > 1e30, "{late}");
        }
    }
}
