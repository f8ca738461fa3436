//! Top-p: keeps the shortest prefix whose mass reaches p (Holtzman and others, The curious case of neural text degeneration, 2019).
//!
//! A token stays iff the mass before it is below p of the total, so the token that crosses p stays. Masses are integers
//! and p is a fraction of 2^53, so the comparison is exact, in 128 bits.

use crate::draw::Draw;
use crate::edit::temperature::Temperature;
use crate::order::Key;
use crate::question::{Answer, Measure, Question};

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

    fn is_below(&self, before: u64, total: u64) -> bool {
        u128::from(before) << 53 < u128::from(self.p) * u128::from(total)
    }

    /// The total is first an interval. Only where that cannot tell, the whole row is summed.
    pub(crate) fn keeps(
        &self,
        draw: &mut Draw<'_>,
        index: usize,
        temperature: Temperature,
        key: Key,
    ) -> bool {
        let softmax = temperature.softmax(draw.x_max());
        let Answer::Weighed { before, least, most } = draw.ask(Question::Weigh { key, softmax }) else {
            return false;
        };
        if index == 0 {
            if self.is_below(before, least) {
                return true;
            }
            if !self.is_below(before, most) {
                return false;
            }
        }
        let previous = draw.cut_before(index);
        let total = draw.mass_before(index, previous, softmax);
        self.is_below(before, total)
    }

    /// The token in which the mass crosses p.
    pub(crate) fn cut(&self, draw: &mut Draw<'_>, temperature: Temperature, previous: Key) -> Key {
        let softmax = temperature.softmax(draw.x_max());
        let total = draw.total(previous, softmax);
        // The first unit of mass past which nothing is kept is ceil(p·total); the unit before it lies in the crossing token.
        let units = (u128::from(self.p) * u128::from(total)).div_ceil(1 << 53) as u64;
        draw.locate(Measure::Mass(softmax), units.saturating_sub(1))
    }
}
