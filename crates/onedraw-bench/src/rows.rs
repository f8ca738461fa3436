//! Rows of logits, each a function of its shape, a seed and the size of the vocabulary, with the same bits on
//! every platform.

use onedraw::math::{exp, ln};
use onedraw::noise::philox4x32_10;

/// The tokens of a peaked row's head; half of a vocabulary smaller than twice this.
const HEAD: usize = 1024;
/// The best logit of a peaked row.
const PEAK: f64 = 20.0;

/// How a row's logits are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As a language model gives them: a bulk N(0, 3) and, at places anywhere, a Zipf head `20 − a·ln(rank)`
    /// with a between 1.3 and 2.1. At temperature 1 and 0.8, 3 to 200 tokens hold nine tenths of the mass.
    Peaked,
    /// N(0, 1): tens of thousands of tokens hold nine tenths of the mass. The worst case of real life.
    Flat,
}

impl Shape {
    /// Both.
    pub const ALL: [Shape; 2] = [Shape::Peaked, Shape::Flat];

    /// The name, as it stands in a report.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Peaked => "peaked",
            Shape::Flat => "flat",
        }
    }

    /// The row of that seed.
    pub fn row(self, seed: u64, vocabulary: usize) -> Vec<f32> {
        let mut random = Random::new(seed);
        match self {
            Shape::Flat => (0..vocabulary).map(|_| random.normal() as f32).collect(),
            Shape::Peaked => {
                let steepness = 1.3 + 0.8 * random.uniform();
                let head = HEAD.min(vocabulary.div_ceil(2));
                let mut row: Vec<f32> = (1..=head)
                    .map(|rank| PEAK - steepness * ln(rank as f64))
                    .chain(std::iter::repeat_with(|| 3.0 * random.normal()).take(vocabulary - head))
                    .map(|logit| logit as f32)
                    .collect();
                for i in (1..row.len()).rev() {
                    row.swap(i, random.below(i + 1));
                }
                row
            }
        }
    }
}

/// Tokens of a text: a Zipf law over the ids, since a vocabulary lists its frequent tokens first.
pub fn text(seed: u64, length: usize, vocabulary: usize) -> Vec<u32> {
    let mut random = Random::new(seed);
    let span = ln(vocabulary as f64);
    let id = |uniform: f64| (exp(uniform * span) as usize - 1).min(vocabulary - 1) as u32;
    (0..length).map(|_| id(random.uniform())).collect()
}

/// A stream of Philox words.
struct Random {
    key: [u32; 2],
    drawn: u32,
}

impl Random {
    fn new(seed: u64) -> Self {
        Self { key: [seed as u32, (seed >> 32) as u32], drawn: 0 }
    }

    fn words(&mut self) -> [u32; 4] {
        self.drawn += 1;
        philox4x32_10(self.key, [self.drawn, 0, 0, 0])
    }

    /// Uniform in (0, 1).
    fn uniform(&mut self) -> f64 {
        share(self.words()[0])
    }

    /// Uniform in 0..`bound`.
    fn below(&mut self, bound: usize) -> usize {
        ((u64::from(self.words()[0]) * bound as u64) >> 32) as usize
    }

    /// Standard normal, by Marsaglia's polar method.
    fn normal(&mut self) -> f64 {
        loop {
            let [first, second, ..] = self.words();
            let (u, v) = (2.0 * share(first) - 1.0, 2.0 * share(second) - 1.0);
            let square = u * u + v * v;
            if square < 1.0 {
                return u * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }
}

fn share(bits: u32) -> f64 {
    (f64::from(bits) + 0.5) / 4_294_967_296.0
}

#[cfg(test)]
mod tests {
    use onedraw::SamplingParams;
    use onedraw_testkit::oracle;

    use super::*;

    fn nucleus(row: &[f32], temperature: f64) -> usize {
        let params =
            SamplingParams::builder().temperature(temperature).top_p(0.9).build().expect("valid parameters");
        oracle::distribution(row, &params).expect("a distribution").tokens.len()
    }

    #[test]
    fn nine_tenths_of_a_peaked_row_are_3_to_200_tokens() {
        for (seed, vocabulary) in (1..=8).zip([32_000, 49_152, 128_256, 151_936].into_iter().cycle()) {
            let row = Shape::Peaked.row(seed, vocabulary);
            assert_eq!(row.len(), vocabulary);
            for temperature in [0.8, 1.0] {
                let kept = nucleus(&row, temperature);
                assert!((3..=200).contains(&kept), "seed {seed}: {kept} of {vocabulary} at {temperature}");
            }
        }
    }

    #[test]
    fn nine_tenths_of_a_flat_row_are_a_good_part_of_it() {
        let row = Shape::Flat.row(1, 32_000);
        assert!(nucleus(&row, 1.0) > 8_000);
        let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / 32_000.0;
        let square = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>() / 32_000.0;
        assert!(mean.abs() < 0.03 && (square - 1.0).abs() < 0.03, "{mean} {square}");
    }

    #[test]
    fn rows_differ_by_seed_and_fit_any_vocabulary() {
        for shape in Shape::ALL {
            assert_ne!(shape.row(1, 300), shape.row(2, 300));
            for vocabulary in [1, 2, 3, 64, 1000] {
                let row = shape.row(1, vocabulary);
                assert!(row.len() == vocabulary && row.iter().all(|x| x.is_finite()));
            }
        }
    }

    #[test]
    fn a_text_says_frequent_tokens_often() {
        let text = text(1, 1512, 128_256);
        assert!(text.iter().all(|&token| token < 128_256));
        let mut distinct = text.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert!((700..1300).contains(&distinct.len()), "{}", distinct.len());
        assert!(super::text(1, 100, 1).iter().all(|&token| token == 0));
    }
}
