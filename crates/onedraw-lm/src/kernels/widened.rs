//! Numbers that were widened to f64 once, for the products of many rows of weights (see `strip`).

use crate::kernels::element::STEP;

/// The numbers of a row of inputs are multiplied by the power of two that gives the largest this exponent. Sums
/// between 2^-28 times and twice the largest number are then in the range. A model's weights are far below 1,
/// so larger sums are rare; smaller ones are what most often makes a strip be summed again.
const LARGEST_EXPONENT: i32 = 993;

pub(super) const fn power_of_two(exponent: i32) -> f64 {
    debug_assert!(-1022 <= exponent && exponent <= 1023);
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

/// The numbers of positions, widened and multiplied by powers of two.
#[derive(Clone, Debug, Default)]
pub(super) struct Widened {
    numbers: Vec<f64>,
    /// For each position what sums are multiplied with in the end; `None` if its products are to be summed
    /// in the plain way.
    units: Vec<Option<f64>>,
}

impl Widened {
    /// Takes rows of numbers, in whole steps, instead of those before.
    pub(super) fn set(&mut self, numbers: &[f32], length: usize) {
        self.numbers.clear();
        self.units.clear();
        for row in numbers.chunks_exact(length.max(1)) {
            let exponent = exponent(row);
            self.units.push(exponent.map(|exponent| power_of_two(exponent - LARGEST_EXPONENT)));
            let scale = power_of_two(LARGEST_EXPONENT - exponent.unwrap_or(0));
            self.numbers.extend(row.iter().map(|&number| f64::from(number) * scale));
        }
    }

    /// The numbers of a position and the unit of their sums, if it has one.
    pub(super) fn row(&self, position: usize, steps: usize) -> Option<(&[[f64; STEP]], f64)> {
        let rows = &self.numbers.as_chunks().0[position * steps..(position + 1) * steps];
        self.units[position].map(|unit| (rows, unit))
    }
}

/// The exponent of the largest number; `None` if the powers of two that numbers and sums are multiplied with
/// were not normal, if the range of its sums were not within that of f32, or if there is a treacherous
/// number.
fn exponent(numbers: &[f32]) -> Option<i32> {
    // The bits of magnitudes are ordered as they are; those of infinities and NaN are the largest.
    let largest = numbers.iter().fold(0, |largest, number| number.to_bits().wrapping_shl(1).max(largest));
    let exponent = (largest >> 24) as i32 - 127;
    // Below, the unit of sums were less than 2^-1022.
    let is_usual = (LARGEST_EXPONENT - 1022..=120).contains(&exponent);
    (is_usual && !numbers.iter().any(|&number| is_treacherous(number))).then_some(exponent)
}

/// Whether there is a weight whose product with the number, both taken as integers with their highest bit
/// set, is beside a multiple of 2^29: at most 8 from it, but not it.
///
/// The number is at least 2^23 and below 2^24 and the weight at least 2^7 and below 2^8, so the multiple is
/// one of 2·2^29 to 7·2^29, and the weight is what it is divided by the number, rounded.
#[inline(always)]
fn is_treacherous(number: f32) -> bool {
    const MULTIPLE: f64 = power_of_two(29);
    /// The mantissa of an f64, in which every f32 is normal, and the exponent of 2^23.
    const MANTISSA: u64 = (1 << 52) - 1;
    const EXPONENT: u64 = power_of_two(23).to_bits();
    let integer = f64::from_bits(f64::from(number).to_bits() & MANTISSA | EXPONENT);
    let quotient = MULTIPLE / integer;
    let mut found = false;
    for factor in [2.0, 3.0, 4.0, 5.0, 6.0, 7.0] {
        let weight = (factor * quotient).round_ties_even();
        let distance = (weight * integer - factor * MULTIPLE).abs();
        let is_weight = (128.0..256.0).contains(&weight);
        found |= is_weight && distance <= 8.0 && distance > 0.0;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All weights, for numbers that were made of a multiple of 2^29 and of others.
    #[test]
    fn treacherous_numbers_are_those_with_such_a_weight() {
        let is_beside = |product: u64| {
            let distance = (product % (1 << 29)).min((1 << 29) - product % (1 << 29));
            distance > 0 && distance <= 8
        };
        let mut found = 0;
        let made = (0..60_000u64).map(|i| {
            let (weight, factor, distance) = (128 + i % 128, 2 + i / 128 % 6, i / 768 % 17);
            ((factor << 29) + distance - 8) / weight + i % 2
        });
        let others = (0..20_000).map(|i: u64| 1 << 23 | i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 41);
        for integer in made.chain(others).filter(|integer| integer >> 23 == 1) {
            let expected = (128..256).any(|weight| is_beside(weight * integer));
            for scale in [1.0, -0.001_953_125, f32::MIN_POSITIVE / 8_388_608.0] {
                let number = integer as f32 * scale;
                assert_eq!(is_treacherous(number), expected, "{number:e}");
            }
            found += usize::from(expected);
        }
        assert!(found > 100, "{found}");
    }
}
