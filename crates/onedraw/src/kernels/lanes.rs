//! What instruction sets do differently. Everything else is one source.

use fearless_simd::prelude::*;
#[cfg(target_arch = "x86_64")]
use fearless_simd::{Avx2, Avx512};
use fearless_simd::{Level, Simd, f32x16, i32x16, u32x16, u64x8};

use crate::kernels::block::Four;
#[cfg(target_arch = "x86_64")]
use crate::kernels::sound::Ordered;
use crate::kernels::sound::{Check, Products};
use crate::numeric::mass::{POWERS, ROUND, UNIT};
use crate::numeric::noise::{Noise, Purpose};

/// What every machine of this architecture has.
#[cfg(target_arch = "x86_64")]
pub(crate) type Baseline = fearless_simd::Sse2;
#[cfg(target_arch = "aarch64")]
pub(crate) type Baseline = fearless_simd::Neon;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) type Baseline = fearless_simd::Fallback;

/// The words of one Philox call each in eight lanes; the lower halves count.
pub(crate) type Words<S> = (u64x8<S>, u64x8<S>, u64x8<S>, u64x8<S>);

/// The proof that this machine is one of its architecture.
pub(crate) fn baseline() -> Baseline {
    #[cfg(target_arch = "x86_64")]
    let baseline = Level::new().as_sse2();
    #[cfg(target_arch = "aarch64")]
    let baseline = Level::new().as_neon();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let baseline = Some(fearless_simd::Fallback::new());
    baseline.expect("every machine of this architecture has it")
}

/// An instruction set. The defaults are right for all, to the bit.
pub(crate) trait Lanes: Simd {
    /// Whether sixteen lanes are few enough registers for long straight code. Where they are not, that code
    /// is slow, and slow to compile.
    const IS_WIDE: bool = true;

    /// How NaN is found.
    type Check: Check<Self>;

    /// The maxima of neighbours `2^LEVEL` lanes apart: those of `a` in the lanes whose bit number LEVEL is 0,
    /// those of `b` in the others. Sixteen vectors merged pair by pair on the levels 0 to 3 leave the maximum
    /// of each in its own lane.
    #[inline(always)]
    fn merge<const LEVEL: usize>(self, a: f32x16<Self>, b: f32x16<Self>) -> f32x16<Self> {
        // In the order of pairs, which is the same after four levels.
        a.unzip_low(b).max(a.unzip_high(b))
    }

    /// `2^t · 2^43` for t ≤ 0; below 1 where t is below −44.
    #[inline(always)]
    fn powers(self, t: f32x16<Self>) -> f32x16<Self> {
        let t = t.max(-64.0);
        let shifted = t + ROUND;
        let f = t - (shifted - ROUND);
        let power: u32x16<Self> = polynomial(self, f).bitcast();
        let n: u32x16<Self> = shifted.bitcast();
        // The integer that was rounded to stands in the lowest bits: as an exponent, it scales.
        (power + (n << 23)).bitcast()
    }

    /// Adds the floors of a block's powers.
    #[inline(always)]
    fn add(self, sums: u64x8<Self>, (a, b, c, d): Four<Self>) -> u64x8<Self> {
        let (a, b, c, d) = (split(a), split(b), split(c), split(d));
        let upper = (a.0 + b.0) + (c.0 + d.0);
        let lower = (a.1 + b.1) + (c.1 + d.1);
        sums + (pairs(self, upper) << 19) + pairs(self, lower)
    }

    /// Halves of IEEE, given in the lower half of each lane, widened exactly.
    ///
    /// The exponent's bias grows by 112, which a product with 2^112 does, exactly, for subnormal numbers too.
    /// What then is 2^16 or more was no number.
    #[inline(always)]
    fn widen_halves(self, bits: u32x16<Self>) -> f32x16<Self> {
        const BIAS: f32 = f32::from_bits((127 + 112) << 23);
        let magnitude: f32x16<Self> = ((bits & 0x7fff) << 13).bitcast();
        let magnitude = magnitude * BIAS;
        let widened: i32x16<Self> = magnitude.bitcast();
        let is_special = magnitude.simd_ge(65536.0);
        let sign: i32x16<Self> = ((bits & 0x8000) << 16).bitcast();
        (is_special.select(widened | 0x7f80_0000, widened) | sign).bitcast()
    }

    /// Eight Philox calls.
    #[inline(always)]
    fn philox(self, noise: &Noise, purpose: Purpose, index: u64x8<Self>) -> Words<Self> {
        let splat = |word: u32| u64x8::splat(self, u64::from(word));
        let (mut k0, mut k1) = (noise.seed as u32, (noise.seed >> 32) as u32);
        let mut c0 = index;
        let (mut c1, mut c2) = (splat(noise.position), splat(noise.sequence));
        let mut c3 = splat(purpose as u32 | noise.round << 8);
        let low = splat(u32::MAX);
        for _ in 0..10 {
            // Upper halves are never looked at: only the product's own matters.
            let p0 = (c0 & low) * splat(0xd251_1f53);
            let p1 = (c2 & low) * splat(0xcd9e_8d57);
            (c0, c1) = ((p1 >> 32) ^ c1 ^ splat(k0), p1);
            (c2, c3) = ((p0 >> 32) ^ c3 ^ splat(k1), p0);
            k0 = k0.wrapping_add(0x9e37_79b9);
            k1 = k1.wrapping_add(0xbb67_ae85);
        }
        (c0, c1, c2, c3)
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx2 {
    type Check = Products<Self>;
}

#[cfg(target_arch = "aarch64")]
impl Lanes for Baseline {
    type Check = Products<Self>;
}

#[cfg(not(target_arch = "aarch64"))]
impl Lanes for Baseline {
    const IS_WIDE: bool = false;

    type Check = Products<Self>;

    /// Without a fused multiply-add every product is emulated: too much code to be inlined.
    #[inline(always)]
    fn powers(self, t: f32x16<Self>) -> f32x16<Self> {
        #[inline(never)]
        fn one_by_one(t: [f32; 16]) -> [f32; 16] {
            t.map(crate::numeric::mass::exp2_scaled)
        }
        f32x16::load_array(self, one_by_one(t.into()))
    }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx512 {
    type Check = Ordered;

    /// One shuffle instead of two: these have one port, the blend two.
    #[inline(always)]
    fn merge<const LEVEL: usize>(self, a: f32x16<Self>, b: f32x16<Self>) -> f32x16<Self> {
        fearless_simd::kernel!(
            #[inline(always)]
            fn merge(
                simd: Avx512,
                a: f32x16<Avx512>,
                b: f32x16<Avx512>,
                neighbours: &[i32; 16],
                from_b: u16,
            ) -> f32x16<Avx512> {
                use std::arch::x86_64::*;
                let (a, b): (__m512, __m512) = (a.into(), b.into());
                let neighbours = i32x16::load_array_ref(simd, neighbours).into();
                let moved = _mm512_permutex2var_ps(a, neighbours, b);
                _mm512_max_ps(_mm512_mask_blend_ps(from_b, a, b), moved).simd_into(simd)
            }
        );
        merge(self, a, b, &NEIGHBOURS[LEVEL], [0xaaaa, 0xcccc, 0xf0f0, 0xff00][LEVEL])
    }

    /// Two instructions split t and scale by 2^n, and they take any t, −inf too.
    #[inline(always)]
    fn powers(self, t: f32x16<Self>) -> f32x16<Self> {
        fearless_simd::kernel!(
            #[inline(always)]
            fn fraction(simd: Avx512, t: f32x16<Avx512>) -> f32x16<Avx512> {
                std::arch::x86_64::_mm512_reduce_ps::<0>(t.into()).simd_into(simd)
            }
        );
        fearless_simd::kernel!(
            #[inline(always)]
            fn scale(simd: Avx512, power: f32x16<Avx512>, n: f32x16<Avx512>) -> f32x16<Avx512> {
                std::arch::x86_64::_mm512_scalef_ps(power.into(), n.into()).simd_into(simd)
            }
        );
        let f = fraction(self, t);
        scale(self, polynomial(self, f), t - f)
    }

    #[inline(always)]
    fn widen_halves(self, bits: u32x16<Self>) -> f32x16<Self> {
        fearless_simd::kernel!(
            #[inline(always)]
            fn widen(simd: Avx512, bits: u32x16<Avx512>) -> f32x16<Avx512> {
                use std::arch::x86_64::*;
                _mm512_cvtph_ps(_mm512_cvtepi32_epi16(bits.into())).simd_into(simd)
            }
        );
        widen(self, bits)
    }

    /// Eight floors at a time become 64-bit integers in one instruction.
    #[inline(always)]
    fn add(self, sums: u64x8<Self>, (a, b, c, d): Four<Self>) -> u64x8<Self> {
        fearless_simd::kernel!(
            #[inline(always)]
            fn floors(simd: Avx512, powers: f32x16<Avx512>) -> u64x8<Avx512> {
                use std::arch::x86_64::*;
                let powers = powers.into();
                let low = _mm512_cvttps_epu64(_mm512_castps512_ps256(powers));
                let high = _mm512_cvttps_epu64(_mm512_extractf32x8_ps::<1>(powers));
                _mm512_add_epi64(low, high).simd_into(simd)
            }
        );
        sums + ((floors(self, a) + floors(self, b)) + (floors(self, c) + floors(self, d)))
    }
}

/// For each level and lane, the neighbour `2^level` lanes away: of the first of two vectors where the lane's
/// bit of that level is 0, else of the second.
#[cfg(target_arch = "x86_64")]
const NEIGHBOURS: [[i32; 16]; 4] = {
    let mut neighbours = [[0; 16]; 4];
    let mut i = 0;
    while i < 64 {
        let (level, lane) = (i / 16, i % 16);
        neighbours[level][lane] = (lane ^ 1 << level) as i32 + 16 * (lane >> level & 1) as i32;
        i += 1;
    }
    neighbours
};

/// 2^f · 2^43: the polynomial with all coefficients scaled, which is exact.
#[inline(always)]
fn polynomial<S: Simd>(simd: S, f: f32x16<S>) -> f32x16<S> {
    const SCALE: f32 = UNIT as f32;
    let [c1, c2, c3, c4, c5, c6] = POWERS;
    let q = f32x16::splat(simd, c6 * SCALE);
    let q = q.mul_add_precise(f, c5 * SCALE);
    let q = q.mul_add_precise(f, c4 * SCALE);
    let q = q.mul_add_precise(f, c3 * SCALE);
    let q = q.mul_add_precise(f, c2 * SCALE);
    let q = q.mul_add_precise(f, c1 * SCALE);
    q.mul_add_precise(f, SCALE)
}

/// The floor of a power below 2^44 as two integers: multiples of 2^19, and the rest. Both are exact, for the
/// power has 24 bits.
#[inline(always)]
fn split<S: Simd>(power: f32x16<S>) -> (i32x16<S>, i32x16<S>) {
    let upper: i32x16<S> = (power * (1.0 / 524_288.0)).to_int();
    let rest = power - upper.to_float::<f32x16<S>>() * 524_288.0;
    (upper, rest.to_int())
}

/// Neighbours added, as 64-bit integers.
#[inline(always)]
pub(super) fn pairs<S: Simd>(simd: S, integers: i32x16<S>) -> u64x8<S> {
    simd.pairwise_widening_add_u32x16(integers.bitcast())
}
