//! Masses are integers: a token's weight is `floor(2^t · 2^43)`, and a sum of integers does not depend on its
//! order.
//!
//! So every thread count, vector width, GPU grid and shard layout gives the same total, and comparisons with
//! p are exact. The weights of 2^20 tokens sum to less than 2^64.

use crate::numeric::math::{fma, ln};

/// The weight of the best token: 2^43.
pub const UNIT: u64 = 1 << 43;

/// The largest vocabulary: the weights of 2^20 tokens, each at most 2^43, sum below 2^64.
pub const MAX_VOCABULARY: usize = 1 << 20;

/// The coefficients of the polynomial for 2^f on [−½, ½], from the first power of f to the sixth. It is the
/// minimax polynomial with the constant term fixed at 1, so that 2^0 is exactly 1. Its relative error is
/// below 2.6e-9 before rounding.
pub(crate) const POWERS: [f32; 6] = [
    f32::from_bits(0x3f31_7219),
    f32::from_bits(0x3e75_fdf1),
    f32::from_bits(0x3d63_5739),
    f32::from_bits(0x3c1d_9387),
    f32::from_bits(0x3aaf_b93b),
    f32::from_bits(0x3923_85a5),
];

/// 1.5 · 2^23. Adding and subtracting it rounds a number below 2^22 in size to the nearest integer, ties to
/// even.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// How logits become weights: `weight = floor(2^t · 2^43)` with `t = (x − x_max) · scale` and `scale =
/// f32(log2(e) / T)`.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Softmax {
    /// The largest logit that is not masked.
    pub x_max: f32,
    /// `log2(e) / T`, rounded once to f32.
    pub scale: f32,
}

impl Softmax {
    /// The softmax at temperature `temperature` of a row whose best logit is `x_max`.
    pub fn new(x_max: f32, temperature: f64) -> Self {
        Self { x_max, scale: (std::f64::consts::LOG2_E / temperature) as f32 }
    }

    /// The weight of logit `x ≤ x_max`; 0 for −inf.
    #[inline(always)]
    pub fn weight(self, x: f32) -> u64 {
        exp2_fixed((x - self.x_max) * self.scale)
    }

    /// The weight of logit `x`, and its share of the entropy, `floor(2^t·2^43 · |t|)`, whose product is
    /// rounded once to f32.
    #[inline(always)]
    pub fn surprise(self, x: f32) -> (u64, u64) {
        let t = (x - self.x_max) * self.scale;
        let t = if t > -64.0 { t } else { -64.0 };
        let power = exp2_scaled(t);
        (power as u64, (power * -t) as u64)
    }
}

/// Three sums over the tokens that are left of a row: their number, their mass, and the sum that gives the
/// entropy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Spread {
    /// The number of tokens.
    pub count: u32,
    /// The sum of their weights.
    pub total: u64,
    /// The sum of `floor(weight · |t|)`.
    pub surprise: u64,
}

impl Spread {
    /// The mean of `−ln(weight / weight of the best)` over the distribution.
    pub fn mean(&self) -> f64 {
        std::f64::consts::LN_2 * (self.surprise as f64 / self.total as f64)
    }

    /// The entropy, in nats: `Σ −p·ln p`, with p = 2^t / Z.
    pub fn entropy(&self) -> f64 {
        ln(relative(self.total)) + self.mean()
    }
}

/// An interval that holds a mass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// The mass is at least this.
    pub least: u64,
    /// The mass is at most this.
    pub most: u64,
}

impl Interval {
    /// Any mass.
    pub(crate) const UNKNOWN: Self = Self { least: 0, most: u64::MAX };

    /// The interval of the sum of both masses.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { least: self.least + other.least, most: self.most.saturating_add(other.most) }
    }

    /// The interval of a mass of `tokens` tokens, given a lower and an upper estimate. The estimates are sums
    /// of f32, over at most 260 terms, of weights that were not floored. The lower end also loses one unit
    /// per token, for the floors.
    pub(crate) fn around(least: f64, most: f64, tokens: u64) -> Self {
        // Such sums are within 2^-15 of the exact ones; the rest of this margin is spare.
        const ERROR: f64 = 1.0 / 16_384.0;
        let least = (least * (1.0 - ERROR)) as u64;
        Self { least: least.saturating_sub(tokens), most: ((most * (1.0 + ERROR)) as u64).saturating_add(1) }
    }
}

/// A mass as a multiple of the best token's weight.
pub fn relative(mass: u64) -> f64 {
    mass as f64 / UNIT as f64
}

/// `floor(2^t · 2^43)` for `t ≤ 0`; a t above 0 counts as 0. The relative error before the floor is within
/// 2^-23. The result is 0 below −44.
///
/// The function is not monotone to the last bit, so truncations compare logits, never weights. Drawn tokens
/// depend on it.
#[inline(always)]
pub fn exp2_fixed(t: f32) -> u64 {
    exp2_scaled(t) as u64
}

/// `2^t · 2^43` for `t ≤ 0`, before the floor.
#[inline(always)]
pub(crate) fn exp2_scaled(t: f32) -> f32 {
    // Everything below −44 is 0 after the floor. The limit of −64 keeps n in range and catches −inf.
    let t = if t > -64.0 { t } else { -64.0 };
    let t = if t < 0.0 { t } else { 0.0 };
    let n = (t + ROUND) - ROUND;
    let f = t - n;
    let [c1, c2, c3, c4, c5, c6] = POWERS;
    let q = fma(fma(fma(fma(fma(c6, f, c5), f, c4), f, c3), f, c2), f, c1);
    let power = fma(q, f, 1.0);
    // `power` is in [0.7, 1.42] and n + 43 in −21 to 43, so the product is exact.
    power * f32::from_bits(((n as i32 + 43 + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_known_powers() {
        assert_eq!(exp2_fixed(0.0), UNIT);
        assert_eq!(exp2_fixed(-0.0), UNIT);
        for n in 1..=43 {
            assert_eq!(exp2_fixed(-(n as f32)), UNIT >> n, "2^-{n}");
        }
        assert_eq!((exp2_fixed(20.5), exp2_fixed(f32::INFINITY)), (UNIT, UNIT));
        assert_eq!(exp2_fixed(-44.0), 0);
        assert_eq!(exp2_fixed(-64.0), 0);
        assert_eq!(exp2_fixed(-1e30), 0);
        assert_eq!(exp2_fixed(f32::NEG_INFINITY), 0);
    }

    #[test]
    fn weights_are_close_to_the_exponential() {
        let mut worst: f64 = 0.0;
        for i in 0..2_000_000u32 {
            let t = -(i as f32) * 1e-5;
            let exact = core_math::exp2(f64::from(t)) * UNIT as f64;
            worst = worst.max((exp2_fixed(t) as f64 - exact).abs() / exact.max(1e7));
        }
        assert!(worst < 1.2e-7, "{worst:e}");
    }

    #[test]
    fn no_weight_exceeds_one() {
        for i in 0..1_000_000u32 {
            assert!(exp2_fixed(-f32::from_bits(i * 2100)) <= UNIT);
        }
    }

    #[test]
    fn the_entropy_of_known_distributions() {
        let of = |logits: &[f32]| {
            let softmax = Softmax::new(logits[0], 1.0);
            let mut spread = Spread { count: logits.len() as u32, ..Spread::default() };
            for &x in logits {
                let (weight, surprise) = softmax.surprise(x);
                spread.total += weight;
                spread.surprise += surprise;
            }
            spread.entropy()
        };
        assert_eq!(of(&[3.0]), 0.0);
        assert!((of(&[1.0; 4]) - 4.0 * std::f64::consts::LN_2 / 2.0).abs() < 1e-12);
        let p = [0.4f64, 0.3, 0.2, 0.1];
        let expected: f64 = p.iter().map(|&p| -p * core_math::log(p)).sum();
        assert!((of(&p.map(|p| core_math::log(p) as f32)) - expected).abs() < 1e-7);
        // Tokens of weight 0 add nothing to the entropy.
        assert_eq!(of(&[3.0, -f32::MAX, f32::NEG_INFINITY]), 0.0);
    }

    /// Literal weights: a change here changes drawn tokens.
    #[test]
    fn value_stability() {
        assert_eq!(exp2_fixed(-0.5), 6_219_776_917_504);
        assert_eq!(exp2_fixed(-1.3), 3_572_323_844_096);
        assert_eq!(Softmax::new(3.0, 0.7).weight(1.25), 722_027_282_432);
    }
}
