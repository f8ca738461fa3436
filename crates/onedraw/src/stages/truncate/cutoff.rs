//! Cutoffs: keep what is at least as likely as a bar.
//!
//! - Epsilon's bar is fixed, eta's falls where the entropy is high (both Hewitt, Manning, Liang, Truncation
//!   sampling as language model desmoothing, 2022).
//! - Top-a's bar is the best probability squared times a factor (RWKV-LM).
//! - Mirostat 2's bar is a surprise in bits.
//!
//! A bar is a probability. It is kept as a logarithm, which cannot underflow, and compared as one, `y ≥ ln
//! bar + ln Z`, because weights are not monotone to the last bit. Every token whose logit equals the best one
//! stays, so that a bar above every probability does not empty the row.

use crate::error::RowError;
use crate::logits::access::{Asker, RowAccess};
use crate::logits::query::Weigh;
use crate::numeric::key::{Key, lowest_where};
use crate::numeric::mass::{Spread, relative};
use crate::numeric::math::ln;
use crate::numeric::temperature::Temperature;
use crate::stages::truncate::membership::Membership;

/// A checked bar. Each variant holds the logarithm of its parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cutoff {
    /// Keep p ≥ e.
    Epsilon(f64),
    /// Keep p ≥ min(e, sqrt(e)·exp(−H)).
    Eta(f64),
    /// Keep p ≥ a·p_max².
    TopA(f64),
}

/// How far from the bar a bound must be to decide: the logarithm is exact to one unit in the last place, but
/// not monotone there.
const MARGIN: f64 = 1e-9;

impl Cutoff {
    /// `None` where the parameter is off.
    pub(crate) fn new(kind: fn(f64) -> Cutoff, value: f64) -> Option<Self> {
        (value > 0.0).then(|| kind(ln(value)))
    }

    /// The bar as `y`, the logarithm of a weight: 0 at most. `spread` is of what the earlier stages left.
    fn bar(&self, spread: &Spread) -> f64 {
        let mass = ln(relative(spread.total));
        let y = match *self {
            Cutoff::Epsilon(e) => e + mass,
            Cutoff::Eta(e) => e.min(0.5 * e - spread.entropy()) + mass,
            Cutoff::TopA(a) => a - mass,
        };
        if y < 0.0 { y } else { 0.0 }
    }

    /// Whether `key` is kept, as far as bounds of the total can tell.
    pub(crate) async fn judge<R: RowAccess>(
        &self,
        row: &mut Asker<'_, R>,
        x_max: f32,
        temperature: Temperature,
        key: Key,
        is_first: bool,
    ) -> Result<Membership, RowError> {
        if key.logit() == x_max {
            return Ok(Membership::Kept);
        }
        if !is_first {
            return Ok(Membership::NeedsCut);
        }
        let weigh = Weigh { key, softmax: temperature.softmax(x_max), depth: x_max };
        let total = row.ask(&weigh).await?.total;
        let y = temperature.scaled(key.logit(), x_max);
        let bar_of = |total| Cutoff::bar(&self.without_entropy(), &Spread { total, ..Spread::default() });
        // The bar is monotone in the total; which end gives the higher bar does not matter.
        let (one, other) = (bar_of(total.least), bar_of(total.most));
        // A token that the bounds already drop also asks for the cut: one sum, after which the race runs
        // inside the cut.
        Ok(if y >= one.max(other) + MARGIN { Membership::Kept } else { Membership::NeedsCut })
    }

    /// The bar of a surprise of `bits` at most.
    pub(crate) fn surprise(bits: f64) -> Self {
        Cutoff::Epsilon(-bits * std::f64::consts::LN_2)
    }

    /// Eta's bar is epsilon's at most.
    fn without_entropy(&self) -> Cutoff {
        match *self {
            Cutoff::Eta(e) => Cutoff::Epsilon(e),
            other => other,
        }
    }

    /// The last place of the smallest logit that reaches the bar.
    pub(crate) async fn cut<R: RowAccess>(
        &self,
        row: &mut Asker<'_, R>,
        x_max: f32,
        temperature: Temperature,
        previous: Key,
    ) -> Result<Key, RowError> {
        let softmax = temperature.softmax(x_max);
        let spread = match self {
            Cutoff::Eta(_) => row.spread(previous, softmax).await?,
            _ => Spread { total: row.mass(previous, softmax).await?, ..Spread::default() },
        };
        let bar = self.bar(&spread);
        let lowest = lowest_where(x_max, |x| temperature.scaled(x, x_max) >= bar);
        Ok(Key::last_of(lowest.unwrap_or(x_max)))
    }
}
