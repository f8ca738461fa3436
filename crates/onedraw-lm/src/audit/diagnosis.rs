//! Whether one parameter was another than the trace says.
//!
//! The tokens are drawn again with other values of the usual parameters, one at a time. If the trace is right, another
//! value makes many equal tokens unequal, and few unequal ones equal. If another value is the right one, it is the
//! other way round. So the tokens on which the two disagree are counted: is the share of those that speak for the other
//! value larger than an honest text ever makes it?

use std::slice::ChunksExact;

use onedraw::math::ln;
use onedraw::verdict::{Verdict, at_least, judge_against};
use onedraw::{Audit, Row, Sampler, SamplingParams};
use serde::Serialize;

/// The share of the tokens that speak for another value, among those on which the claimed value and the other one
/// disagree, that an honest text in other arithmetic makes at most. 0.176 was measured, with temperature and top-p
/// (`bench/results/2026-11-18-audit.md`). As the values come together it goes to a half, so values that are
/// [near](is_near) are not tried.
const HONEST_SHARE: f64 = 0.2;

/// A change of one parameter that explains the tokens of a text better than the trace does.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The parameter.
    pub parameter: &'static str,
    /// The value that explains the tokens.
    pub value: f64,
    /// How many tokens were drawn again with it: all, or the first ones of a long text.
    pub compared: usize,
    /// How many of them are those that are drawn with it.
    pub equal: usize,
    /// At most the chance that an honest text in other arithmetic speaks as much for any of the values that were tried.
    pub chance: f64,
    /// The tokens, by their number among the audits, that are drawn with this value and not with the claimed one.
    #[serde(skip)]
    pub(super) tokens: Vec<usize>,
}

/// How a value is put into parameters.
type Set = fn(&mut SamplingParams, f64);

/// The parameters for which this was measured. Others can explain a verdict, and make none.
const MEASURED: [&str; 2] = ["temperature", "top_p"];

/// The parameters that are tried, with values that people use.
const TRIED: [(&str, Set, &[f64]); 5] = [
    (
        "temperature",
        |params, value| params.temperature = value,
        &[0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5],
    ),
    ("top_p", |params, value| params.top_p = value, &[0.8, 0.85, 0.9, 0.95, 1.0]),
    ("top_k", |params, value| params.top_k = value as i64, &[0.0, 20.0, 40.0, 50.0]),
    ("min_p", |params, value| params.min_p = value, &[0.0, 0.05, 0.1]),
    ("repetition_penalty", |params, value| params.repetition_penalty = value, &[1.0, 1.1, 1.2]),
];

/// Whether a value is so near to the claimed one that other arithmetic may speak for it as well.
fn is_near(params: &SamplingParams, parameter: &str, value: f64) -> bool {
    let odds = |share: f64| if share < 1.0 { ln(share / (1.0 - share)) } else { f64::INFINITY };
    let factor = |a: f64, b: f64| if a.min(b) > 0.0 { ln(a.max(b) / a.min(b)) } else { f64::INFINITY };
    match parameter {
        "temperature" => (params.temperature - value).abs() < 0.095,
        "top_p" => params.temperature * (odds(params.top_p) - odds(value)).abs() < 0.4,
        "top_k" => factor(params.top_k.max(0) as f64, value) < ln(2.0),
        "min_p" => params.temperature * factor(params.min_p, value) < 0.4,
        _ => (params.repetition_penalty - value).abs() < 0.095,
    }
}

/// Looks for a parameter that explains a text.
pub(super) struct Search<'a> {
    /// The claimed parameters.
    pub params: &'a SamplingParams,
    pub sequence: u32,
    /// How often other arithmetic makes a token differ, as [`judge_against`] takes it.
    pub honest: &'a [(f64, f64)],
    pub false_alarms: f64,
}

impl Search<'_> {
    /// Tries the values on the rows that the model gave, which are those of the first tokens or of all. `None` if no
    /// value explains the tokens better at this rate of false alarms. Where the verdict is not made already
    /// (`is_other`), only what was measured is tried.
    pub fn run(
        &self,
        rows: ChunksExact<'_, f32>,
        claimed: &[Audit],
        is_other: bool,
        is_measured: bool,
    ) -> Option<Diagnosis> {
        let claimed = &claimed[..rows.len().min(claimed.len())];
        if claimed.iter().all(Audit::is_drawn) || !(is_other || is_measured) {
            return None;
        }
        let most = self.most_unequal(claimed.len() as u64);
        let values =
            TRIED.iter().flat_map(|&(name, set, values)| values.iter().map(move |&value| (name, set, value)));
        let found = values.filter_map(|(parameter, set, value)| {
            let mut changed = self.params.clone();
            set(&mut changed, value);
            let may_decide = MEASURED.contains(&parameter) && self.params.temperature > 0.0 && value > 0.0;
            if changed == *self.params || !(is_other || may_decide) || is_near(self.params, parameter, value)
            {
                return None;
            }
            let speaking = self.speaking(&changed, rows.clone(), claimed, most)?;
            self.fits(&changed, rows.clone(), claimed).then(|| Diagnosis {
                parameter,
                value,
                compared: claimed.len(),
                equal: claimed.len() - speaking.unequal,
                chance: self.chance(speaking.tokens.len(), speaking.against),
                tokens: speaking.tokens,
            })
        });
        found.reduce(|best, other| if other.equal > best.equal { other } else { best })
    }

    /// At most the chance that an honest text has so many tokens, or more, that speak for any of the values.
    fn chance(&self, tokens: usize, against: usize) -> f64 {
        let tried: usize = TRIED.iter().map(|(_, _, values)| values.len()).sum();
        tried as f64 * at_least(tokens as u64, (tokens + against) as u64, HONEST_SHARE)
    }

    /// How many of so many tokens can be unequal, in a text that [fits](Self::fits).
    fn most_unequal(&self, tokens: u64) -> usize {
        let share = self.honest.first().map_or(1.0, |(_, share)| *share);
        let counts: Vec<u64> = (1..=tokens).collect();
        let fits =
            |&count: &u64| at_least(count, tokens, share) * self.honest.len() as f64 >= self.false_alarms;
        counts.partition_point(fits)
    }

    /// Which tokens speak for changed parameters, if they are enough. It stops once they cannot be, or once more than
    /// `most` are unequal.
    fn speaking(
        &self,
        changed: &SamplingParams,
        rows: ChunksExact<'_, f32>,
        claimed: &[Audit],
        most: usize,
    ) -> Option<Speaking> {
        let mut sampler = Sampler::sequence(changed.clone(), self.sequence).ok()?;
        let mut speaking = Speaking { tokens: Vec::new(), against: 0, unequal: 0 };
        let mut may_speak = claimed.iter().filter(|claim| !claim.is_drawn()).count();
        for (number, (row, claim)) in rows.zip(claimed).enumerate() {
            // The race alone, without distances, where the next draw does not depend on more than the token.
            let is_drawn = if changed.mirostat == 0 {
                let drawn = sampler.peek(Row::from(row), 0).ok()?.token;
                sampler.accept(claim.token);
                drawn == claim.token
            } else {
                let audit = sampler.audit(Row::from(row), claim.token).ok()?;
                sampler.accept_audited(&audit);
                audit.is_drawn()
            };
            may_speak -= usize::from(!claim.is_drawn());
            speaking.unequal += usize::from(!is_drawn);
            match (claim.is_drawn(), is_drawn) {
                (false, true) => speaking.tokens.push(number),
                (true, false) => speaking.against += 1,
                (false, false) => {}
                (true, true) => continue,
            }
            if speaking.unequal > most
                || self.chance(speaking.tokens.len() + may_speak, speaking.against) >= self.false_alarms
            {
                return None;
            }
        }
        (self.chance(speaking.tokens.len(), speaking.against) < self.false_alarms).then_some(speaking)
    }

    /// Whether changed parameters could have drawn the tokens. A value that fits better and not well explains nothing:
    /// the greedy one fits every text a little.
    fn fits(&self, changed: &SamplingParams, rows: ChunksExact<'_, f32>, claimed: &[Audit]) -> bool {
        let Ok(mut sampler) = Sampler::sequence(changed.clone(), self.sequence) else { return false };
        let mut audits = Vec::with_capacity(claimed.len());
        for (row, claim) in rows.zip(claimed) {
            let Ok(audit) = sampler.audit(Row::from(row), claim.token) else { return false };
            sampler.accept_audited(&audit);
            audits.push(audit);
        }
        judge_against(self.honest, &audits, self.false_alarms)
            .is_ok_and(|judgement| judgement.verdict != Verdict::Other)
    }
}

/// On which tokens two values of a parameter disagree.
struct Speaking {
    /// Those that are drawn with the tried value and not with the claimed one.
    tokens: Vec<usize>,
    /// How many are drawn with the claimed value alone.
    against: usize,
    /// How many are not drawn with the tried value.
    unequal: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_values_are_not_tried() {
        let params =
            |temperature, top_p, top_k| SamplingParams { temperature, top_p, top_k, ..Default::default() };
        let warm = params(0.75, 0.9, 50);
        assert!(is_near(&warm, "temperature", 0.7) && !is_near(&warm, "temperature", 0.9));
        assert!(
            is_near(&params(0.3, 0.9, 50), "top_p", 0.85) && !is_near(&params(1.0, 0.9, 50), "top_p", 0.85)
        );
        assert!(!is_near(&warm, "top_p", 1.0) && !is_near(&params(1.0, 1.0, 0), "top_p", 0.95));
        assert!(
            is_near(&warm, "top_k", 40.0) && !is_near(&warm, "top_k", 20.0) && !is_near(&warm, "top_k", 0.0)
        );
        assert!(!is_near(&warm, "min_p", 0.05) && !is_near(&warm, "repetition_penalty", 1.1));
    }
}
