//! The laws that guesses were drawn from.

use crate::logprobs::Distribution;
use crate::numeric::float_mode::Standard;
use crate::numeric::math::ln;
use crate::numeric::noise::BLOCK;
use crate::params::error::ParamError;

/// Where the guesses after one node come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Law {
    /// They were not drawn: an n-gram's, the best few of a row. Each was certain, as far as chance is
    /// concerned.
    #[default]
    Given,
    /// They were drawn from this one after the other, without replacement, in the order in which they stand
    /// in the tree.
    Drawn(Probabilities),
}

impl Law {
    /// Guesses drawn from a distribution.
    pub fn of(distribution: &Distribution) -> Result<Self, ParamError> {
        let Distribution { tokens, probabilities, .. } = distribution;
        let pairs = tokens.iter().copied().zip(probabilities.iter().copied());
        Probabilities::new(pairs).map(Self::Drawn)
    }
}

/// Tokens with their probabilities. They sum to 1, and each is positive.
///
/// ```
/// use onedraw::speculate::Probabilities;
/// let law = Probabilities::new([(7, 0.25), (3, 0.75)])?;
/// assert_eq!((law.probability(7), law.probability(8)), (0.25, 0.0));
/// assert_eq!(law.tokens(), [3, 7]);
/// # Ok::<(), onedraw::ParamError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Probabilities {
    /// Ascending.
    tokens: Vec<u32>,
    values: Vec<f64>,
}

/// How far from 1 a sum may be. What a chain reports is within 3e-7: weights have the 24 bits of an f32.
const CLOSE: f64 = 1e-6;

impl Probabilities {
    /// Tokens in any order, each once, with probabilities that sum to 1 within 1e-6; the sum is then made 1.
    pub fn new(pairs: impl IntoIterator<Item = (u32, f64)>) -> Result<Self, ParamError> {
        let _mode = Standard::enter();
        let error = |message| ParamError::new("probabilities", message);
        let mut pairs: Vec<(u32, f64)> = pairs.into_iter().collect();
        if let Some((token, bad)) = pairs.iter().find(|(_, p)| !(0.0..=1.0 + CLOSE).contains(p)) {
            return Err(error(format!("must be in [0, 1], not {bad} as that of token {token}")));
        }
        pairs.sort_unstable_by_key(|&(token, _)| token);
        if let Some(twice) = pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(error(format!("must name each token once, not token {} twice", twice[0].0)));
        }
        let sum = total(&pairs);
        match Self::weighed(pairs) {
            Some(law) if (sum - 1.0).abs() <= CLOSE => Ok(law),
            _ => Err(error(format!("must sum to 1 within {CLOSE:e}, not to {sum}"))),
        }
    }

    /// One token for certain.
    pub fn certain(token: u32) -> Self {
        Self { tokens: vec![token], values: vec![1.0] }
    }

    /// What a chain left. Its sum is made 1, because a race draws from the weights as they are.
    pub(super) fn of(distribution: Distribution) -> Option<Self> {
        let mut pairs: Vec<_> = distribution.tokens.into_iter().zip(distribution.probabilities).collect();
        pairs.sort_unstable_by_key(|&(token, _)| token);
        Self::weighed(pairs)
    }

    /// Weights over ascending tokens, made to sum to 1; `None` where there is no weight.
    fn weighed(mut pairs: Vec<(u32, f64)>) -> Option<Self> {
        pairs.retain(|&(_, weight)| weight > 0.0);
        let sum = total(&pairs);
        let (tokens, values) = pairs.into_iter().map(|(token, weight)| (token, weight / sum)).unzip();
        (sum > 0.0).then_some(Self { tokens, values })
    }

    /// The tokens that have a probability, ascending.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The probabilities of [these](Self::tokens).
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The probability of a token.
    pub fn probability(&self, token: u32) -> f64 {
        self.tokens.binary_search(&token).map_or(0.0, |place| self.values[place])
    }

    /// Tokens with their probabilities.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (u32, f64)> {
        self.tokens.iter().copied().zip(self.values.iter().copied())
    }

    /// In nats.
    pub(super) fn entropy(&self) -> f64 {
        self.values.iter().fold(0.0, |sum, &p| sum - p * ln(p))
    }

    /// What `share` of this has more than `other`, token by token: max(share·p − q, 0).
    fn surplus(&self, share: f64, other: &Self) -> Vec<(u32, f64)> {
        let mut others = other.pairs().peekable();
        let surplus = self.pairs().map(|(token, p)| {
            while others.next_if(|&(other, _)| other < token).is_some() {}
            let q = others.next_if(|&(other, _)| other == token).map_or(0.0, |(_, q)| q);
            (token, (share * p - q).max(0.0))
        });
        surplus.collect()
    }

    /// The sum of max(share·p − q, 0).
    pub(super) fn excess(&self, share: f64, other: &Self) -> f64 {
        total(&self.surplus(share, other))
    }

    /// The law of max(share·p − q, 0).
    ///
    /// Where that is nothing, this itself. Whoever asks has just rejected a guess x because share·p(x) <
    /// q(x), so the surplus is positive but for rounding: the case has a probability of about 1e-16, and any
    /// law that stays within the target's tokens will do.
    pub(super) fn residual(self, share: f64, other: &Self) -> Self {
        Self::weighed(self.surplus(share, other)).unwrap_or(self)
    }

    /// The law of the others, once a token is taken; `None` where there are no others.
    pub(super) fn without(&self, token: u32) -> Option<Self> {
        Self::weighed(self.pairs().filter(|&(other, _)| other != token).collect())
    }
}

/// The sum over ascending tokens: block by block of 64 ids, each summed in the order of the ids, and then
/// their sums in the order of the blocks. Part of the definition, because sums of floats depend on their
/// order; a device adds the blocks side by side.
fn total(pairs: &[(u32, f64)]) -> f64 {
    let blocks = pairs.chunk_by(|a, b| a.0 / BLOCK as u32 == b.0 / BLOCK as u32);
    blocks.fold(0.0, |sum, block| sum + block.iter().fold(0.0, |sum, (_, weight)| sum + weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(pairs: &[(u32, f64)]) -> Probabilities {
        Probabilities::new(pairs.iter().copied()).expect("a law")
    }

    #[test]
    fn what_is_no_law_is_told() {
        let message =
            |pairs: &[(u32, f64)]| Probabilities::new(pairs.iter().copied()).expect_err("no law").to_string();
        let cases: [(&[(u32, f64)], &str); 6] = [
            (&[(1, 0.5), (2, -0.5)], "probabilities: must be in [0, 1], not -0.5 as that of token 2"),
            (&[(1, f64::NAN)], "probabilities: must be in [0, 1], not NaN as that of token 1"),
            (&[(4, f64::INFINITY)], "probabilities: must be in [0, 1], not inf as that of token 4"),
            (&[(1, 0.5), (2, 0.25)], "probabilities: must sum to 1 within 1e-6, not to 0.75"),
            (&[], "probabilities: must sum to 1 within 1e-6, not to 0"),
            (&[(3, 0.5), (3, 0.5)], "probabilities: must name each token once, not token 3 twice"),
        ];
        for (pairs, expected) in cases {
            assert_eq!(message(pairs), expected);
        }
    }

    #[test]
    fn a_law_is_sorted_and_sums_to_one() {
        let law = law(&[(9, 0.5 + 4e-7), (2, 0.0), (4, 0.5 + 4e-7)]);
        assert_eq!((law.tokens(), law.values()), (&[4, 9][..], &[0.5, 0.5][..]));
        let distribution =
            Distribution { tokens: vec![9, 4], probabilities: vec![0.75, 0.25], ..Distribution::default() };
        assert_eq!(Law::of(&distribution), Probabilities::new([(4, 0.25), (9, 0.75)]).map(Law::Drawn));
    }

    #[test]
    fn what_one_has_more_than_the_other() {
        let (p, q) = (law(&[(0, 0.5), (1, 0.25), (3, 0.25)]), law(&[(0, 0.25), (1, 0.5), (2, 0.25)]));
        assert_eq!((p.excess(1.0, &q), p.excess(0.5, &q)), (0.5, 0.125));
        assert_eq!(p.clone().residual(1.0, &q), law(&[(0, 0.5), (3, 0.5)]));
        assert_eq!(p.clone().residual(1.0, &p), p, "nothing is left: the law itself");
        assert_eq!(q.without(1), Some(law(&[(0, 0.5), (2, 0.5)])));
        assert_eq!(Probabilities::certain(1).without(1), None);
        assert!((law(&[(0, 0.5), (5, 0.5)]).entropy() - std::f64::consts::LN_2).abs() < 1e-15);
    }
}
