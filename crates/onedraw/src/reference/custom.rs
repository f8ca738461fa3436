//! A user's own stage over a list.

use super::{Candidate, Left, sort};
use crate::error::RowError;
use crate::numeric::noise::Noise;
use crate::params::SamplingParams;
use crate::params::chain::Stage;
use crate::params::custom::{Change, Custom, Keep, Kind, View};
use crate::state::history::History;

pub(super) fn apply(
    left: &mut Left,
    own: &Custom,
    vocabulary: usize,
    params: &SamplingParams,
    noise: &Noise,
) -> Result<(), RowError> {
    if matches!(own.kind, Kind::Edit(_)) {
        left.divide();
    }
    let mut logits = vec![f32::NEG_INFINITY; vocabulary];
    for c in &left.candidates {
        logits[c.token as usize] = c.logit + 0.0;
    }
    let history = History::new(&params.prompt_token_ids, &params.output_token_ids, params.penalty_window);
    let view = View {
        logits: &logits,
        history: &history,
        position: noise.position,
        temperature: left.temperature,
        x_max: left.candidates[0].logit + 0.0,
        mass: left.mass(),
    };
    let failed = |message: String| RowError::CustomStage { stage: Stage::Custom(own.clone()), message };
    match &own.kind {
        Kind::Edit(edit) => {
            match edit.edit(&view).map_err(failed)? {
                Change::Sparse(changes) => changes.iter().for_each(|&(token, logit)| {
                    set(&mut left.candidates, token, logit);
                }),
                Change::Dense(logits) => (0..).zip(logits).for_each(|(token, logit)| {
                    set(&mut left.candidates, token, logit);
                }),
            }
            left.candidates.retain(|c| c.logit > f32::NEG_INFINITY);
            sort(&mut left.candidates);
        }
        Kind::Truncation(truncation) => match truncation.truncate(&view).map_err(failed)? {
            Keep::Only(ids) => left.candidates.retain(|c| ids.contains(&c.token)),
            Keep::AllBut(ids) => left.candidates.retain(|c| !ids.contains(&c.token)),
        },
    }
    Ok(())
}

/// A token that is masked stays masked, even within one change.
fn set(candidates: &mut [Candidate], token: u32, logit: f32) {
    for c in candidates.iter_mut().filter(|c| c.token == token && c.logit > f32::NEG_INFINITY) {
        c.logit = logit;
    }
}
