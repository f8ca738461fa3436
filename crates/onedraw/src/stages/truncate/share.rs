//! A share of a mass.

/// A share of a mass as a fraction of 2^53, so that comparisons with masses are exact, in 128 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// `max(1, round(p · 2^53))`.
    p: u64,
}

const ONE: f64 = 9_007_199_254_740_992.0;

impl Share {
    /// `None` for the whole.
    pub(crate) fn new(p: f64) -> Option<Self> {
        (p < 1.0).then(|| Self { p: ((p * ONE).round() as u64).max(1) })
    }

    /// The share times 2^53: at least 1.
    pub fn numerator(&self) -> u64 {
        self.p
    }

    /// Whether `mass` is below this share of `total`.
    pub(crate) fn is_above(&self, mass: u64, total: u64) -> bool {
        u128::from(mass) << 53 < u128::from(self.p) * u128::from(total)
    }

    /// The smallest mass that is at least this share of `total`; at least 1.
    pub(crate) fn units(&self, total: u64) -> u64 {
        ((u128::from(self.p) * u128::from(total)).div_ceil(1 << 53) as u64).max(1)
    }
}
