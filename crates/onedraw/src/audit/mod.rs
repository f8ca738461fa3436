//! Whether a token is the one that a draw comes to, and if not, by how much.
//!
//! A token depends on the logits, the parameters, the history, the seed and the position alone. So whoever has
//! these can say whether a claimed token was drawn. Where the logits differ in their last bits, as those of another
//! implementation do, the winner of the race may be another token; then it has won by little. The *gap* says by how
//! much: the score of the winner less that of the claimed token, after the noise.

pub(crate) mod distance;

use serde::{Deserialize, Serialize};

use crate::engine::draw::{Draw, Moment};
use crate::engine::report;
use crate::error::RowError;
use crate::logits::access::RowAccess;
use crate::numeric::key::Key;
use crate::numeric::math::ln;
use crate::stages::truncate::mirostat::Mirostat;

/// A claimed token beside the one that is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// The claimed token.
    pub token: u32,
    /// The token that is drawn.
    pub drawn: u32,
    /// By how much the drawn token wins, in nats; 0 if it is the claimed one, and where the claimed one has the better
    /// score and was cut off. In a greedy draw it is a difference of logits. Infinite if the claimed token is masked.
    pub gap: f64,
    /// Whether the chain keeps the claimed token.
    pub is_kept: bool,
    /// How far the claimed token is outside of what the chain keeps: the difference of its logit and that of the
    /// last kept token, divided by the temperature. 0 if it is kept; infinite if it is masked.
    pub outside: f64,
    /// About how much the logits must change to make the claimed token the drawn one, as a difference of logits:
    /// the gap, or how far it is outside, times the temperature, or less where a change of the kept set does it. 0 if
    /// it is the drawn one, infinite if it is masked. It is 0 in chains that keep no prefix of the order, such as those
    /// with typical and XTC, and with mirostat 1: there a small change of any logit can move what is kept by any
    /// distance.
    pub distance: f64,
    /// Where mirostat stands once the claimed token is accepted, where it is on.
    pub mirostat_mu: Option<f64>,
}

impl Audit {
    /// Whether the claimed token is the one that is drawn.
    pub fn is_drawn(&self) -> bool {
        self.token == self.drawn
    }
}

/// Compares a claimed token with the one that the draw comes to. `before` is its place before the operations of a chain
/// that keeps no prefix: what such a chain cuts is gone from the row, as if it were masked.
pub(crate) async fn audit<R: RowAccess>(
    draw: &mut Draw<'_, R>,
    token: u32,
    before: Option<Key>,
    moment: &Moment<'_>,
    mirostat: Option<Mirostat>,
) -> Result<Audit, RowError> {
    let winner = draw.winner().await?;
    let (drawn, is_greedy) = (winner.token(), draw.is_greedy);
    let mut audit =
        Audit { token, drawn, gap: 0.0, is_kept: true, outside: 0.0, distance: 0.0, mirostat_mu: None };
    let alive = if drawn == token { winner } else { report::key_of(draw, token).await? };
    let is_alive = alive <= Key::END;
    let claimed = if is_alive { alive } else { before.unwrap_or(alive) };
    if claimed > Key::END {
        let infinite = f64::INFINITY;
        return Ok(Audit { gap: infinite, is_kept: false, outside: infinite, distance: infinite, ..audit });
    }
    if let Some(mirostat) = mirostat {
        // Also of a token just outside of the kept set: whoever claims it has kept it, and learned from it.
        let logprob = report::kept_logprob(draw).await?(claimed);
        audit.mirostat_mu = Some(mirostat.learned(moment.mu, logprob));
    }
    if drawn == token {
        return Ok(audit);
    }
    let (x_max, heat) = (draw.x_max(), draw.temperature);
    let scaled = |key: Key| heat.scaled(key.logit(), x_max);
    let score =
        |key: Key| if is_greedy { scaled(key) } else { scaled(key) - ln(moment.noise.token(key.token())) };
    // A token that was cut off may have had the better score.
    audit.gap = (score(winner) - score(claimed)).max(0.0);
    let is_inside = is_alive && !is_greedy && claimed >= draw.summit;
    audit.is_kept = is_inside && draw.rejected_by(claimed).await?.is_none();
    if !audit.is_kept {
        let last = report::last(draw).await?;
        // Above the first kept token, or below the last one.
        let above = scaled(claimed) - scaled(draw.summit);
        audit.outside = f64::max(above, scaled(last) - scaled(claimed)).max(0.0);
    }
    let temperature = if is_greedy { 1.0 } else { 1.0 / heat.inverse };
    audit.distance = temperature * audit.gap.max(audit.outside);
    Ok(audit)
}
