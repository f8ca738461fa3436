//! Edits, as obvious as they come.

use super::Candidate;
use crate::numeric::math::saturated;
use crate::params::chain::Stage;
use crate::params::{PenaltyScope, SamplingParams};

/// Whether the stage is an edit whose parameters do anything, whatever the history is.
pub(super) fn is_active(stage: &Stage, has_mask: bool, params: &SamplingParams) -> bool {
    match stage {
        Stage::Allowed => params.allowed_token_ids.is_some() || has_mask,
        Stage::BadWords => !params.bad_words_ids.is_empty(),
        Stage::MinTokens => {
            params.min_tokens > 0 && !(params.eos_token_id.is_empty() && params.stop_token_ids.is_empty())
        }
        Stage::LogitBias => !params.logit_bias.is_empty(),
        Stage::Penalties => {
            params.repetition_penalty as f32 != 1.0
                || params.frequency_penalty as f32 != 0.0
                || params.presence_penalty as f32 != 0.0
        }
        Stage::Dry => params.dry_multiplier > 0.0,
        Stage::NoRepeatNgram => params.no_repeat_ngram_size > 0,
        Stage::Smoothing => params.smoothing_factor > 0.0,
        _ => false,
    }
}

pub(super) fn apply(
    stage: &Stage,
    candidates: &mut Vec<Candidate>,
    mask: Option<&[u32]>,
    params: &SamplingParams,
) {
    let output = &params.output_token_ids;
    match stage {
        Stage::Allowed => candidates.retain(|c| {
            let in_list = params.allowed_token_ids.as_ref().is_none_or(|ids| ids.contains(&c.token));
            in_list && mask.is_none_or(|mask| mask[c.token as usize / 32] >> (c.token % 32) & 1 == 1)
        }),
        Stage::BadWords => candidates.retain(|c| {
            !params.bad_words_ids.iter().any(|word| match word.split_last() {
                Some((last, rest)) => *last == c.token && output.ends_with(rest),
                None => false,
            })
        }),
        Stage::MinTokens => candidates.retain(|c| {
            output.len() >= params.min_tokens as usize
                || !(params.eos_token_id.contains(&c.token) || params.stop_token_ids.contains(&c.token))
        }),
        Stage::LogitBias => {
            for c in candidates.iter_mut() {
                if let Some(&bias) = params.logit_bias.get(&c.token) {
                    c.logit = saturated(c.logit + bias as f32);
                }
            }
        }
        Stage::Dry => dry(candidates, params),
        Stage::NoRepeatNgram => no_repeat_ngram(candidates, params),
        Stage::Smoothing => smoothing(candidates, params),
        _ => penalties(candidates, params),
    }
}

/// Prompt and output.
fn text(params: &SamplingParams) -> Vec<u32> {
    params.prompt_token_ids.iter().chain(&params.output_token_ids).copied().collect()
}

fn penalties(candidates: &mut [Candidate], params: &SamplingParams) {
    let tokens = text(params);
    let window = if params.penalty_window == 0 { tokens.len() } else { params.penalty_window as usize };
    let start = tokens.len().saturating_sub(window);
    let counted_from = match params.penalty_scope {
        PenaltyScope::All => start,
        PenaltyScope::Output => start.max(params.prompt_token_ids.len()),
    };
    for c in candidates {
        if !tokens[start..].contains(&c.token) {
            continue;
        }
        let repetition = params.repetition_penalty as f32;
        c.logit = saturated(if c.logit > 0.0 { c.logit / repetition } else { c.logit * repetition });
        let count = tokens[counted_from..].iter().filter(|&&token| token == c.token).count();
        if count > 0 {
            c.logit = saturated(c.logit - params.frequency_penalty as f32 * count as f32);
            c.logit = saturated(c.logit - params.presence_penalty as f32);
        }
    }
}

/// Every earlier place is compared with the end, token by token.
fn dry(candidates: &mut [Candidate], params: &SamplingParams) {
    let tokens = text(params);
    let window =
        if params.dry_penalty_last_n == 0 { tokens.len() } else { params.dry_penalty_last_n as usize };
    let tokens = &tokens[tokens.len().saturating_sub(window)..];
    let allowed = params.dry_allowed_length as usize;
    // What stands after the breaker that begins last, the longest of those that begin there.
    let mut limit = tokens.len();
    for place in 0..tokens.len() {
        let here = params.dry_sequence_breakers.iter().filter(|breaker| tokens[place..].starts_with(breaker));
        if let Some(longest) = here.map(Vec::len).max() {
            limit = tokens.len() - place - longest;
        }
    }
    if tokens.len() <= allowed || limit < allowed {
        return;
    }
    for c in candidates {
        let mut longest = None;
        for place in (1..tokens.len()).filter(|&place| tokens[place] == c.token) {
            let both = tokens[..place].iter().rev().zip(tokens.iter().rev());
            let length = both.take_while(|(a, b)| a == b).count().min(limit);
            if length >= allowed {
                longest = longest.max(Some(length));
            }
        }
        let Some(length) = longest.filter(|_| !params.dry_sequence_breakers.contains(&vec![c.token])) else {
            continue;
        };
        let penalty = (allowed..length).fold(params.dry_multiplier, |penalty, _| penalty * params.dry_base);
        c.logit = saturated(c.logit - saturated(penalty as f32));
    }
}

fn no_repeat_ngram(candidates: &mut Vec<Candidate>, params: &SamplingParams) {
    let tokens = text(params);
    let size = params.no_repeat_ngram_size as usize;
    candidates.retain(|c| {
        let mut longer = tokens.clone();
        longer.push(c.token);
        let completed = longer.len().checked_sub(size).map(|start| &longer[start..]);
        !completed.is_some_and(|ngram| tokens.windows(size).any(|window| window == ngram))
    });
}

fn smoothing(candidates: &mut [Candidate], params: &SamplingParams) {
    let best = f64::from(candidates[0].logit);
    let quadratic = (3.0 - params.smoothing_curve) / 2.0;
    let cubic = (params.smoothing_curve - 1.0) / 2.0;
    for c in candidates {
        let d = f64::from(c.logit) - best;
        c.logit = saturated((best + params.smoothing_factor * d * d * (cubic * d - quadratic)) as f32);
    }
}
