//! Typical acceptance (Medusa, 2024): what is likely enough stays.

use serde::{Deserialize, Serialize};

use super::text::{Target, Text};
use super::{Draft, Verdict};
use crate::error::RowError;
use crate::numeric::math::exp;

/// When a guess is likely enough: its probability is above min(`threshold`, `alpha`·exp(−H)), H being the
/// entropy of the target's law in nats.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Typical {
    /// Above it a guess is always likely enough.
    pub threshold: f64,
    /// The share of exp(−H), which is the probability of one token among so many that are equally likely.
    pub alpha: f64,
}

impl Default for Typical {
    fn default() -> Self {
        Self { threshold: 0.3, alpha: 0.09 }
    }
}

impl Typical {
    /// The nodes after a node that are likely enough. None where the target has no law: whoever draws there
    /// will say why.
    fn likely(&self, target: &mut impl Target, draft: &Draft, node: Option<usize>) -> Vec<usize> {
        if draft.tree.children(node).next().is_none() {
            return Vec::new();
        }
        let Ok(p) = target.law(node) else { return Vec::new() };
        // Whatever the numbers are, what the target never draws is not likely.
        let bound = self.threshold.min(self.alpha * exp(-p.entropy())).max(0.0);
        let is_likely = |&child: &usize| p.probability(draft.tree.tokens()[child]) > bound;
        draft.tree.children(node).filter(is_likely).collect()
    }

    /// The longest way down on which every guess is likely enough, the first of several.
    fn longest(&self, target: &mut impl Target, draft: &Draft) -> Result<Vec<usize>, RowError> {
        let (mut longest, mut way) = (Vec::new(), Vec::new());
        let mut open = vec![(0, self.likely(target, draft, None).into_iter())];
        while let Some((depth, children)) = open.last_mut() {
            let (depth, Some(child)) = (*depth, children.next()) else {
                open.pop();
                continue;
            };
            target.climb(depth)?;
            way.truncate(depth);
            let token = draft.tree.tokens()[child];
            target.take(way.last().copied(), token)?;
            way.push(child);
            if way.len() > longest.len() {
                longest.clone_from(&way);
            }
            if target.goes_on(token) {
                open.push((depth + 1, self.likely(target, draft, Some(child)).into_iter()));
            }
        }
        target.climb(0)?;
        Ok(longest)
    }
}

/// The token after the accepted ones is the target's own draw, with the noise of its position.
pub(super) fn verify(text: &mut Text<'_, '_>, draft: &Draft, typical: Typical) -> Result<Verdict, RowError> {
    let mut verdict = Verdict::default();
    for child in typical.longest(text, draft)? {
        let token = draft.tree.tokens()[child];
        verdict.sampled.push(text.take(verdict.path.last().copied(), token)?);
        if !text.goes_on(token) {
            return Ok(verdict);
        }
        verdict.path.push(child);
    }
    match text.draw(verdict.path.last().copied()) {
        Ok(sampled) => verdict.sampled.push(sampled),
        Err(error) => verdict.error = Some(error),
    }
    Ok(verdict)
}
