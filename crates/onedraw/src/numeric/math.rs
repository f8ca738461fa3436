//! The only exponential, logarithm and fused multiply-add in onedraw.
//!
//! A platform's own `exp` and `log` differ in the last bit from libc to libc, which is enough to change a
//! token. These are fixed sequences of IEEE operations, so they give the same bits wherever 64-bit floats do.
//! Drawn tokens depend on every function here.

/// ln 2 in two parts. The first has 33 significant bits, so that `n * LN2_HIGH` is exact for |n| < 2^20.
const LN2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
/// 1.5 · 2^52. Adding and subtracting it rounds a number below 2^51 in size to the nearest integer, ties to
/// even.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// The natural logarithm, within 1 ulp.
///
/// `x = 2^e · m` with m in [√½, √2); with `f = m − 1` (exact) and `s = f / (2 + f)`, `ln m = 2·atanh(s) = f −
/// s·(f − R)`, where `R = 2·(s²/3 + s⁴/5 + …)` is summed to s²⁰: |s| ≤ 0.1716 leaves less than 2^-56. The
/// leading f is exact, which keeps the result precise next to 1, where the winners of the race are.
///
/// 0 gives −inf, a negative number or NaN gives NaN, +inf gives +inf; subnormal numbers are exact inputs.
pub fn ln(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    let (bits, shift) = if x < f64::MIN_POSITIVE { ((x * TWO_54).to_bits(), 54) } else { (x.to_bits(), 0) };
    let mut exponent = (bits >> 52) as i32 - 1023 - shift;
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        exponent += 1;
    }
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let mut r = ATANH[ATANH.len() - 1];
    for &coefficient in ATANH[..ATANH.len() - 1].iter().rev() {
        r = r * z + coefficient;
    }
    r *= z;
    let e = f64::from(exponent);
    e * LN2_HIGH + (f - (s * (f - r) - e * LN2_LOW))
}

/// 2^54, which lifts subnormal numbers into the normal range.
const TWO_54: f64 = 18_014_398_509_481_984.0;

/// 2/3, 2/5, … 2/21: the coefficients of 2·atanh(s)/s − 2 as a series in s².
const ATANH: [f64; 10] = [
    2.0 / 3.0,
    2.0 / 5.0,
    2.0 / 7.0,
    2.0 / 9.0,
    2.0 / 11.0,
    2.0 / 13.0,
    2.0 / 15.0,
    2.0 / 17.0,
    2.0 / 19.0,
    2.0 / 21.0,
];

/// The exponential, within 1 ulp (2 where the result is subnormal).
///
/// `x = n·ln 2 + r` with |r| ≤ ½ ln 2; e^r is its Taylor polynomial of degree 13, scaled by 2^n.
/// Above 709.79 the result is +inf, below −745.14 it is 0; NaN gives NaN.
pub fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x > 709.79 {
        return f64::INFINITY;
    }
    if x < -745.14 {
        return 0.0;
    }
    let n = (x * std::f64::consts::LOG2_E + ROUND) - ROUND;
    let r = (x - n * LN2_HIGH) - n * LN2_LOW;
    let mut tail = EXP[EXP.len() - 1];
    for &coefficient in EXP[..EXP.len() - 1].iter().rev() {
        tail = tail * r + coefficient;
    }
    // 1 + (r + r²·tail): the small terms first, so that only the last sum rounds at the size of the result.
    let power = 1.0 + (r + r * r * tail);
    let n = n as i32;
    if (-1021..=1023).contains(&n) {
        power * power_of_two(n)
    } else if n > 1023 {
        power * 2.0 * power_of_two(n - 1)
    } else {
        power * power_of_two(n + 64) * power_of_two(-64)
    }
}

/// 2^n for n in −1022 to 1023.
pub(crate) fn power_of_two(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

/// `x^y` for x ≥ 0 and y ≥ 0, as `exp(y·ln x)`; x^0 is 1.
pub fn power(x: f64, y: f64) -> f64 {
    if y == 0.0 { 1.0 } else { exp(y * ln(x)) }
}

/// 1/2!, 1/3!, … 1/13!: the coefficients of the exponential.
const EXP: [f64; 12] = [
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5040.0,
    1.0 / 40320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
    1.0 / 479_001_600.0,
    1.0 / 6_227_020_800.0,
];

/// `a·b + c` in f32, rounded once: the fused multiply-add, exact on every machine.
///
/// The product of two f32 is exact in f64. The sum is rounded to odd there: its last bit is set wherever the
/// sum is inexact. 53 bits rounded to odd and then to 24 bits give what rounding once gives, subnormal
/// results included.
#[inline(always)]
pub fn fma(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let addend = f64::from(c);
    let sum = product + addend;
    // The exact error of the sum (Knuth's two-sum).
    let part = sum - product;
    let error = (product - (sum - part)) + (addend - part);
    let bits = sum.to_bits();
    // The error of an infinite sum is NaN, which is not above 0.
    let inexact_even = error.abs() > 0.0 && bits & 1 == 0;
    // Of the two neighbours of an even sum, the one on the error's side has an odd last bit. It is away from
    // zero if the error has the sign of the sum, else toward zero.
    let outward = (error > 0.0) == (sum > 0.0);
    let step = if outward { 1u64 } else { u64::MAX };
    f64::from_bits(if inexact_even { bits.wrapping_add(step) } else { bits }) as f32
}

/// The result of an edit's operation, limited to ±f32::MAX. `x` must not be NaN.
#[inline(always)]
pub(crate) fn saturated(x: f32) -> f32 {
    x.clamp(-f32::MAX, f32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ulps(a: f64, b: f64) -> u64 {
        a.to_bits().abs_diff(b.to_bits())
    }

    /// Points that cover every exponent.
    fn points(count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn ln_is_within_an_ulp_of_the_correctly_rounded_logarithm() {
        let mut worst = 0;
        for bits in points(2_000_000) {
            let everywhere = f64::from_bits(bits & 0x7fef_ffff_ffff_ffff);
            let near_one = 1.0 - (bits >> 32) as f64 / 4_294_967_296.0 * 0.5;
            let exponential = ((bits >> 32) as f64 + 0.5) / 4_294_967_296.0;
            for x in [everywhere, near_one, 1.0 - exponential, exponential] {
                if x > 0.0 {
                    worst = worst.max(ulps(ln(x), core_math::log(x)));
                }
            }
        }
        assert!(worst <= 1, "{worst} ulps");
    }

    #[test]
    fn exp_is_within_an_ulp_of_the_correctly_rounded_exponential() {
        let mut worst = 0;
        for bits in points(2_000_000) {
            let unit = (bits >> 11) as f64 / 9_007_199_254_740_992.0;
            for x in [unit * -708.0, unit * 709.0, -unit, unit * -30.0] {
                worst = worst.max(ulps(exp(x), core_math::exp(x)));
            }
        }
        assert!(worst <= 1, "{worst} ulps");
        assert!(ulps(exp(-740.0), core_math::exp(-740.0)) <= 2);
    }

    #[test]
    fn the_edges_of_the_domain() {
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
        assert_eq!(ln(-0.0), f64::NEG_INFINITY);
        assert_eq!(ln(f64::INFINITY), f64::INFINITY);
        assert!(ln(-1.0).is_nan() && ln(f64::NAN).is_nan());
        assert!(ulps(ln(5e-324), core_math::log(5e-324)) <= 1);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(f64::NEG_INFINITY), 0.0);
        assert_eq!(exp(f64::INFINITY), f64::INFINITY);
        assert_eq!(exp(710.0), f64::INFINITY);
        assert!(exp(709.7).is_finite());
        assert!(exp(f64::NAN).is_nan());
    }

    #[test]
    fn powers() {
        assert_eq!(
            (power(0.0, 0.0), power(0.0, 0.5), power(1.0, 7.0), power(0.3, 0.0)),
            (1.0, 0.0, 1.0, 1.0)
        );
        assert!((power(0.5, 3.0) - 0.125).abs() < 1e-15 && (power(0.25, 0.5) - 0.5).abs() < 1e-15);
    }

    /// The oracle is the machine's own fused multiply-add.
    #[test]
    #[allow(clippy::disallowed_methods)]
    fn fma_rounds_once() {
        for bits in points(3_000_000) {
            let a = f32::from_bits(bits as u32);
            let b = f32::from_bits((bits >> 32) as u32);
            let c = f32::from_bits((bits >> 16) as u32);
            // The engine's range: coefficients and fractions, where cancellation and ties happen.
            let fraction = (bits as u32 >> 8) as f32 / 33_554_432.0 - 0.25;
            for (a, b, c) in
                [(a, b, c), (fraction, std::f32::consts::LN_2, 1.0), (fraction, fraction, -fraction * 0.25)]
            {
                let expected = a.mul_add(b, c);
                let got = fma(a, b, c);
                assert!(
                    got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()),
                    "{a:e} {b:e} {c:e}"
                );
            }
        }
    }

    /// What IEEE 754 says of infinite operands, of overflow and of NaN.
    #[test]
    fn fma_of_infinities_is_infinite() {
        const INFINITY: f32 = f32::INFINITY;
        for (a, b, c, expected) in [
            (1.0, 2.0, -INFINITY, -INFINITY),
            (1.0, -2.0, INFINITY, INFINITY),
            (-INFINITY, 2.0, 5.0, -INFINITY),
            (INFINITY, 2.0, INFINITY, INFINITY),
            (f32::MAX, 2.0, 0.0, INFINITY),
            (f32::MAX, -2.0, 1.0, -INFINITY),
        ] {
            assert_eq!(fma(a, b, c).to_bits(), f32::to_bits(expected), "{a} {b} {c}");
        }
        for (a, b, c) in [(INFINITY, 1.0, -INFINITY), (0.0, INFINITY, 1.0), (f32::NAN, 1.0, 1.0)] {
            assert!(fma(a, b, c).is_nan(), "{a} {b} {c}");
        }
    }

    /// Literal bits: a change here changes drawn tokens.
    #[test]
    fn value_stability() {
        assert_eq!(ln(0.1).to_bits(), 0xc002_6bb1_bbb5_5515);
        assert_eq!(ln(3.5).to_bits(), 0x3ff4_0b51_2eb5_3d60);
        assert_eq!(exp(-1.0).to_bits(), 0x3fd7_8b56_362c_ef38);
        assert_eq!(exp(10.5).to_bits(), 0x40e1_bb70_15e8_4d3b);
        assert_eq!(fma(0.1, 0.2, 0.3).to_bits(), 0x3ea3_d70b);
    }
}
