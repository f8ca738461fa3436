//! How much the logits must change, about, to make a claimed token the drawn one.
//!
//! Every kept token that beats the claimed one must lose: fall behind it in the race, or leave the kept set. And the
//! claimed token must be in the kept set. What that takes at the border depends on what decides there. A cutoff by
//! logits is crossed by a change of the logit. Top-p decides by mass: a change of all logits by d changes the odds of a
//! mass by a factor of exp(d / T) at most, so the border is as far away as the logarithms of the odds are, times T. And
//! a token may also change places with neighbours in the order.
//!
//! ```text
//! M(j) = the mass before the j-th token, of all that top-p sees;  odds(q) = ln(q / (1 - q))
//! inside(t)  = min over j from t on of      max(x_t - x_j, T (odds(p) - odds(mass up to j, without t)))
//! outside(c) = min over j from c upwards of max(x_j - x_c, T (odds(M(j)) - odds(p)))
//! distance   = max(outside(claimed), max over kept t of min(inside(t), T (score(t) - score(claimed))))
//! ```

use crate::engine::draw::Draw;
use crate::engine::report;
use crate::error::RowError;
use crate::logits::access::RowAccess;
use crate::numeric::key::Key;
use crate::numeric::mass::relative;
use crate::numeric::math::{exp, ln};
use crate::numeric::noise::Noise;
use crate::plan::{Operation, Segment};
use crate::stages::truncate::{Prefix, Truncation};

/// The most tokens beyond the kept set that are looked at.
const BEYOND: usize = 4096;

/// What top-p sees of a row: the tokens that earlier truncations left.
pub(crate) struct Seen {
    /// How many there are.
    count: usize,
    /// Their mass, as multiples of the best one's weight.
    total: f64,
    /// The temperature in force there.
    temperature: f64,
    /// The share that top-p keeps.
    share: f64,
}

impl Seen {
    /// Of a draw through the [operations before top-p](before_top_p).
    pub(crate) async fn of<R: RowAccess>(draw: &mut Draw<'_, R>, share: f64) -> Result<Self, RowError> {
        let (_, mass) = draw.kept().await?;
        let last = report::last(draw).await?;
        let count = draw.row.count_before(last.next(), u32::MAX).await? as usize;
        Ok(Self { count, total: relative(mass), temperature: 1.0 / draw.temperature.inverse, share })
    }
}

/// The share of the first top-p of a chain that is one segment, and the chain before it.
pub(crate) fn before_top_p(segments: &[Segment]) -> Option<(f64, [Segment; 1])> {
    /// What shares are fractions of.
    const ONE: f64 = (1_u64 << 53) as f64;
    let Segment { edits, operations } = segments.first()?;
    let top_p = operations.iter().enumerate().find_map(|(place, operation)| match operation {
        Operation::Truncate(_, Truncation::Prefix(Prefix::TopP(top_p))) => {
            Some((place, top_p.share().numerator() as f64 / ONE))
        }
        _ => None,
    });
    let (place, share) = top_p?;
    Some((share, [Segment { edits: edits.clone(), operations: operations[..place].to_vec() }]))
}

/// The first tokens of the order, and where the borders are.
struct Ranking {
    /// Their logits.
    x: Vec<f64>,
    /// The mass before each of them, as top-p sees it, and before what follows; empty without top-p.
    before: Vec<f64>,
    seen: Option<Seen>,
    /// How many tokens there are before each border that logits decide, and no mass.
    logit_borders: Vec<usize>,
}

/// The distance of a token that is not the drawn one, where the chain keeps a prefix of the order.
pub(crate) async fn distance<R: RowAccess>(
    draw: &mut Draw<'_, R>,
    token: u32,
    noise: &Noise,
    seen: Option<Seen>,
) -> Result<f64, RowError> {
    let claimed = report::key_of(draw, token).await?;
    let last = report::last(draw).await?;
    let kept = draw.row.count_before(last.next(), u32::MAX).await? as usize;
    let (x_max, heat) = (draw.x_max(), draw.temperature);
    let score = |key: Key| heat.scaled(key.logit(), x_max) - ln(noise.token(key.token()));
    // Where all are kept, no border is near: only the winner counts.
    let all = draw.row.count_before(Key::END, u32::MAX).await? as usize;
    if kept == all {
        let winner = draw.winner().await?;
        return Ok((score(winner) - score(claimed)) / heat.inverse);
    }
    let listed = report::best(draw, u32::try_from(kept + BEYOND).ok()).await?;
    let keys: Vec<Key> = listed.iter().copied().filter(|&key| key <= Key::END).collect();
    let ranking = Ranking::new(&keys, kept, seen);
    let mut distance = if claimed > last { ranking.outside(f64::from(claimed.logit())) } else { 0.0 };
    let claimed = score(claimed);
    for (place, &key) in keys.iter().take(kept).enumerate() {
        let ahead = (score(key) - claimed) / heat.inverse;
        if ahead > distance {
            distance = distance.max(ahead.min(ranking.inside(place)));
        }
    }
    Ok(distance)
}

fn odds(share: f64) -> f64 {
    match share {
        ..=0.0 => f64::NEG_INFINITY,
        1.0.. => f64::INFINITY,
        _ => ln(share / (1.0 - share)),
    }
}

impl Ranking {
    fn new(keys: &[Key], kept: usize, seen: Option<Seen>) -> Self {
        let x: Vec<f64> = keys.iter().map(|key| f64::from(key.logit())).collect();
        let (mut before, mut logit_borders) = (Vec::new(), vec![kept]);
        if let Some(Seen { count, total, temperature, share }) = seen {
            let mut sum = 0.0;
            before.push(0.0);
            for logit in &x {
                sum += exp((logit - x[0]) / temperature) / total;
                before.push(sum);
            }
            // Top-p keeps these; if fewer are kept, a later truncation is the border.
            let by_mass = before.iter().take(count).take_while(|&&mass| mass < share).count();
            logit_borders.retain(|&kept| kept < by_mass);
            logit_borders.push(count);
        }
        Self { x, before, seen, logit_borders }
    }

    /// How far the token at a place is inside of the kept set.
    fn inside(&self, place: usize) -> f64 {
        let x = self.x[place];
        let next = |&border: &usize| self.x.get(border).map_or(f64::INFINITY, |other| x - other);
        let nearest = self.logit_borders.iter().map(next).fold(f64::INFINITY, f64::min);
        let Some(Seen { count, temperature, share, .. }) = self.seen else { return nearest.max(0.0) };
        let own = self.before[place + 1] - self.before[place];
        let step = |j: usize| x - self.x[j];
        let by_mass = |j: usize| temperature * (odds(share) - odds(self.before[j + 1] - own));
        // The one grows with j, the other falls, so the least maximum is where they cross.
        let end = self.x.len().min(count);
        let cross = first_where(place, end, |j| step(j) >= by_mass(j));
        let around = cross.saturating_sub(1).max(place)..(cross + 1).min(end);
        around.map(|j| f64::max(step(j), by_mass(j))).fold(nearest, f64::min).max(0.0)
    }

    /// How far a token with this logit, which is not kept, is outside of the kept set.
    fn outside(&self, logit: f64) -> f64 {
        let above = |&border: &usize| match border.checked_sub(1) {
            Some(last) => self.x.get(last).map_or(0.0, |other| other - logit),
            None => 0.0,
        };
        let farthest = self.logit_borders.iter().map(above).fold(0.0, f64::max);
        let Some(Seen { temperature, share, .. }) = self.seen else { return farthest };
        let step = |j: usize| (self.x[j] - logit).max(0.0);
        let by_mass = |j: usize| temperature * (odds(self.before[j]) - odds(share));
        let own = self.x.partition_point(|&other| other > logit);
        let end = (own + 1).min(self.x.len());
        let cross = first_where(0, end, |j| by_mass(j) >= step(j));
        let around = cross.saturating_sub(1)..(cross + 1).min(end);
        farthest.max(around.map(|j| f64::max(step(j), by_mass(j))).fold(f64::INFINITY, f64::min))
    }
}

/// The first number from `start` on, before `end`, of which something holds that holds of all after it; `end` if there
/// is none.
fn first_where(start: usize, end: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (start, end);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}
