//! Typical: keeps the tokens whose surprise is nearest to the entropy (Meister, Pimentel, Wiher, Cotterell, Locally typical sampling, 2022).
//!
//! `|−ln p − H|` is `|y − c|`, with `y = ln(w / w_best)` and c its mean, so what is kept is a window of the order: the logits with
//! `|y − c| ≤ d*`. d* is the smallest distance within which the mass reaches p; all tokens at d* stay. Distances are rounded to f32
//! once, which makes them 31-bit keys; d* is selected among those that a sketch leaves, or by a radix select in three passes.

use crate::edit::temperature::Temperature;
use crate::head::Half;
use crate::inquiry::Inquiry;
use crate::order::{Key, lowest_where};
use crate::question::{Question, Stretch};
use crate::selection::{CAUTIONS, Weighed};
use crate::truncate::top_p::Share;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Typical {
    share: Share,
}

/// How far logits are from the typical one.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Centre {
    /// The largest logit left.
    pub x_max: f32,
    /// The temperature in force.
    pub temperature: Temperature,
    /// The mean of y, 0 at most.
    pub mean: f64,
}

impl Centre {
    /// `|y − mean|`, rounded once.
    #[inline(always)]
    pub fn distance(&self, x: f32) -> f32 {
        (self.temperature.scaled(x, self.x_max) - self.mean).abs() as f32
    }

    /// The lowest logit on the likely side that is farther than `limit`; `None` if none is.
    fn too_likely(&self, limit: f32) -> Option<f32> {
        lowest_where(self.x_max, |x| self.is_above(x) && self.distance(x) > limit)
    }

    /// The lowest logit that is no farther than `limit`, or the lowest on the likely side.
    fn least_likely(&self, limit: f32) -> Option<f32> {
        lowest_where(self.x_max, |x| self.is_above(x) || self.distance(x) <= limit)
    }

    /// The logits no farther than `limit`; `None` if no logit is that near.
    fn within(&self, limit: f32) -> Option<Stretch> {
        let highest = self.too_likely(limit).map_or(self.x_max, f32::next_down);
        let lowest = self.least_likely(limit)?;
        (lowest <= highest).then_some(Stretch { highest, lowest })
    }

    /// Whether a logit lies on the likely side.
    fn is_above(&self, x: f32) -> bool {
        self.temperature.scaled(x, self.x_max) > self.mean
    }
}

/// What is kept: the tokens after `head`, up to and including `last`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    /// The last place that is too likely; `None` if nothing is.
    pub head: Option<Key>,
    pub last: Key,
}

impl Typical {
    pub(crate) fn new(typical_p: f64) -> Option<Self> {
        Share::new(typical_p).map(|share| Self { share })
    }

    pub(crate) fn window(
        &self,
        row: &mut Inquiry<'_>,
        x_max: f32,
        temperature: Temperature,
        previous: Key,
    ) -> Window {
        let softmax = temperature.softmax(x_max);
        let spread = row.spread(previous, softmax);
        let centre = Centre { x_max, temperature, mean: -spread.mean() };
        let of = Weighed { last: previous, softmax, total: spread.total };
        let unit = self.share.units(spread.total) - 1;
        let farthest =
            farthest_listed(row, centre, of, unit).unwrap_or_else(|| farthest(row, centre, previous, unit));
        let head = centre.too_likely(farthest).map(Key::last_of);
        let last = centre.least_likely(farthest).map_or(previous, Key::last_of);
        Window { head, last: last.min(previous) }
    }
}

/// As [`farthest`], where a sketch leaves few tokens to choose from.
fn farthest_listed(row: &mut Inquiry<'_>, centre: Centre, of: Weighed, unit: u64) -> Option<f32> {
    use std::f64::consts::{LN_2, LOG2_E};
    // The upper half is the distance, the lower half the logit.
    let place = |key: Key| u64::from(centre.distance(key.logit()).to_bits()) << 32 | key.number() >> 32;
    let within = |distance: f64| centre.within((distance * LN_2) as f32);
    let sketch = row.sketch(of);
    CAUTIONS.iter().find_map(|&caution| {
        let bracket = sketch.bracket(centre.mean * LOG2_E, unit, caution);
        let unit = row.beyond(of, bracket, within, unit)?;
        let places = row.keys();
        places.iter_mut().for_each(|key| *key = Key::from_number(place(*key)));
        let place = row.select_listed(unit, Half::Lower, of.softmax)?;
        Some(f32::from_bits((place.number() >> 32) as u32))
    })
}

/// The distance of the token in which unit number `unit` of the mass lies, nearest first.
fn farthest(row: &mut Inquiry<'_>, centre: Centre, last: Key, unit: u64) -> f32 {
    // Bits of a non-negative f32, whose order is that of the numbers.
    const DIGITS: [(u32, u32); 3] = [(21, 11), (10, 11), (0, 10)];
    let distances =
        |first, shift, width| Question::Distances { centre, last, first: first as u32, shift, width };
    row.select(&DIGITS, unit, distances).map_or(f32::INFINITY, |bits| f32::from_bits(bits as u32))
}
