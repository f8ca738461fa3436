//! Top-p: keeps the shortest prefix whose mass reaches p (Holtzman and others, The curious case of neural text degeneration, 2019).
//!
//! A token stays iff the mass before it is below p of the total, so the token that crosses p stays. Masses are integers
//! and p is a fraction of 2^53, so the comparison is exact, in 128 bits.

use crate::inquiry::Inquiry;
use crate::mass::Softmax;
use crate::order::Key;
use crate::question::{Answer, Measure, Question};
use crate::truncate::Verdict;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TopP {
    /// `max(1, round(p · 2^53))`.
    p: u64,
}

const ONE: f64 = 9_007_199_254_740_992.0;

impl TopP {
    pub(crate) fn new(top_p: f64) -> Option<Self> {
        (top_p < 1.0).then(|| Self { p: ((top_p * ONE).round() as u64).max(1) })
    }

    pub(crate) fn is_below(&self, before: u64, total: u64) -> bool {
        u128::from(before) << 53 < u128::from(self.p) * u128::from(total)
    }

    /// The total of a whole row is first an interval. Only where that cannot tell must the row be summed.
    pub(crate) fn judge(&self, row: &mut Inquiry<'_>, softmax: Softmax, key: Key, is_first: bool) -> Verdict {
        match row.ask(Question::Weigh { key, softmax }) {
            Answer::Weighed { before, least, .. } if is_first && self.is_below(before, least) => {
                Verdict::Kept
            }
            Answer::Weighed { before, most, .. } if is_first && !self.is_below(before, most) => {
                Verdict::Dropped
            }
            Answer::Weighed { before, .. } => Verdict::HangsOnTotal { before },
            _ => Verdict::Dropped,
        }
    }

    /// The token in which the mass crosses p.
    pub(crate) fn cut(&self, row: &mut Inquiry<'_>, softmax: Softmax, previous: Key) -> Key {
        let total = row.total(previous, softmax);
        // The first unit of mass past which nothing is kept is ceil(p·total); the unit before it lies in the crossing token.
        let units = (u128::from(self.p) * u128::from(total)).div_ceil(1 << 53) as u64;
        row.locate(Measure::Mass(softmax), units.saturating_sub(1))
    }
}
