//! Mirostat: holds the surprise of the text near a target (Basu, Ramachandran, Keskar, Varshney, Mirostat: a
//! neural text decoding algorithm that directly controls perplexity, 2020).
//!
//! mu, in bits, is where it stands. Version 2 keeps the tokens that surprise by mu at most. Version 1 fits
//! Zipf's law to the best hundred and keeps the k tokens that this law says. After a draw, `mu −= eta ·
//! (surprise − tau)`, the surprise being that of the drawn token in the distribution it was drawn from.

use crate::error::RowError;
use crate::logits::access::{Asker, RowAccess};
use crate::logits::query::ListBest;
use crate::numeric::key::Key;
use crate::numeric::mass::MAX_VOCABULARY;
use crate::numeric::math::{exp, ln};
use crate::numeric::temperature::Temperature;
use crate::params::SamplingParams;
use crate::stages::truncate::cutoff::Cutoff;
use crate::stages::truncate::top_k::TopK;

/// The tokens that Zipf's law is fitted to.
const FITTED: u32 = 100;

/// Checked parameters of mirostat.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mirostat {
    version: u8,
    tau: f64,
    eta: f64,
}

impl Mirostat {
    pub(crate) fn new(params: &SamplingParams) -> Option<Self> {
        let (version, tau, eta) = (params.mirostat, params.mirostat_tau, params.mirostat_eta);
        (version > 0).then_some(Self { version, tau, eta })
    }

    /// Which of the two it is.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Where it stands after a token of this logprob was drawn.
    pub(crate) fn learned(&self, mu: f64, logprob: f64) -> f64 {
        let surprise = -logprob / std::f64::consts::LN_2;
        mu - self.eta * (surprise - self.tau)
    }

    /// Version 2's cutoff. `None` for version 1.
    pub(crate) fn cutoff(&self, mu: f64) -> Option<Cutoff> {
        (self.version == 2).then(|| Cutoff::surprise(mu))
    }

    /// Version 1's top-k, of the tokens up to `previous`.
    pub(crate) async fn top_k<R: RowAccess>(
        &self,
        row: &mut Asker<'_, R>,
        mu: f64,
        temperature: Temperature,
        vocabulary: usize,
        previous: Key,
    ) -> Result<TopK, RowError> {
        row.ask(&ListBest { count: FITTED }).await?;
        let keys = &mut row.lists.keys;
        keys.retain(|&key| key <= previous);
        keys.sort_unstable();
        keys.truncate(FITTED as usize);
        let first =
            keys.first().ok_or(RowError::contradiction("no token is left, though one was found before"))?;
        let x_max = first.logit();
        let zipf = exponent(keys.iter().map(|key| temperature.scaled(key.logit(), x_max)));
        Ok(TopK::of(kept(zipf, mu, vocabulary)))
    }
}

/// Zipf's exponent s, by least squares through the steps of y = ln p: `Σ t·b / Σ t²`, `t = ln((i+2)/(i+1))`,
/// `b = y_i − y_{i+1}`.
pub(crate) fn exponent(ys: impl Iterator<Item = f64> + Clone) -> f64 {
    let (mut products, mut squares) = (0.0, 0.0);
    for (i, (y, next)) in ys.clone().zip(ys.skip(1)).enumerate() {
        let t = ln((i as f64 + 2.0) / (i as f64 + 1.0));
        products += t * (y - next);
        squares += t * t;
    }
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// `k = (e·2^mu / (1 − N^−e))^(1/s)` with `e = s − 1`, rounded down, at least 1; computed as logarithms, so
/// that nothing overflows.
pub(crate) fn kept(s: f64, mu: f64, vocabulary: usize) -> u32 {
    let e = s - 1.0;
    let ln_n = ln(vocabulary as f64);
    let ratio = if e == 0.0 { 1.0 / ln_n } else { e / (1.0 - exp(-e * ln_n)) };
    let power = mu * std::f64::consts::LN_2 + ln(ratio);
    let ln_k = power / s;
    // A flat row has s = 0: all of it, or one token.
    let k = if s == 0.0 || ln_k.is_nan() { if power > 0.0 { f64::INFINITY } else { 1.0 } } else { exp(ln_k) };
    if k < MAX_VOCABULARY as f64 { (k as u32).max(1) } else { MAX_VOCABULARY as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_of_a_zipf_law_is_found() {
        for s in [0.5, 1.0, 1.7] {
            let ys: Vec<f64> = (1..=100).map(|rank| -s * ln(f64::from(rank))).collect();
            assert!((exponent(ys.iter().copied()) - s).abs() < 1e-12);
        }
        assert_eq!(exponent([1.0].into_iter()), 0.0);
        assert_eq!(exponent([2.0; 5].into_iter()), 0.0);
    }

    #[test]
    fn k_follows_the_formula_and_its_limits() {
        // s = 2, e = 1, N = 1000: k = sqrt(2^mu / (1 − 1/1000)).
        assert_eq!(kept(2.0, 10.0, 1000), 32);
        assert_eq!(kept(2.0, -10.0, 1000), 1);
        // e = 0: k = 2^mu / ln N = 1024 / 6.9.
        assert_eq!(kept(1.0, 10.0, 1000), 148);
        // s = 0: 2^mu against N − 1.
        assert_eq!((kept(0.0, 10.0, 1000), kept(0.0, 9.0, 1000)), (MAX_VOCABULARY as u32, 1));
        assert_eq!(kept(1e44, 10.0, 1000), 1);
        assert_eq!(kept(0.001, 1e6, 1000), MAX_VOCABULARY as u32);
        assert_eq!(kept(1.0, 3.0, 1), MAX_VOCABULARY as u32, "a vocabulary of one token");
    }

    #[test]
    fn a_surprise_above_the_target_lowers_mu() {
        let mirostat = Mirostat { version: 2, tau: 5.0, eta: 0.1 };
        assert_eq!(mirostat.learned(10.0, -7.0 * std::f64::consts::LN_2), 9.8);
        assert_eq!(mirostat.learned(10.0, 0.0), 10.5);
    }
}
