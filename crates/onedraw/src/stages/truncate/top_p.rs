//! Top-p: keeps the shortest prefix of the order whose mass reaches p of the total (Holtzman and others, The
//! curious case of neural text degeneration, 2019).
//!
//! A token stays if the mass before it is below p of the total, so the token that crosses p stays.
//!
//! 1. A draw asks only about its winner (`TopP::judge`). First both masses are bounded from the blocks that
//!    reach the winner's logit, then from all blocks that could matter. Mostly the bounds decide.
//! 2. Where they do not, or another truncation comes before, the draw sums the two masses exactly
//!    (`Membership::NeedsMass`).
//! 3. A caller who wants the kept set asks for its last token (`TopP::cut`).

use crate::error::RowError;
use crate::logits::access::{Asker, RowAccess};
use crate::logits::locate::{self, KeptMass};
use crate::logits::query::Weigh;
use crate::numeric::key::Key;
use crate::numeric::mass::Softmax;
use crate::stages::truncate::membership::Membership;
use crate::stages::truncate::share::Share;

/// A checked `top_p`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TopP {
    share: Share,
}

impl TopP {
    /// `None` where it is off.
    pub(crate) fn new(top_p: f64) -> Option<Self> {
        Share::new(top_p).map(|share| Self { share })
    }

    /// p.
    pub fn share(&self) -> Share {
        self.share
    }

    /// Whether `key` is kept, as far as bounds of the masses can tell.
    pub(crate) async fn judge<R: RowAccess>(
        &self,
        row: &mut Asker<'_, R>,
        softmax: Softmax,
        key: Key,
        is_first: bool,
    ) -> Result<Membership, RowError> {
        if !is_first {
            return Ok(Membership::NeedsMass(self.share));
        }
        // At the second depth only tokens that weigh less than 2^-20 of the best one are left to bounds.
        let depths = [softmax.x_max, softmax.x_max - 20.0 / softmax.scale];
        for depth in depths {
            let masses = row.ask(&Weigh { key, softmax, depth }).await?;
            if self.share.is_above(masses.before.most, masses.total.least) {
                return Ok(Membership::Kept);
            }
            if !self.share.is_above(masses.before.least, masses.total.most) {
                return Ok(Membership::Dropped);
            }
            if key.logit() <= depths[1] {
                break;
            }
        }
        Ok(Membership::NeedsMass(self.share))
    }

    /// The token in which the mass crosses p.
    pub(crate) async fn cut<R: RowAccess>(
        &self,
        row: &mut Asker<'_, R>,
        softmax: Softmax,
        previous: Key,
    ) -> Result<Key, RowError> {
        // Nothing is kept after the first `units` of mass; the last of these units lies in the crossing
        // token.
        let total = row.mass(previous, softmax).await?;
        let unit = self.share.units(total) - 1;
        locate::by_mass(row, KeptMass { last: previous, softmax, total }, unit).await
    }
}
