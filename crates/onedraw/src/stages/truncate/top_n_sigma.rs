//! Top-nσ: keeps the logits within n standard deviations of the best (Tang and others, Top-nσ: not all logits
//! are you need, 2024).
//!
//! Logits are compared with each other, so the temperature does not matter. The deviation comes from
//! integers: with 2^e at least the range of what is left, `q = floor((x_max − x) / 2^e · 2^40)`, and Σq and
//! Σq² do not depend on the order of the additions.

use crate::error::RowError;
use crate::kernels::deviation::DEVIATION_BITS;
use crate::logits::access::{Asker, RowAccess};
use crate::logits::query::SumDeviations;
use crate::numeric::key::{Key, lowest_where};
use crate::numeric::math::power_of_two;

/// A checked `top_n_sigma`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopNSigma {
    n: f64,
}

impl TopNSigma {
    /// `None` where it is off.
    pub(crate) fn new(n: f64) -> Option<Self> {
        (n > 0.0).then_some(Self { n })
    }

    /// How many standard deviations.
    pub fn n(&self) -> f64 {
        self.n
    }

    /// The last place of the smallest logit x with `x_max − x ≤ n·σ`.
    pub(crate) async fn cut<R: RowAccess>(
        &self,
        row: &mut Asker<'_, R>,
        x_max: f32,
        previous: Key,
    ) -> Result<Key, RowError> {
        let last = row.last(previous).await?;
        let range = f64::from(x_max) - f64::from(last.logit());
        if range <= 0.0 {
            return Ok(previous);
        }
        let exponent = ceiling_exponent(range);
        let deviations = row.ask(&SumDeviations { last: previous, x_max, exponent }).await?;
        let sigma = deviation(deviations.count, deviations.sum, deviations.squares, exponent)
            .ok_or(RowError::contradiction("sums of distances that no tokens have"))?;
        let limit = self.n * sigma;
        let lowest = lowest_where(x_max, |x| f64::from(x_max) - f64::from(x) <= limit);
        Ok(Key::last_of(lowest.unwrap_or(x_max)))
    }
}

/// The smallest e with 2^e ≥ x, for a normal x above 0.
pub(crate) fn ceiling_exponent(x: f64) -> i32 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    exponent + i32::from(bits << 12 != 0)
}

/// The standard deviation of `count` numbers q·2^(e−40), from their sum and the sum of their squares:
/// `sqrt(n·Σq² − (Σq)²) / n`, in integers below the root. `None` if no numbers have these sums.
pub(crate) fn deviation(count: u32, sum: u64, squares: u128, exponent: i32) -> Option<f64> {
    let spread = u128::from(count)
        .checked_mul(squares)?
        .checked_sub(u128::from(sum) * u128::from(sum))
        .filter(|_| count > 0)?;
    Some((spread as f64).sqrt() / f64::from(count) * power_of_two(exponent - DEVIATION_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_round_up() {
        assert_eq!([1.0, 1.5, 2.0, 0.5, 0.51, 1e-45].map(ceiling_exponent), [0, 1, 1, -1, 0, -149]);
        assert_eq!(ceiling_exponent(2.0 * f64::from(f32::MAX)), 129);
    }

    #[test]
    fn the_deviation_of_known_numbers() {
        // 0, 1, 2, 3 in a range of 4: q = k·2^38, and the population deviation is sqrt(1.25).
        let q = |k: u64| k << 38;
        let (sum, squares) =
            (0..4).fold((0, 0), |(sum, squares), k| (sum + q(k), squares + u128::from(q(k)).pow(2)));
        assert_eq!(deviation(4, sum, squares, 2), Some(1.25f64.sqrt()));
        assert_eq!(deviation(4, sum, squares / 2, 2), None);
    }
}
