//! Cutoffs: keep what is at least as likely as a bar. Epsilon's is fixed, eta's falls where the entropy is high (both Hewitt, Manning,
//! Liang, Truncation sampling as language model desmoothing, 2022), top-a's is the best probability squared times a factor
//! (RWKV-LM), mirostat 2's is a surprise in bits.
//!
//! A bar is a probability. It is kept as a logarithm, which cannot underflow, and compared as one, `y ≥ ln bar + ln Z`, because weights are
//! not monotone to the last bit. Every token equal to the best stays, so a bar nobody reaches leaves no empty row.

use crate::edit::temperature::Temperature;
use crate::inquiry::Inquiry;
use crate::mass::{Spread, relative};
use crate::math::ln;
use crate::order::{Key, lowest_where};
use crate::question::{Answer, Question};
use crate::truncate::Verdict;

/// Each holds the logarithm of its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cutoff {
    /// Keep p ≥ e.
    Epsilon(f64),
    /// Keep p ≥ min(e, sqrt(e)·exp(−H)).
    Eta(f64),
    /// Keep p ≥ a·p_max².
    TopA(f64),
}

/// An interval is trusted only so far from the bar: the logarithm is good to the last bit, but not monotone there.
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

    /// The total of a whole row is first an interval, and often that can tell.
    pub(crate) fn judge(
        &self,
        row: &mut Inquiry<'_>,
        x_max: f32,
        temperature: Temperature,
        key: Key,
        is_first: bool,
    ) -> Verdict {
        if key.logit() == x_max {
            return Verdict::Kept;
        }
        if !is_first {
            return Verdict::HangsOnCut;
        }
        let Answer::Weighed { total, .. } =
            row.ask(Question::Weigh { key, softmax: temperature.softmax(x_max), depth: x_max })
        else {
            return Verdict::HangsOnCut;
        };
        let y = temperature.scaled(key.logit(), x_max);
        let bar_of = |total| Cutoff::bar(&self.without_entropy(), &Spread { total, ..Spread::default() });
        // The bar moves one way with the total: which end is the higher does not matter.
        let (one, other) = (bar_of(total.least), bar_of(total.most));
        // A token that the interval already drops asks for the cut all the same: it is one sum, and the race then ends inside it instead
        // of being run again for every token that is too low.
        if y >= one.max(other) + MARGIN { Verdict::Kept } else { Verdict::HangsOnCut }
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
    pub(crate) fn cut(
        &self,
        row: &mut Inquiry<'_>,
        x_max: f32,
        temperature: Temperature,
        previous: Key,
    ) -> Key {
        let softmax = temperature.softmax(x_max);
        let spread = match self {
            Cutoff::Eta(_) => row.spread(previous, softmax),
            _ => Spread { total: row.total(previous, softmax), ..Spread::default() },
        };
        let bar = self.bar(&spread);
        Key::last_of(lowest_where(x_max, |x| temperature.scaled(x, x_max) >= bar).unwrap_or(x_max))
    }
}
