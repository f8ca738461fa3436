//! Truncations: stages that keep a prefix of the order. A file each.
//!
//! A truncation is asked about one token ([`Truncation::keeps`]), which is all a draw needs, or for the last token
//! it keeps ([`Truncation::cut`]), which is what a distribution needs.

pub(crate) mod min_p;
pub(crate) mod top_k;
pub(crate) mod top_p;

use crate::chain::Stage;
use crate::draw::Draw;
use crate::edit::temperature::Temperature;
use crate::order::Key;
use crate::params::SamplingParams;

/// A truncation with its checked parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Truncation {
    MinP(min_p::MinP),
    TopK(top_k::TopK),
    TopP(top_p::TopP),
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

    /// Whether truncation number `index` of the segment, which this is, keeps a token that the earlier ones kept.
    pub(crate) fn keeps(
        &self,
        draw: &mut Draw<'_>,
        index: usize,
        temperature: Temperature,
        key: Key,
    ) -> bool {
        match self {
            Truncation::MinP(min_p) => key <= min_p.cut(draw.x_max(), temperature),
            Truncation::TopK(top_k) => top_k.keeps(draw, key),
            Truncation::TopP(top_p) => top_p.keeps(draw, index, temperature, key),
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
    pub(crate) fn cut(&self, draw: &mut Draw<'_>, temperature: Temperature, previous: Key) -> Key {
        let cut = match self {
            Truncation::MinP(min_p) => min_p.cut(draw.x_max(), temperature),
            Truncation::TopK(top_k) => top_k.cut(draw),
            Truncation::TopP(top_p) => top_p.cut(draw, temperature, previous),
        };
        cut.min(previous)
    }
}
