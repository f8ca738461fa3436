//! The operations that instruction sets do in different ways. Everything else in `kernels/` is one source for
//! all of them.
//!
//! Each method of [`Lanes`] has a default that is right on every machine. An instruction set replaces a
//! default only where it has a faster way to exactly the same bits. The tests compare every instruction set
//! with the scalar definition.

use fearless_simd::prelude::*;
#[cfg(target_arch = "x86_64")]
use fearless_simd::{Avx2, Avx512};
use fearless_simd::{Level, Simd, f32x16, i32x16, u32x16, u64x8};

use crate::kernels::block::Four;
use crate::kernels::sound::Check;
#[cfg(target_arch = "x86_64")]
use crate::kernels::sound::Ordered;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
use crate::kernels::sound::Products;
use crate::numeric::mass::{POWERS, ROUND, UNIT};
use crate::numeric::noise::{Noise, Purpose};

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;

/// The instruction set that every machine of this architecture has.
#[cfg(target_arch = "x86_64")]
pub(crate) type Baseline = fearless_simd::Sse2;
#[cfg(target_arch = "aarch64")]
pub(crate) type Baseline = fearless_simd::Neon;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) type Baseline = fearless_simd::WasmSimd128;
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    all(target_arch = "wasm32", target_feature = "simd128")
)))]
pub(crate) type Baseline = fearless_simd::Fallback;

/// The four words of sixteen Philox calls, one call per lane. Word j of all of them is vector number j.
pub(crate) type Words<S> = (u32x16<S>, u32x16<S>, u32x16<S>, u32x16<S>);

/// The proof, for `fearless_simd`, that this machine has the baseline instruction set.
pub(crate) fn baseline() -> Baseline {
    #[cfg(target_arch = "x86_64")]
    let baseline = Level::new().as_sse2();
    #[cfg(target_arch = "aarch64")]
    let baseline = Level::new().as_neon();
    #[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
    let baseline = Level::new().as_wasm_simd128();
    #[cfg(not(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        all(target_arch = "wasm32", target_feature = "simd128")
    )))]
    let baseline = Some(fearless_simd::Fallback::new());
    baseline.expect("every machine of this architecture has it")
}

/// An instruction set. The defaults give the right bits on all of them.
pub(crate) trait Lanes: Simd {
    /// Whether sixteen lanes take so few registers that long straight code is worth it. Where they do not,
    /// such code is slow to run and slow to compile.
    const IS_WIDE: bool = true;

    /// How NaN is found while a row is read.
    type Check: Check<Self>;

    /// The larger number of each lane. Of two zeros either may come out, and where a number is NaN anything.
    #[inline(always)]
    fn larger(self, a: f32x16<Self>, b: f32x16<Self>) -> f32x16<Self> {
        a.max(b)
    }

    /// The largest number, as [`Lanes::larger`] compares.
    #[inline(always)]
    fn largest(self, lanes: f32x16<Self>) -> f32 {
        lanes.reduce_max()
    }

    /// One step of a tree that turns sixteen vectors into one vector of their sixteen maxima.
    ///
    /// The naive loop: `result[v] = max(lanes of vector v)` for sixteen vectors v, each a horizontal
    /// reduction.
    ///
    /// What this does differently: it takes the maximum of lanes that are `2^LEVEL` apart, from `a` into the
    /// lanes whose bit number LEVEL is 0, from `b` into the others. Merging pair by pair on the levels 0 to 3
    /// takes fifteen steps for sixteen vectors and leaves the maximum of vector v in lane v.
    ///
    /// Why it is exact: a maximum does not depend on the order in which it is taken.
    #[inline(always)]
    fn merge<const LEVEL: usize>(self, a: f32x16<Self>, b: f32x16<Self>) -> f32x16<Self> {
        // This takes neighbouring pairs instead of lanes `2^LEVEL` apart. After four levels the result is the
        // same.
        a.unzip_low(b).max(a.unzip_high(b))
    }

    /// `2^t · 2^43` for t ≤ 0, before the floor; below 1 where t is below −44. Where t is −64 or more, every
    /// lane has the bits of [`exp2_scaled`](crate::numeric::mass::exp2_scaled).
    ///
    /// 1. The scalar code multiplies the polynomial by 2^(n + 43). Here the coefficients are multiplied by
    ///    2^43 beforehand, and n is added to the exponent's bits. Both are multiplications by powers of two,
    ///    which are exact because no result here overflows or becomes subnormal.
    /// 2. t is cut off at −64, as in the scalar code, which also catches −inf.
    #[inline(always)]
    fn powers(self, t: f32x16<Self>) -> f32x16<Self> {
        let t = t.max(-64.0);
        let shifted = t + ROUND;
        let f = t - (shifted - ROUND);
        let power: u32x16<Self> = polynomial(self, f).bitcast();
        let n: u32x16<Self> = shifted.bitcast();
        // `shifted` holds the integer that t was rounded to in its lowest bits. Added to the exponent's bits
        // of the power, it multiplies by 2^n.
        (power + (n << 23)).bitcast()
    }

    /// Adds the floors of the 64 powers of a block to eight running sums.
    ///
    /// The naive loop: `sum += power as u64` for each power. Most instruction sets cannot convert an f32 to a
    /// 64-bit integer, so each floor is split into two 32-bit integers, `upper · 2^19 + lower`. Four of each
    /// are added before they are widened: an upper part is below 2^25 and a lower part below 2^19, so
    /// nothing overflows, and sums of integers do not depend on their order.
    #[inline(always)]
    fn add(self, sums: u64x8<Self>, (a, b, c, d): Four<Self>) -> u64x8<Self> {
        let (a, b, c, d) = (split(a), split(b), split(c), split(d));
        let upper = (a.0 + b.0) + (c.0 + d.0);
        let lower = (a.1 + b.1) + (c.1 + d.1);
        sums + (pairs(self, upper) << 19) + pairs(self, lower)
    }

    /// Widens IEEE half-precision numbers exactly. Each is given as 16 bits in the lower half of a lane.
    ///
    /// Shifted by 13 bits, exponent and mantissa stand where an f32 has them, but the exponent's bias is too
    /// small by 112. Multiplying by 2^112 corrects that exactly, for subnormal numbers too. A result of 2^16
    /// or more had the largest exponent, which means infinity or NaN, so it gets the largest exponent of an
    /// f32.
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

    /// Sixteen Philox calls, one per lane: the same integer operations as
    /// [`philox4x32_10`](crate::numeric::noise::philox4x32_10).
    #[inline(always)]
    fn philox(self, noise: &Noise, purpose: Purpose, index: u32x16<Self>) -> Words<Self> {
        let (low, high) = index.widen();
        let (a, b, c, d) = eight_calls(self, noise, purpose, low);
        let (e, f, g, h) = eight_calls(self, noise, purpose, high);
        let lower_halves = |a: u64x8<Self>, b: u64x8<Self>| {
            let (a, b): (u32x16<Self>, u32x16<Self>) = (a.bitcast(), b.bitcast());
            a.unzip_low(b)
        };
        (lower_halves(a, e), lower_halves(b, f), lower_halves(c, g), lower_halves(d, h))
    }
}

/// The four words of eight Philox calls, one call per lane. Only the lower 32 bits of each lane count.
#[inline(always)]
fn eight_calls<S: Simd>(
    simd: S,
    noise: &Noise,
    purpose: Purpose,
    index: u64x8<S>,
) -> (u64x8<S>, u64x8<S>, u64x8<S>, u64x8<S>) {
    let splat = |word: u32| u64x8::splat(simd, u64::from(word));
    let (mut k0, mut k1) = (noise.seed as u32, (noise.seed >> 32) as u32);
    let mut c0 = index;
    let (mut c1, mut c2) = (splat(noise.position), splat(noise.sequence));
    let mut c3 = splat(purpose as u32 | noise.round << 8);
    let low = splat(u32::MAX);
    for _ in 0..10 {
        // The upper halves of the lanes are garbage except right after a product; `low` removes them
        // before the next one.
        let p0 = (c0 & low) * splat(0xd251_1f53);
        let p1 = (c2 & low) * splat(0xcd9e_8d57);
        (c0, c1) = ((p1 >> 32) ^ c1 ^ splat(k0), p1);
        (c2, c3) = ((p0 >> 32) ^ c3 ^ splat(k1), p0);
        k0 = k0.wrapping_add(0x9e37_79b9);
        k1 = k1.wrapping_add(0xbb67_ae85);
    }
    (c0, c1, c2, c3)
}

#[cfg(target_arch = "x86_64")]
impl Lanes for Avx2 {
    type Check = Products<Self>;
}

#[cfg(target_arch = "aarch64")]
impl Lanes for Baseline {
    type Check = Products<Self>;
}

#[cfg(not(any(target_arch = "aarch64", all(target_arch = "wasm32", target_feature = "simd128"))))]
impl Lanes for Baseline {
    const IS_WIDE: bool = false;

    type Check = Products<Self>;

    /// Without a fused multiply-add every product is emulated, which is too much code to inline.
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

    /// One shuffle and one blend instead of two shuffles: the processor can start one shuffle per cycle, but
    /// two blends.
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

    /// `reduce` splits t into an integer and a fraction and `scalef` multiplies by 2^n, one instruction each.
    /// Both accept any t, −inf included, so nothing is cut off; wherever the default would cut off, the floor
    /// is 0 in both.
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

    /// One instruction turns eight powers into eight 64-bit integers, rounding toward zero.
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

/// For each level and lane, the index of the lane `2^level` away. It is taken from the first of two vectors
/// where the lane's bit number `level` is 0, and from the second (index + 16) elsewhere.
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

/// `2^f · 2^43` for f in [−½, ½]: the polynomial of `numeric::mass`, with all coefficients multiplied by
/// 2^43. That is exact, because 2^43 is a power of two.
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

/// The floor of a power below 2^44 as two integers: a multiple of 2^19, divided by 2^19, and the rest. Both
/// are exact, because a power has 24 significant bits.
#[inline(always)]
fn split<S: Simd>(power: f32x16<S>) -> (i32x16<S>, i32x16<S>) {
    let upper: i32x16<S> = (power * (1.0 / 524_288.0)).to_int();
    let rest = power - upper.to_float::<f32x16<S>>() * 524_288.0;
    (upper, rest.to_int())
}

/// Adds neighbouring lanes, taken as unsigned 32-bit integers, into eight 64-bit integers.
#[inline(always)]
pub(super) fn pairs<S: Simd>(simd: S, integers: i32x16<S>) -> u64x8<S> {
    simd.pairwise_widening_add_u32x16(integers.bitcast())
}
