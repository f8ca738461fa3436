//! Truncations: stages that keep a prefix of the order. A file each.
//!
//! A truncation is asked about one token ([`Truncation::judge`]), which is all a draw needs, or for the last token
//! it keeps ([`Truncation::cut`]), which is what a distribution needs.

pub(crate) mod min_p;
pub(crate) mod top_k;
pub(crate) mod top_p;

use crate::chain::Stage;
use crate::edit::temperature::Temperature;
use crate::inquiry::Inquiry;
use crate::order::Key;
use crate::params::SamplingParams;

/// A truncation with its checked parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Truncation {
    MinP(min_p::MinP),
    TopK(top_k::TopK),
    TopP(top_p::TopP),
}

/// What a truncation says of a token that the earlier ones kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Kept,
    Dropped,
    /// It hangs on the mass of all that the earlier truncations kept: [`Truncation::settle`] decides.
    HangsOnTotal {
        /// The mass before the token.
        before: u64,
    },
}

impl From<bool> for Verdict {
    fn from(is_kept: bool) -> Self {
        if is_kept { Verdict::Kept } else { Verdict::Dropped }
    }
}

impl Truncation {
    /// `None` where the parameter is off.
    pub(crate) fn new(stage: Stage, params: &SamplingParams) -> Option<Self> {
        match stage {
            Stage::MinP => min_p::MinP::new(params.min_p).map(Truncation::MinP),
            Stage::TopK => top_k::TopK::new(params.top_k).map(Truncation::TopK),
            Stage::TopP => top_p::TopP::new(params.top_p).map(Truncation::TopP),
            _ => None,
        }
    }

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
            Truncation::MinP(min_p) => (key <= min_p.cut(x_max, temperature)).into(),
            Truncation::TopK(top_k) => top_k.keeps(row, key).into(),
            Truncation::TopP(top_p) => top_p.judge(row, temperature.softmax(x_max), key, is_first),
        }
    }

    /// Decides [`Verdict::HangsOnTotal`], once the total is known.
    pub(crate) fn settle(&self, before: u64, total: u64) -> bool {
        match self {
            Truncation::TopP(top_p) => top_p.is_below(before, total),
            Truncation::MinP(_) | Truncation::TopK(_) => true,
        }
    }

    /// Whether finding its last token costs no more than a few blocks.
    pub(crate) fn has_cheap_cut(&self) -> bool {
        match self {
            Truncation::MinP(_) => true,
            Truncation::TopK(top_k) => top_k.is_listed(),
            Truncation::TopP(_) => false,
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
            Truncation::MinP(min_p) => min_p.cut(x_max, temperature),
            Truncation::TopK(top_k) => top_k.cut(row),
            Truncation::TopP(top_p) => top_p.cut(row, temperature.softmax(x_max), previous),
        };
        cut.min(previous)
    }
}
