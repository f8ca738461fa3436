//! What the models of this folder have in common: rows of logits contrasted with other rows.

use onedraw::{Contrast, RowError};

use crate::error::ModelError;
use crate::model::Run;

/// An error if a run gives states of early layers: two models have no layers in common.
pub(super) fn refuse_known<S>(runs: &[Run<'_, S>]) -> Result<(), ModelError> {
    match runs.iter().any(|run| run.known.is_some()) {
        true => Err(ModelError::Request("a model made of two takes no states of early layers".to_owned())),
        false => Ok(()),
    }
}

/// Replaces rows of logits by their contrast with other rows. Where a row is bad, the bad logit becomes NaN,
/// so that the draw fails and names the token.
///
/// Tokens that the expert finds implausible are not masked. They stay far below the rest, in the expert's own
/// order, because a constraint may leave nothing else.
pub(super) fn contrast_rows(contrast: &Contrast, logits: &mut [f32], others: &[f32], vocabulary: usize) {
    /// The distance between the least plausible token and the likeliest implausible one. The noise of a draw
    /// moves scores by less than 32 (its exponentials lie between 2^-39 and 23), so at temperatures up to 30
    /// no draw comes that far.
    const IMPLAUSIBLE_BELOW: f32 = 1000.0;
    let mut row = Vec::new();
    for (logits, other) in logits.chunks_mut(vocabulary).zip(others.chunks(vocabulary)) {
        match contrast.apply(&*logits, other, &mut row) {
            Ok(()) => {
                let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let plausible = row.iter().copied().filter(|score| *score > f32::NEG_INFINITY);
                let floor = plausible.fold(f32::INFINITY, f32::min) - IMPLAUSIBLE_BELOW;
                for (logit, &score) in logits.iter_mut().zip(&row) {
                    *logit = if score > f32::NEG_INFINITY { score } else { floor + (*logit - highest) };
                }
            }
            Err(RowError::NanLogit { token } | RowError::InfiniteLogit { token }) => {
                logits[token as usize] = f32::NAN;
            }
            // Every logit is −inf; the draw will say so.
            Err(_) => {}
        }
    }
}
