//! Truncations: stages that keep a subset of the tokens.
//!
//! Most keep a prefix of the order. A [`Prefix`] is asked about one token (`Prefix::judge`), which is all a
//! draw needs, or for the last token it keeps (`Prefix::cut`), which is what a distribution needs. Typical
//! keeps a window and XTC a suffix: the tokens before these are masked, and what is left is a prefix again.

pub mod cutoff;
mod membership;
pub mod min_p;
pub mod mirostat;
pub mod share;
pub mod top_k;
pub mod top_n_sigma;
pub mod top_p;
pub mod typical;
pub mod xtc;

pub(crate) use membership::Membership;

use crate::error::RowError;
use crate::logits::access::{Asker, RowAccess};
use crate::numeric::key::Key;
use crate::numeric::temperature::Temperature;
use crate::params::SamplingParams;
use crate::params::chain::Stage;

use cutoff::Cutoff;
use min_p::MinP;
use mirostat::Mirostat;
use top_k::TopK;
use top_n_sigma::TopNSigma;
use top_p::TopP;
use typical::Typical;
use xtc::Xtc;

/// A truncation with its checked parameters.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Truncation {
    /// A prefix of the order.
    Prefix(Prefix),
    /// A prefix that depends on mirostat's state.
    Mirostat(Mirostat),
    /// A window.
    Typical(Typical),
    /// A suffix.
    Xtc(Xtc),
}

impl Truncation {
    /// `None` where the parameter is off, or the stage is no truncation. `index` counts the stages of the
    /// same name before it.
    pub(crate) fn new(stage: &Stage, params: &SamplingParams, index: u32) -> Option<Self> {
        let prefix = match stage {
            Stage::MinP => MinP::new(params.min_p).map(Prefix::MinP),
            Stage::TopK => TopK::new(params.top_k).map(Prefix::TopK),
            Stage::TopP => TopP::new(params.top_p).map(Prefix::TopP),
            Stage::TopNSigma => TopNSigma::new(params.top_n_sigma).map(Prefix::TopNSigma),
            Stage::Epsilon => Cutoff::new(Cutoff::Epsilon, params.epsilon_cutoff).map(Prefix::Cutoff),
            Stage::Eta => Cutoff::new(Cutoff::Eta, params.eta_cutoff).map(Prefix::Cutoff),
            Stage::TopA => Cutoff::new(Cutoff::TopA, params.top_a).map(Prefix::Cutoff),
            Stage::Typical => return Typical::new(params).map(Truncation::Typical),
            Stage::Xtc => return Xtc::new(params, index).map(Truncation::Xtc),
            Stage::Mirostat => return Mirostat::new(params).map(Truncation::Mirostat),
            _ => None,
        };
        prefix.map(Truncation::Prefix)
    }
}

/// A truncation that keeps a prefix of the order.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Prefix {
    /// At least `min_p` times as likely as the best.
    MinP(MinP),
    /// The `top_k` best.
    TopK(TopK),
    /// The shortest prefix whose mass reaches `top_p`.
    TopP(TopP),
    /// Within `top_n_sigma` standard deviations of the best.
    TopNSigma(TopNSigma),
    /// At least as likely as a bar: epsilon, eta, top-a, mirostat 2.
    Cutoff(Cutoff),
    /// The tokens up to this one: the end of a window.
    UpTo(Key),
}

impl Prefix {
    /// Whether it keeps a token that the earlier truncations kept; `is_first` if there are none.
    pub(crate) async fn judge<R: RowAccess>(
        &self,
        row: &mut Asker<'_, R>,
        x_max: f32,
        temperature: Temperature,
        key: Key,
        is_first: bool,
    ) -> Result<Membership, RowError> {
        match self {
            Prefix::MinP(min_p) => Ok((key <= min_p.cut(x_max, temperature)).into()),
            Prefix::TopK(top_k) => Ok(top_k.keeps(row, key).await?.into()),
            Prefix::TopP(top_p) => top_p.judge(row, temperature.softmax(x_max), key, is_first).await,
            Prefix::TopNSigma(_) if key.logit() == x_max => Ok(Membership::Kept),
            Prefix::TopNSigma(_) => Ok(Membership::NeedsCut),
            Prefix::Cutoff(cutoff) => cutoff.judge(row, x_max, temperature, key, is_first).await,
            Prefix::UpTo(last) => Ok((key <= *last).into()),
        }
    }

    /// Whether its last token is found sooner than a race is run among all tokens.
    pub(crate) fn is_cut_before_race(&self) -> bool {
        match self {
            Prefix::MinP(_) | Prefix::UpTo(_) => true,
            Prefix::TopK(top_k) => top_k.is_short(),
            Prefix::TopP(_) | Prefix::TopNSigma(_) | Prefix::Cutoff(_) => false,
        }
    }

    /// Whether finding its last token costs no more than a few blocks.
    pub(crate) fn has_cheap_cut(&self) -> bool {
        match self {
            Prefix::MinP(_) | Prefix::UpTo(_) => true,
            Prefix::TopK(top_k) => top_k.is_listed(),
            Prefix::TopP(_) | Prefix::TopNSigma(_) | Prefix::Cutoff(_) => false,
        }
    }

    /// The last token it keeps of those up to `previous`, which the earlier truncations kept.
    pub(crate) async fn cut<R: RowAccess>(
        &self,
        row: &mut Asker<'_, R>,
        x_max: f32,
        temperature: Temperature,
        previous: Key,
    ) -> Result<Key, RowError> {
        let cut = match self {
            Prefix::MinP(min_p) => min_p.cut(x_max, temperature),
            Prefix::TopK(top_k) => top_k.cut(row).await?,
            Prefix::TopP(top_p) => top_p.cut(row, temperature.softmax(x_max), previous).await?,
            Prefix::TopNSigma(sigma) => sigma.cut(row, x_max, previous).await?,
            Prefix::Cutoff(cutoff) => cutoff.cut(row, x_max, temperature, previous).await?,
            Prefix::UpTo(last) => *last,
        };
        Ok(cut.min(previous))
    }
}
