//! Rows of logits, each a function of a seed.
//!
//! Only IEEE operations are used (no `cos`, no platform logarithm), so a row has the same bits on every
//! platform and may stand behind a golden value.

use half::{bf16, f16};
use proptest::prelude::*;
use proptest::sample::select;

/// The generator SplitMix64: a counter through a mixing function, enough for test data.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Starts the stream named by `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1), 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in 0..`bound`; `bound` must not be 0.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Standard normal, by Marsaglia's polar method.
    pub fn normal(&mut self) -> f64 {
        loop {
            let (u, v) = (2.0 * self.uniform() - 1.0, 2.0 * self.uniform() - 1.0);
            let square = u * u + v * v;
            if square > 0.0 && square < 1.0 {
                return u * (-2.0 * portable_ln(square) / square).sqrt();
            }
        }
    }

    /// Puts the values into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for i in (1..values.len()).rev() {
            values.swap(i, self.below(i + 1));
        }
    }
}

/// The logarithm of a positive normal number from IEEE operations alone, to about 1e-15.
fn portable_ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh s with |s| < 0.172: the odd powers up to 27 are enough.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let mut sum = 0.0;
    for power in (1..=27).rev().step_by(2) {
        sum = sum * s * s + 1.0 / power as f64;
    }
    2.0 * s * sum + exponent as f64 * std::f64::consts::LN_2
}

/// Normal logits around 0.
pub fn gaussian(seed: u64, vocabulary: usize, sigma: f64) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    (0..vocabulary).map(|_| (sigma * random.normal()) as f32).collect()
}

/// The same logit everywhere: every choice between tokens is a tie.
pub fn flat(vocabulary: usize, value: f32) -> Vec<f32> {
    vec![value; vocabulary]
}

/// As a language model gives them: a normal bulk, and a head `20 − a·ln(rank)` at shuffled places.
pub fn peaked(seed: u64, vocabulary: usize) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    let steepness = 1.2 + 1.3 * random.uniform();
    let head = vocabulary.div_ceil(2).min(1024);
    let mut row: Vec<f32> = (0..vocabulary)
        .map(|i| {
            if i < head {
                (20.0 - steepness * portable_ln((i + 1) as f64)) as f32
            } else {
                (3.0 * random.normal()) as f32
            }
        })
        .collect();
    random.shuffle(&mut row);
    row
}

/// Only `distinct` different bit patterns, 0.0 and −0.0 first among them; those two must count as equal.
pub fn ties(seed: u64, vocabulary: usize, distinct: usize) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    let mut values = vec![0.0f32, -0.0];
    values.extend((1..).flat_map(|i| [i as f32 * 0.75, i as f32 * -0.75]).take(distinct.saturating_sub(2)));
    values.truncate(distinct.max(1));
    (0..vocabulary).map(|_| values[random.below(values.len())]).collect()
}

/// Normal logits of which about `share` are −inf; at least one is finite (in a row that has any).
pub fn masked(seed: u64, vocabulary: usize, share: f64) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    let mut row = gaussian(random.next_u64(), vocabulary, 3.0);
    if vocabulary == 0 {
        return row;
    }
    let spared = random.below(vocabulary);
    for (i, logit) in row.iter_mut().enumerate() {
        if random.uniform() < share && i != spared {
            *logit = f32::NEG_INFINITY;
        }
    }
    row
}

/// Subnormal numbers of both signs, zeros and the smallest normal number: all as good as equal, none to be
/// flushed.
pub fn denormal(seed: u64, vocabulary: usize) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    (0..vocabulary)
        .map(|_| {
            let sign = (random.next_u64() as u32) & 0x8000_0000;
            let magnitude = match random.below(8) {
                0 => 0,
                1 => 1,
                2 => f32::MIN_POSITIVE.to_bits(),
                _ => random.next_u64() as u32 & 0x007F_FFFF,
            };
            f32::from_bits(sign | magnitude)
        })
        .collect()
}

/// Every magnitude up to ±3e38: sums, differences and scaled values overflow f32.
pub fn extreme(seed: u64, vocabulary: usize) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    (0..vocabulary)
        .map(|_| match random.below(4) {
            0 => 3e38 * (2.0 * random.uniform() - 1.0) as f32,
            1 => [3e38, -3e38][random.below(2)],
            2 => {
                // Any exponent below that of infinity, less one: at most 1.7e38.
                let bits = random.next_u64() as u32;
                let exponent = random.below(254) as u32;
                f32::from_bits((bits & 0x807F_FFFF) | (exponent << 23))
            }
            _ => (3.0 * random.normal()) as f32,
        })
        .collect()
}

/// Each logit from one of the rows, which are of one length.
pub fn mixed(seed: u64, rows: &[Vec<f32>]) -> Vec<f32> {
    let mut random = SplitMix64::new(seed);
    (0..rows[0].len()).map(|i| rows[random.below(rows.len())][i]).collect()
}

/// Rounded to f16; beyond ±65504 that is ±inf.
pub fn to_f16(row: &[f32]) -> Vec<f16> {
    row.iter().map(|&logit| f16::from_f32(logit)).collect()
}

/// Rounded to bf16.
pub fn to_bf16(row: &[f32]) -> Vec<bf16> {
    row.iter().map(|&logit| bf16::from_f32(logit)).collect()
}

/// Rounded to values that f16 holds exactly. What is finite stays finite, −inf stays −inf.
pub fn representable_f16(row: &[f32]) -> Vec<f32> {
    let largest = f16::MAX.to_f32();
    row.iter().map(|&logit| keep_finite(logit, largest, |x| f16::from_f32(x).to_f32())).collect()
}

/// Rounded to values that bf16 holds exactly. What is finite stays finite, −inf stays −inf.
pub fn representable_bf16(row: &[f32]) -> Vec<f32> {
    let largest = bf16::MAX.to_f32();
    row.iter().map(|&logit| keep_finite(logit, largest, |x| bf16::from_f32(x).to_f32())).collect()
}

fn keep_finite(logit: f32, largest: f32, round: impl Fn(f32) -> f32) -> f32 {
    if logit.is_finite() { round(logit.clamp(-largest, largest)) } else { logit }
}

/// A vocabulary in 1..=`max`, with small ones and the borders of 64-token blocks well represented.
pub fn any_vocabulary(max: usize) -> impl Strategy<Value = usize> {
    let mut borders: Vec<usize> =
        [63, 64, 65, 127, 128, 129].into_iter().filter(|&size| size <= max).collect();
    borders.push(max);
    prop_oneof![2 => 1..=max.min(8), 3 => select(borders), 3 => 1..=max]
}

/// A row of any of the shapes above, of 1 to `max_vocabulary` logits, none NaN or +inf, at least one finite.
pub fn any_row(max_vocabulary: usize) -> impl Strategy<Value = Vec<f32>> {
    any_vocabulary(max_vocabulary).prop_flat_map(|vocabulary| {
        prop_oneof![
            3 => (any::<u64>(), 0.1..8.0).prop_map(move |(seed, sigma)| gaussian(seed, vocabulary, sigma)),
            1 => select(vec![0.0f32, -0.0, 1.5, -7.25, 3e38, -3e38]).prop_map(move |value| flat(vocabulary, value)),
            3 => any::<u64>().prop_map(move |seed| peaked(seed, vocabulary)),
            2 => (any::<u64>(), 1..=6usize).prop_map(move |(seed, distinct)| ties(seed, vocabulary, distinct)),
            2 => (any::<u64>(), 0.0..1.0).prop_map(move |(seed, share)| masked(seed, vocabulary, share)),
            1 => any::<u64>().prop_map(move |seed| denormal(seed, vocabulary)),
            1 => any::<u64>().prop_map(move |seed| extreme(seed, vocabulary)),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_the_logarithm() {
        let mut random = SplitMix64::new(1);
        for _ in 0..10_000 {
            let x = random.uniform() * 10.0 + 1e-300;
            assert!((portable_ln(x) - x.ln()).abs() <= 2e-15 * x.ln().abs().max(1.0), "{x}");
        }
        assert_eq!(portable_ln(1.0), 0.0);
    }

    #[test]
    fn rows_keep_their_values() {
        // Golden files elsewhere may rest on these rows: a change here changes those.
        let bits =
            |row: Vec<f32>| row.iter().fold(0u64, |sum, x| sum.rotate_left(7) ^ u64::from(x.to_bits()));
        assert_eq!(SplitMix64::new(1234567).next_u64(), 6457827717110365317);
        let shapes = [
            gaussian(1, 100, 3.0),
            peaked(1, 100),
            ties(1, 100, 5),
            masked(1, 100, 0.5),
            denormal(1, 100),
            extreme(1, 100),
        ];
        assert_eq!(shapes.map(bits), PINNED);
    }

    const PINNED: [u64; 6] = [
        5414834497881915245,
        16055343562879230541,
        13554497370318972202,
        12543333183882322189,
        1389698576029897451,
        4011623478080497132,
    ];

    #[test]
    fn a_gaussian_row_is_gaussian() {
        let row = gaussian(7, 100_000, 2.0);
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / row.len() as f64;
        let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / row.len() as f64;
        let beyond = row.iter().filter(|x| x.abs() > 4.0).count() as f64 / row.len() as f64;
        assert!(mean.abs() < 0.03, "{mean}");
        assert!((variance - 4.0).abs() < 0.1, "{variance}");
        assert!((beyond - 0.0455).abs() < 0.003, "{beyond}");
    }

    #[test]
    fn each_shape_is_what_its_name_says() {
        let row = ties(3, 1000, 4);
        let mut patterns: Vec<u32> = row.iter().map(|x| x.to_bits()).collect();
        patterns.sort_unstable();
        patterns.dedup();
        assert_eq!(patterns.len(), 4);
        assert!(patterns.contains(&0) && patterns.contains(&(-0.0f32).to_bits()));

        assert_eq!(masked(3, 50, 1.0).iter().filter(|x| x.is_finite()).count(), 1);
        assert!(masked(3, 50, 0.0).iter().all(|x| x.is_finite()));
        assert!(masked(3, 0, 0.5).is_empty());
        assert!(denormal(3, 1000).iter().all(|x| x.abs() <= f32::MIN_POSITIVE));
        let wide = extreme(3, 1000);
        assert!(wide.iter().all(|x| x.abs() <= 3e38) && wide.contains(&3e38) && wide.contains(&-3e38));

        let mut head = peaked(3, 4000);
        head.sort_by(|a, b| b.total_cmp(a));
        assert_eq!(head[0], 20.0);
        assert!(head[0] - head[1] > 0.8);
    }

    proptest! {
        #[test]
        fn rows_can_be_drawn_from(row in any_row(200)) {
            prop_assert!((1..=200).contains(&row.len()));
            prop_assert!(row.iter().any(|x| x.is_finite()));
            prop_assert!(row.iter().all(|x| x.is_finite() || *x == f32::NEG_INFINITY));
        }

        #[test]
        fn representable_rows_survive_a_round_trip(row in any_row(200)) {
            let (half, brain) = (representable_f16(&row), representable_bf16(&row));
            for (i, &logit) in row.iter().enumerate() {
                prop_assert_eq!(logit.is_finite(), half[i].is_finite());
                prop_assert_eq!(logit.is_finite(), brain[i].is_finite());
                prop_assert_eq!(to_f16(&half)[i].to_f32().to_bits(), half[i].to_bits());
                prop_assert_eq!(to_bf16(&brain)[i].to_f32().to_bits(), brain[i].to_bits());
            }
        }
    }
}
