//! What the edits make of a logit.

use std::collections::{BTreeMap, BTreeSet};

use onedraw::{PenaltyScope, SamplingParams, Stage};

use super::left::saturated;

/// A token's logit after the edit; none: it is masked.
type Edit<'a> = Box<dyn Fn(u32, f32) -> Option<f32> + 'a>;

/// The edit that a stage is, where `best` is the best logit left.
pub(super) fn edit<'a>(stage: &Stage, params: &'a SamplingParams, best: f32) -> Edit<'a> {
    match stage {
        Stage::Allowed => {
            let allowed = BTreeSet::from_iter(params.allowed_token_ids.iter().flatten());
            Box::new(move |id, logit| allowed.contains(&id).then_some(logit))
        }
        Stage::BadWords => {
            let words = params.bad_words_ids.iter().filter_map(|word| word.split_last());
            banning(
                words.filter(|(_, others)| params.output_token_ids.ends_with(others)).map(|(&last, _)| last),
            )
        }
        Stage::MinTokens => {
            let is_early = params.output_token_ids.len() < params.min_tokens as usize;
            let ends = params.eos_token_id.iter().chain(&params.stop_token_ids).copied();
            banning(ends.filter(|_| is_early))
        }
        Stage::LogitBias => Box::new(|id, logit| {
            let bias = params.logit_bias.get(&id).map_or(0.0, |&bias| bias as f32);
            Some(saturated(logit + bias))
        }),
        Stage::Penalties => penalties(params),
        Stage::Dry => {
            let penalties = dry(params);
            Box::new(move |id, logit| Some(saturated(logit - penalties.get(&id).unwrap_or(&0.0))))
        }
        Stage::NoRepeatNgram => {
            let history = history(params);
            let size = params.no_repeat_ngram_size as usize;
            banning(
                history
                    .windows(size)
                    .filter_map(|ngram| ngram.split_last())
                    .filter(|(_, others)| history.ends_with(others))
                    .map(|(&last, _)| last),
            )
        }
        Stage::Smoothing => {
            let (best, s) = (f64::from(best), params.smoothing_factor);
            let (k, c) = ((3.0 - params.smoothing_curve) / 2.0, (params.smoothing_curve - 1.0) / 2.0);
            Box::new(move |_, logit| {
                let d = f64::from(logit) - best;
                Some(saturated((best + ((s * d) * d) * (c * d - k)) as f32))
            })
        }
        _ => panic!("the oracle does not know the edit {}", stage.name()),
    }
}

fn banning<'a>(ids: impl Iterator<Item = u32>) -> Edit<'a> {
    let banned: BTreeSet<u32> = ids.collect();
    Box::new(move |id, logit| (!banned.contains(&id)).then_some(logit))
}

fn history(params: &SamplingParams) -> Vec<u32> {
    [&params.prompt_token_ids[..], &params.output_token_ids[..]].concat()
}

/// The last `length` of a list, all of it where that is 0 or too many.
fn last<T>(list: &[T], length: u32) -> &[T] {
    match length {
        0 => list,
        length => &list[list.len().saturating_sub(length as usize)..],
    }
}

fn penalties(params: &SamplingParams) -> Edit<'_> {
    let history: Vec<(u32, bool)> = (params.prompt_token_ids.iter().map(|&id| (id, false)))
        .chain(params.output_token_ids.iter().map(|&id| (id, true)))
        .collect();
    // A token of the prompt alone is seen, with a count of 0.
    let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
    for &(id, is_output) in last(&history, params.penalty_window) {
        let count = seen.entry(id).or_default();
        *count += u32::from(is_output || params.penalty_scope == PenaltyScope::All);
    }
    let repetition = params.repetition_penalty as f32;
    Box::new(move |id, mut logit| {
        let Some(&count) = seen.get(&id) else { return Some(logit) };
        logit = saturated(if logit > 0.0 { logit / repetition } else { logit * repetition });
        if count > 0 {
            logit = saturated(logit - params.frequency_penalty as f32 * count as f32);
            logit = saturated(logit - params.presence_penalty as f32);
        }
        Some(logit)
    })
}

/// What DRY takes from each token that would go on with a repetition.
fn dry(params: &SamplingParams) -> BTreeMap<u32, f32> {
    let whole = history(params);
    let history = last(&whole, params.dry_penalty_last_n);
    let (limit, allowed) = (dry_limit(history, params), params.dry_allowed_length as usize);
    let mut lengths: BTreeMap<u32, usize> = BTreeMap::new();
    if history.len() > allowed && limit >= allowed {
        for place in 1..history.len() {
            let (token, before) = (history[place], &history[..place]);
            let common = before.iter().rev().zip(history.iter().rev()).take_while(|(a, b)| a == b).count();
            let length = common.min(limit);
            if length >= allowed && !params.dry_sequence_breakers.contains(&vec![token]) {
                let longest = lengths.entry(token).or_default();
                *longest = length.max(*longest);
            }
        }
    }
    let penalty = |length: usize| {
        let grown = (allowed..length).fold(params.dry_multiplier, |penalty, _| penalty * params.dry_base);
        saturated(grown as f32)
    };
    lengths.into_iter().map(|(token, length)| (token, penalty(length))).collect()
}

/// How many tokens stand after the breaker that begins last; all of them if there is none.
fn dry_limit(history: &[u32], params: &SamplingParams) -> usize {
    let breakers = &params.dry_sequence_breakers;
    let longest_at = |start: usize| {
        breakers.iter().filter(|breaker| history[start..].starts_with(breaker)).map(Vec::len).max()
    };
    let last = (0..history.len()).rev().find_map(|start| Some(start + longest_at(start)?));
    history.len() - last.unwrap_or(0)
}
