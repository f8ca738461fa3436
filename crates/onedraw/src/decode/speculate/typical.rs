//! Typical acceptance (Medusa, 2024): guesses that are likely enough are accepted. The settings are in
//! `mode.rs`.

use super::draft::Draft;
use super::mode::Typical;
use super::text::{Target, Text};
use super::verdict::Verdict;
use crate::error::RowError;
use crate::numeric::math::exp;

impl Typical {
    /// The children of a node that are likely enough. Empty where the target has no distribution; the draw
    /// that follows reports why.
    fn likely(&self, target: &mut impl Target, draft: &Draft, node: Option<usize>) -> Vec<usize> {
        if draft.tree.children(node).next().is_none() {
            return Vec::new();
        }
        let Ok(p) = target.law(node) else { return Vec::new() };
        // Whatever the settings are, a token that the target never draws is not likely.
        let bound = self.threshold.min(self.alpha * exp(-p.entropy())).max(0.0);
        let is_likely = |&child: &usize| p.probability(draft.tree.tokens()[child]) > bound;
        draft.tree.children(node).filter(is_likely).collect()
    }

    /// The longest way down on which every guess is likely enough; of equally long ways the first.
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

/// Verifies a draft. The token after the accepted guesses is the target's own draw, with the noise of its
/// position.
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
