//! Truncations: stages that keep a subset. A file each.
//!
//! Most keep a prefix of the order. A [`Prefix`] is asked about one token ([`Prefix::judge`]), which is all a draw needs, or for
//! the last token it keeps ([`Prefix::cut`]), which is what a distribution needs. Typical keeps a window and XTC a suffix: what stands
//! before these is masked, and the rest is a prefix again.

pub(crate) mod cutoff;
pub(crate) mod min_p;
pub(crate) mod mirostat;
pub(crate) mod top_k;
pub(crate) mod top_n_sigma;
pub(crate) mod top_p;
pub mod typical;
pub(crate) mod xtc;

use crate::chain::Stage;
use crate::edit::temperature::Temperature;
use crate::inquiry::Inquiry;
use crate::order::Key;
use crate::params::SamplingParams;

use cutoff::Cutoff;

/// A truncation with its checked parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Truncation {
    Prefix(Prefix),
    /// A prefix that hangs on where mirostat stands.
    Mirostat(mirostat::Mirostat),
    /// A window.
    Typical(typical::Typical),
    /// A suffix.
    Xtc(xtc::Xtc),
}

impl Truncation {
    /// `None` where the parameter is off, or the stage is no truncation. `index` counts the stages of the same name before it.
    pub(crate) fn new(stage: &Stage, params: &SamplingParams, index: u32) -> Option<Self> {
        let prefix = match stage {
            Stage::MinP => min_p::MinP::new(params.min_p).map(Prefix::MinP),
            Stage::TopK => top_k::TopK::new(params.top_k).map(Prefix::TopK),
            Stage::TopP => top_p::TopP::new(params.top_p).map(Prefix::TopP),
            Stage::TopNSigma => top_n_sigma::TopNSigma::new(params.top_n_sigma).map(Prefix::TopNSigma),
            Stage::Epsilon => Cutoff::new(Cutoff::Epsilon, params.epsilon_cutoff).map(Prefix::Cutoff),
            Stage::Eta => Cutoff::new(Cutoff::Eta, params.eta_cutoff).map(Prefix::Cutoff),
            Stage::TopA => Cutoff::new(Cutoff::TopA, params.top_a).map(Prefix::Cutoff),
            Stage::Typical => return typical::Typical::new(params.typical_p).map(Truncation::Typical),
            Stage::Xtc => return xtc::Xtc::new(params, index).map(Truncation::Xtc),
            Stage::Mirostat => return mirostat::Mirostat::new(params).map(Truncation::Mirostat),
            _ => None,
        };
        prefix.map(Truncation::Prefix)
    }
}

/// A truncation that keeps a prefix of the order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Prefix {
    MinP(min_p::MinP),
    TopK(top_k::TopK),
    TopP(top_p::TopP),
    TopNSigma(top_n_sigma::TopNSigma),
    Cutoff(Cutoff),
    /// The tokens up to this one: the tail of a window.
    UpTo(Key),
}

/// What a prefix says of a token that the earlier ones kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Kept,
    Dropped,
    /// It hangs on the mass before the token and that of all that the earlier truncations kept: [`Prefix::settle`] decides.
    HangsOnTotal,
    /// Only the cut can tell.
    HangsOnCut,
}

impl From<bool> for Verdict {
    fn from(is_kept: bool) -> Self {
        if is_kept { Verdict::Kept } else { Verdict::Dropped }
    }
}

impl Prefix {
    /// Whether it keeps a token that the earlier truncations kept; `is_first` if there are none.
    pub(crate) fn judge(
        &self,
        row: &mut Inquiry<'_>,
        x_max: f32,
        temperature: Temperature,
        key: Key,
        is_first: bool,
    ) -> Verdict {
        match self {
            Prefix::MinP(min_p) => (key <= min_p.cut(x_max, temperature)).into(),
            Prefix::TopK(top_k) => top_k.keeps(row, key).into(),
            Prefix::TopP(top_p) => top_p.judge(row, temperature.softmax(x_max), key, is_first),
            Prefix::TopNSigma(_) if key.logit() == x_max => Verdict::Kept,
            Prefix::TopNSigma(_) => Verdict::HangsOnCut,
            Prefix::Cutoff(cutoff) => cutoff.judge(row, x_max, temperature, key, is_first),
            Prefix::UpTo(last) => (key <= *last).into(),
        }
    }

    /// Decides [`Verdict::HangsOnTotal`], once the masses are known.
    pub(crate) fn settle(&self, before: u64, total: u64) -> bool {
        match self {
            Prefix::TopP(top_p) => top_p.keeps_after(before, total),
            _ => true,
        }
    }

    /// Whether its last token is found sooner than a race is run among all.
    pub(crate) fn has_cut_first(&self) -> bool {
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

    /// The last token it keeps of those up to `previous`, which the earlier ones kept.
    pub(crate) fn cut(
        &self,
        row: &mut Inquiry<'_>,
        x_max: f32,
        temperature: Temperature,
        previous: Key,
    ) -> Key {
        let cut = match self {
            Prefix::MinP(min_p) => min_p.cut(x_max, temperature),
            Prefix::TopK(top_k) => top_k.cut(row),
            Prefix::TopP(top_p) => top_p.cut(row, temperature.softmax(x_max), previous),
            Prefix::TopNSigma(sigma) => sigma.cut(row, x_max, previous),
            Prefix::Cutoff(cutoff) => cutoff.cut(row, x_max, temperature, previous),
            Prefix::UpTo(last) => *last,
        };
        cut.min(previous)
    }
}
