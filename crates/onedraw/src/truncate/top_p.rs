//! Top-p: keeps the shortest prefix whose mass reaches p (Holtzman and others, The curious case of neural text degeneration, 2019).
//!
//! A token stays iff the mass before it is below p of the total, so the token that crosses p stays.

use crate::inquiry::Inquiry;
use crate::mass::Softmax;
use crate::order::Key;
use crate::question::{Answer, Question};
use crate::selection::Weighed;
use crate::truncate::Verdict;

/// A share of a mass as a fraction of 2^53, so that comparisons are exact, in 128 bits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    /// `max(1, round(p · 2^53))`.
    p: u64,
}

const ONE: f64 = 9_007_199_254_740_992.0;

impl Share {
    /// `None` for the whole.
    pub(crate) fn new(p: f64) -> Option<Self> {
        (p < 1.0).then(|| Self { p: ((p * ONE).round() as u64).max(1) })
    }

    /// Whether `mass` is below this share of `total`.
    pub(crate) fn is_above(&self, mass: u64, total: u64) -> bool {
        u128::from(mass) << 53 < u128::from(self.p) * u128::from(total)
    }

    /// The smallest mass that is this share of `total` or more; at least 1.
    pub(crate) fn units(&self, total: u64) -> u64 {
        ((u128::from(self.p) * u128::from(total)).div_ceil(1 << 53) as u64).max(1)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TopP {
    share: Share,
}

impl TopP {
    pub(crate) fn new(top_p: f64) -> Option<Self> {
        Share::new(top_p).map(|share| Self { share })
    }

    pub(crate) fn keeps_after(&self, before: u64, total: u64) -> bool {
        self.share.is_above(before, total)
    }

    /// The masses of a whole row are first intervals. Only where these cannot tell must the row be summed.
    pub(crate) fn judge(&self, row: &mut Inquiry<'_>, softmax: Softmax, key: Key, is_first: bool) -> Verdict {
        if !is_first {
            return Verdict::HangsOnTotal;
        }
        // First from the blocks that reach the token alone, then from all that could matter: what weighs less than 2^-20 of the best makes an interval half a percent wide.
        let depths = [softmax.x_max, softmax.x_max - 20.0 / softmax.scale];
        for depth in depths {
            let Answer::Weighed { before, total } = row.ask(Question::Weigh { key, softmax, depth }) else {
                break;
            };
            if self.keeps_after(before.most, total.least) {
                return Verdict::Kept;
            }
            if !self.keeps_after(before.least, total.most) {
                return Verdict::Dropped;
            }
            if key.logit() <= depths[1] {
                break;
            }
        }
        Verdict::HangsOnTotal
    }

    /// The token in which the mass crosses p.
    pub(crate) fn cut(&self, row: &mut Inquiry<'_>, softmax: Softmax, previous: Key) -> Key {
        // Past the first `units` of mass nothing is kept; the last of them lies in the crossing token.
        let total = row.total(previous, softmax);
        row.locate_mass(Weighed { last: previous, softmax, total }, self.share.units(total) - 1)
    }
}
