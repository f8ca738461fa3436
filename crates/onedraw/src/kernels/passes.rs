//! The passes over rows: plain loops, compiled once for each instruction set.
//!
//! `fearless_simd` proves that the machine has an instruction set and compiles a closure for it; inside, the loops are
//! ordinary Rust that the compiler turns into that set's vectors. Every operation is IEEE and every reduction a maximum or a sum of
//! integers, so all of them give the same bits. The one choice is the fused multiply-add: an instruction where there is
//! one, else [`math::fma`](crate::math::fma), which rounds alike.

#[cfg(target_arch = "aarch64")]
use fearless_simd::Neon;
#[cfg(target_arch = "x86_64")]
use fearless_simd::{Avx2, Avx512};
use fearless_simd::{Level, Simd};

use crate::kernels::{Kernel, skyline};
use crate::mass::Softmax;
use crate::math::{fma, ln_coarse};
use crate::noise::{BLOCK, Noise, Purpose};
use crate::truncate::typical::Centre;

/// The passes of one instruction set.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Passes {
    /// What every machine of this kind has.
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

impl Default for Passes {
    fn default() -> Self {
        Self::of(Kernel::Auto).unwrap_or(Self::Portable)
    }
}

/// Runs `$body` compiled for the instruction set, with `$fma` the fused multiply-add to use.
macro_rules! compiled_for {
    ($passes:expr, $fma:ident => $body:expr) => {
        match $passes {
            Passes::Portable => {
                let $fma = fma;
                $body
            }
            #[cfg(target_arch = "x86_64")]
            Passes::Avx2(simd) => simd.vectorize(
                #[inline(always)]
                || {
                    let $fma = instruction;
                    $body
                },
            ),
            #[cfg(target_arch = "x86_64")]
            Passes::Avx512(simd) => simd.vectorize(
                #[inline(always)]
                || {
                    let $fma = instruction;
                    $body
                },
            ),
            #[cfg(target_arch = "aarch64")]
            Passes::Neon(simd) => simd.vectorize(
                #[inline(always)]
                || {
                    let $fma = instruction;
                    $body
                },
            ),
        }
    };
}

/// The machine's own fused multiply-add; used only in code compiled for a machine that has one.
#[inline(always)]
#[allow(clippy::disallowed_methods)]
fn instruction(a: f32, b: f32, c: f32) -> f32 {
    a.mul_add(b, c)
}

impl Passes {
    /// `None` where this machine or build lacks it.
    pub(crate) fn of(kernel: Kernel) -> Option<Self> {
        let level = Level::new();
        match kernel {
            Kernel::Scalar => Some(Self::Portable),
            #[cfg(target_arch = "x86_64")]
            Kernel::Sse => Some(Self::Portable),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => level.as_avx2().map(Self::Avx2),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => level.as_avx512().map(Self::Avx512),
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => level.as_neon().map(Self::Neon),
            Kernel::Auto => {
                [Kernel::Avx512, Kernel::Avx2, Kernel::Neon, Kernel::Scalar].into_iter().find_map(Self::of)
            }
            _ => None,
        }
    }

    /// The largest of 64 logits, and whether none is NaN or +inf.
    #[inline]
    pub(crate) fn maximum(self, lanes: &[f32; BLOCK]) -> (f32, bool) {
        compiled_for!(self, _fma => skyline::maximum(lanes))
    }

    /// The maxima of whole blocks, and whether no logit is NaN or +inf.
    pub(crate) fn maxima(self, values: &[f32], maxima: &mut [f32]) -> bool {
        let blocks = values.as_chunks().0;
        match self {
            Passes::Portable => skyline::one_by_one(blocks, maxima),
            #[cfg(target_arch = "x86_64")]
            Passes::Avx2(simd) => simd.vectorize(
                #[inline(always)]
                || skyline::sixteen_at_a_time(simd, blocks, maxima),
            ),
            #[cfg(target_arch = "x86_64")]
            Passes::Avx512(simd) => simd.vectorize(
                #[inline(always)]
                || skyline::sixteen_at_a_time(simd, blocks, maxima),
            ),
            #[cfg(target_arch = "aarch64")]
            Passes::Neon(simd) => simd.vectorize(
                #[inline(always)]
                || skyline::sixteen_at_a_time(simd, blocks, maxima),
            ),
        }
    }

    /// The largest of any number of logits; −inf of none.
    pub(crate) fn highest(self, logits: &[f32]) -> f32 {
        compiled_for!(self, _fma => skyline::highest(logits))
    }

    /// Where a logit stands first.
    pub(crate) fn position(self, logits: &[f32], wanted: f32) -> Option<usize> {
        compiled_for!(self, _fma => skyline::position(logits, wanted))
    }

    /// The sum of 64 weights.
    #[inline]
    pub(crate) fn mass(self, lanes: &[f32; BLOCK], softmax: Softmax) -> u64 {
        compiled_for!(self, fma => {
            let mut sum = 0;
            for &x in lanes {
                sum += softmax.weight_by(x, fma);
            }
            sum
        })
    }

    /// The sum of 64 weights, and of their shares of the entropy.
    #[inline]
    pub(crate) fn surprise(self, lanes: &[f32; BLOCK], softmax: Softmax) -> (u64, u64) {
        compiled_for!(self, fma => {
            let (mut mass, mut surprise) = (0, 0);
            for &x in lanes {
                let (weight, share) = softmax.surprise_by(x, fma);
                mass += weight;
                surprise += share;
            }
            (mass, surprise)
        })
    }

    /// The weights of up to 64 logits or block maxima.
    #[inline]
    pub(crate) fn weights(self, logits: &[f32], softmax: Softmax, weights: &mut [u64; BLOCK]) {
        compiled_for!(self, fma => {
            for (weight, &x) in weights.iter_mut().zip(logits) {
                *weight = softmax.weight_by(x, fma);
            }
        });
    }

    /// How far 64 logits are from the typical one, as bits.
    #[inline]
    pub(crate) fn distances(self, lanes: &[f32; BLOCK], centre: &Centre) -> [u32; BLOCK] {
        compiled_for!(self, _fma => {
            let mut distances = [0; BLOCK];
            for (distance, &x) in distances.iter_mut().zip(lanes) {
                *distance = centre.distance(x).to_bits();
            }
            distances
        })
    }

    /// An upper bound of `−ln M` for each block of `first..first + heads.len()`, at most 2^-10 too low.
    pub(crate) fn heads(self, noise: &Noise, first: u32, heads: &mut [f32]) {
        let end = first + heads.len() as u32;
        let mut group = first / 4;
        while group * 4 < end {
            let bounds = compiled_for!(self, _fma => group_bounds(noise, group));
            let from = first.max(group * 4);
            let to = end.min(group * 4 + BLOCK as u32);
            heads[(from - first) as usize..(to - first) as usize]
                .copy_from_slice(&bounds[(from - group * 4) as usize..(to - group * 4) as usize]);
            group += GROUPS as u32;
        }
    }

    /// `(maximum − x_max) · inverse + head` for every block; −inf where nothing is alive.
    pub(crate) fn bounds(self, maxima: &[f32], heads: &[f32], x_max: f32, inverse: f32, bounds: &mut [f32]) {
        compiled_for!(self, _fma => {
            for ((bound, &maximum), &head) in bounds.iter_mut().zip(maxima).zip(heads) {
                *bound = (maximum - x_max) * inverse + head;
            }
        });
    }

    /// The word of each token of a block.
    pub(crate) fn block_words(self, noise: &Noise, block: u32) -> [u32; BLOCK] {
        compiled_for!(self, _fma => {
            let mut words = [[0u32; 4]; GROUPS];
            for (i, words) in words.iter_mut().enumerate() {
                *words = noise.words(Purpose::Token, block * GROUPS as u32 + i as u32);
            }
            let mut flat = [0; BLOCK];
            flat.copy_from_slice(words.as_flattened());
            flat
        })
    }
}

/// Philox calls side by side; each serves four blocks.
const GROUPS: usize = 16;

/// The bounds of the 64 blocks from `4 · group` on.
#[inline(always)]
fn group_bounds(noise: &Noise, group: u32) -> [f32; BLOCK] {
    let mut words = [[0u32; 4]; GROUPS];
    for (i, words) in words.iter_mut().enumerate() {
        *words = noise.words(Purpose::BlockMinimum, group + i as u32);
    }
    let mut bounds = [0.0; BLOCK];
    for (bound, &bits) in bounds.iter_mut().zip(words.as_flattened()) {
        *bound = self::bound(bits);
    }
    bounds
}

const LN_64: f32 = 6.0 * std::f32::consts::LN_2;

/// `−ln M` from the 32 bits of M, rounded down to 24: that makes M smaller and the bound higher.
///
/// `1 − u` is then exact in f32. u = 0 stands for all u below 2^-24; the smallest M there is has u = 2^-33.
#[inline(always)]
fn bound(bits: u32) -> f32 {
    let complement = (16_777_216 - (bits >> 8) as i32) as f32 / 16_777_216.0;
    let exponential = -ln_coarse(complement);
    let exponential = if exponential > 0.0 { exponential } else { 1.164e-10 };
    LN_64 - ln_coarse(exponential)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::ln;

    fn supported() -> impl Iterator<Item = Passes> {
        Kernel::ALL.into_iter().filter_map(Passes::of)
    }

    #[test]
    fn every_instruction_set_sums_the_same_mass() {
        let softmax = Softmax::new(3.0, 0.37);
        for i in 0..20_000u32 {
            let lanes: [f32; BLOCK] = std::array::from_fn(|lane| {
                let word = (i * 64 + lane as u32).wrapping_mul(2_654_435_761);
                if word.is_multiple_of(17) { f32::NEG_INFINITY } else { 3.0 - (word >> 8) as f32 / 500_000.0 }
            });
            let expected: u64 = lanes.iter().map(|&x| softmax.weight(x)).sum();
            let top = lanes.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
            for passes in supported() {
                assert_eq!(passes.mass(&lanes, softmax), expected, "{passes:?}");
                let surprise = lanes.iter().map(|&x| softmax.surprise(x).1).sum();
                assert_eq!(passes.surprise(&lanes, softmax), (expected, surprise), "{passes:?}");
                assert_eq!(passes.maximum(&lanes), (top, true), "{passes:?}");
                let mut maxima = [0.0];
                assert!(passes.maxima(&lanes, &mut maxima) && maxima == [top], "{passes:?}");
                let mut weights = [0; BLOCK];
                passes.weights(&lanes, softmax, &mut weights);
                assert_eq!(weights.iter().sum::<u64>(), expected, "{passes:?}");
            }
        }
    }

    #[test]
    fn bad_logits_are_found_in_every_lane() {
        for lane in 0..BLOCK {
            for bad in [f32::NAN, -f32::NAN, f32::INFINITY] {
                let mut lanes = [f32::NEG_INFINITY; BLOCK];
                lanes[lane] = bad;
                assert!(supported().all(|passes| !passes.maximum(&lanes).1), "{bad} in {lane}");
            }
        }
        assert!(supported().all(|passes| passes.maximum(&[f32::MAX; BLOCK]) == (f32::MAX, true)));
    }

    /// A bound that were too low by more than the race's margin could prune the winner.
    #[test]
    fn heads_bound_the_noise_of_their_block() {
        let noise = Noise { seed: 99, position: 3, sequence: 1, round: 0 };
        for passes in supported() {
            for first in [0, 1, 5] {
                let mut heads = vec![0.0; 20_000];
                passes.heads(&noise, first, &mut heads);
                for (&head, block) in heads.iter().zip(first..) {
                    let exact = -ln(noise.block_minimum(block));
                    assert!(f64::from(head) > exact - 1e-4, "{block}: {head} for {exact}");
                    assert!(f64::from(head) < exact + 0.1, "{block}: {head} for {exact}");
                }
            }
        }
        for bits in (0..100_000).chain((0..100_000).map(|i| u32::MAX - i)) {
            let exact = -ln(crate::noise::exponential(bits) / 64.0);
            assert!(f64::from(bound(bits)) > exact - 1e-4, "{bits}");
        }
    }
}
