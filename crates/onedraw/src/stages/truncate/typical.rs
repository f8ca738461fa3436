//! Typical: keeps the tokens whose surprise is nearest to the entropy (Meister, Pimentel, Wiher, Cotterell,
//! Locally typical sampling, 2022).
//!
//! `|−ln p − H|` is `|y − c|`, with `y = ln(w / w_best)` and c its mean, so what is kept is a window of the
//! order: the logits with `|y − c| ≤ d*`. d* is the smallest distance within which the mass reaches p; all
//! tokens at distance d* stay. Distances are rounded to f32 once, which makes them keys of 31 bits that can
//! be selected exactly (`logits/locate.rs`).

use crate::error::RowError;
use crate::logits::access::{Asker, RowAccess};
use crate::logits::locate::{self, KeptMass};
use crate::logits::query::Centre;
use crate::numeric::key::Key;
use crate::numeric::temperature::Temperature;
use crate::params::SamplingParams;
use crate::stages::truncate::share::Share;

/// A checked `typical_p`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Typical {
    share: Share,
}

/// What is kept: the tokens after `head`, up to and including `last`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    /// The last place that is too likely; `None` if none is.
    pub head: Option<Key>,
    pub last: Key,
}

impl Typical {
    /// `None` where it is off.
    pub(crate) fn new(params: &SamplingParams) -> Option<Self> {
        Share::new(params.typical_p).map(|share| Self { share })
    }

    /// p.
    pub fn share(&self) -> Share {
        self.share
    }

    pub(crate) async fn window<R: RowAccess>(
        &self,
        row: &mut Asker<'_, R>,
        x_max: f32,
        temperature: Temperature,
        previous: Key,
    ) -> Result<Window, RowError> {
        let softmax = temperature.softmax(x_max);
        let spread = row.spread(previous, softmax).await?;
        let centre = Centre { x_max, temperature, mean: -spread.mean() };
        let of = KeptMass { last: previous, softmax, total: spread.total };
        let unit = self.share.units(spread.total) - 1;
        let farthest = locate::by_distance(row, centre, of, unit).await?;
        let head = centre.too_likely(farthest).map(Key::last_of);
        let last = centre.least_likely(farthest).map_or(previous, Key::last_of);
        Ok(Window { head, last: last.min(previous) })
    }
}
