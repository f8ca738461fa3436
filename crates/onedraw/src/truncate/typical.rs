//! Typical: keeps the tokens whose surprise is nearest to the entropy (Meister, Pimentel, Wiher, Cotterell, Locally typical sampling, 2022).
//!
//! `|−ln p − H|` is `|y − c|`, with `y = ln(w / w_best)` and c its mean, so what is kept is a window of the order: the logits with
//! `|y − c| ≤ d*`. d* is the smallest distance within which the mass reaches p; all tokens at d* stay. Distances are rounded to f32
//! once, which makes them 31-bit keys, and a radix select over these finds d* in three passes.

use crate::edit::temperature::Temperature;
use crate::inquiry::Inquiry;
use crate::order::{Key, lowest_where};
use crate::question::Question;
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
        let spread = row.spread(previous, temperature.softmax(x_max));
        let centre = Centre { x_max, temperature, mean: -spread.mean() };
        let farthest = farthest(row, centre, previous, self.share.units(spread.total) - 1);
        let is_far = |x: f32| centre.distance(x) > farthest;
        let head = lowest_where(x_max, |x| centre.is_above(x) && is_far(x));
        let last = lowest_where(x_max, |x| centre.is_above(x) || !is_far(x));
        Window { head: head.map(Key::last_of), last: last.map_or(previous, Key::last_of).min(previous) }
    }
}

/// The distance of the token in which unit number `unit` of the mass lies, nearest first.
fn farthest(row: &mut Inquiry<'_>, centre: Centre, last: Key, unit: u64) -> f32 {
    // Bits of a non-negative f32, whose order is that of the numbers.
    const DIGITS: [(u32, u32); 3] = [(21, 11), (10, 11), (0, 10)];
    let distances =
        |first, shift, width| Question::Distances { centre, last, first: first as u32, shift, width };
    row.select(&DIGITS, unit, distances).map_or(f32::INFINITY, |bits| f32::from_bits(bits as u32))
}
