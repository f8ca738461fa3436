//! The definition of everything onedraw computes: obvious, scalar, slow.
//!
//! It lists the tokens, sorts them all, gives every one its noise, and takes the best. The engine opens a few blocks and asks
//! questions instead; it is tested for equality with this, to the bit. Where the two differ, this is right. What is checked before any row
//! is read (ids outside the vocabulary, a mask whose stage the order leaves out) is not repeated here.

use crate::chain::{Order, Stage};
use crate::edit::temperature::Temperature;
use crate::error::RowError;
use crate::logprobs::Distribution;
use crate::mass::UNIT;
use crate::math::{exp, ln, saturated};
use crate::noise::Noise;
use crate::params::{GREEDY_BELOW, PenaltyScope, SamplingParams};
use crate::row::{MAX_VOCABULARY, Row};

/// A token that is still in the running, with its current logit.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    token: u32,
    logit: f32,
}

/// What the chain left of a row: the kept tokens in order, and the temperature of the draw.
#[derive(Clone, Debug, PartialEq)]
pub struct Left {
    candidates: Vec<Candidate>,
    temperature: Temperature,
    is_greedy: bool,
}

/// Runs the chain over a row: every stage of the order, one after another, over a plain list.
pub fn left<'r>(
    row: impl Into<Row<'r>>,
    mask: Option<&[u32]>,
    params: &SamplingParams,
) -> Result<Left, RowError> {
    let row = row.into();
    if row.is_empty() {
        return Err(RowError::EmptyRow);
    }
    if row.len() > MAX_VOCABULARY {
        return Err(RowError::VocabularyTooLarge { vocabulary: row.len() });
    }
    let needed = row.len().div_ceil(32);
    if let Some(words) = mask.map(<[u32]>::len).filter(|&words| words < needed) {
        return Err(RowError::MaskTooShort { words, needed });
    }
    let mut candidates = Vec::new();
    for token in 0..row.len() as u32 {
        let logit = row.get(token as usize);
        if logit.is_nan() {
            return Err(RowError::NanLogit { token });
        }
        if logit == f32::INFINITY {
            return Err(RowError::InfiniteLogit { token });
        }
        if logit > f32::NEG_INFINITY {
            candidates.push(Candidate { token, logit });
        }
    }
    if candidates.is_empty() {
        return Err(RowError::NothingLeft { stage: None });
    }
    sort(&mut candidates);
    let mut temperature = Temperature::ONE;
    let mut is_truncated = false;
    for stage in params.order.clone().unwrap_or_else(Order::vllm).stages().iter().cloned() {
        let is_edit = is_active_edit(stage.clone(), mask.is_some(), params);
        if is_edit && (is_truncated || temperature != Temperature::ONE) {
            for candidate in &mut candidates {
                candidate.logit = temperature.divide(candidate.logit);
            }
            temperature = Temperature::ONE;
            is_truncated = false;
        }
        match stage {
            _ if is_edit => edit(stage.clone(), &mut candidates, mask, params),
            Stage::Temperature if params.temperature >= GREEDY_BELOW => {
                temperature = temperature.then(params.temperature)
            }
            Stage::MinP if params.min_p > 0.0 => {
                min_p(&mut candidates, temperature, params.min_p);
                is_truncated = true;
            }
            Stage::TopK if params.top_k > 0 => {
                candidates.truncate(usize::try_from(params.top_k).unwrap_or(usize::MAX));
                is_truncated = true;
            }
            Stage::TopP if params.top_p < 1.0 => {
                top_p(&mut candidates, temperature, params.top_p);
                is_truncated = true;
            }
            _ => {}
        }
        if candidates.is_empty() {
            return Err(RowError::NothingLeft { stage: Some(stage) });
        }
    }
    Ok(Left { candidates, temperature, is_greedy: params.temperature < GREEDY_BELOW })
}

/// The order: logit descending, then id ascending.
fn sort(candidates: &mut [Candidate]) {
    candidates.sort_by(|a, b| {
        b.logit.partial_cmp(&a.logit).unwrap_or(std::cmp::Ordering::Equal).then(a.token.cmp(&b.token))
    });
}

/// Whether the stage is an edit whose parameters do anything.
fn is_active_edit(stage: Stage, has_mask: bool, params: &SamplingParams) -> bool {
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
        _ => false,
    }
}

fn edit(stage: Stage, candidates: &mut Vec<Candidate>, mask: Option<&[u32]>, params: &SamplingParams) {
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
        _ => penalties(candidates, params),
    }
    sort(candidates);
}

fn penalties(candidates: &mut [Candidate], params: &SamplingParams) {
    let (prompt, output) = (&params.prompt_token_ids, &params.output_token_ids);
    let tokens: Vec<u32> = prompt.iter().chain(output).copied().collect();
    let window = if params.penalty_window == 0 { tokens.len() } else { params.penalty_window as usize };
    let start = tokens.len().saturating_sub(window);
    let counted_from = match params.penalty_scope {
        PenaltyScope::All => start,
        PenaltyScope::Output => start.max(prompt.len()),
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

fn min_p(candidates: &mut Vec<Candidate>, temperature: Temperature, min_p: f64) {
    let x_max = f64::from(candidates[0].logit);
    candidates.retain(|c| f64::from(c.logit) - x_max >= temperature.value * ln(min_p));
}

fn top_p(candidates: &mut Vec<Candidate>, temperature: Temperature, top_p: f64) {
    let softmax = temperature.softmax(candidates[0].logit);
    let total: u64 = candidates.iter().map(|c| softmax.weight(c.logit)).sum();
    let p = ((top_p * 9_007_199_254_740_992.0).round() as u128).max(1);
    let mut before: u64 = 0;
    candidates.retain(|c| {
        let is_kept = u128::from(before) << 53 < p * u128::from(total);
        before += softmax.weight(c.logit);
        is_kept
    });
}

impl Left {
    /// The token that wins the race: every token runs.
    pub fn draw(&self, noise: &Noise) -> u32 {
        let x_max = self.candidates[0].logit;
        let mut best = (f64::NEG_INFINITY, self.candidates[0].token);
        if self.is_greedy {
            return best.1;
        }
        for c in &self.candidates {
            let score = self.temperature.scaled(c.logit, x_max) - ln(noise.token(c.token));
            if score > best.0 || (score == best.0 && c.token < best.1) {
                best = (score, c.token);
            }
        }
        best.1
    }

    /// The token at share `uniform` of the mass, in the order.
    pub fn at(&self, uniform: f64) -> u32 {
        if self.is_greedy {
            return self.candidates[0].token;
        }
        let softmax = self.temperature.softmax(self.candidates[0].logit);
        let total: u64 = self.candidates.iter().map(|c| softmax.weight(c.logit)).sum();
        let share = (uniform * 18_446_744_073_709_551_616.0) as u64;
        let unit = ((u128::from(share) * u128::from(total)) >> 64) as u64;
        let mut up_to = 0;
        for c in &self.candidates {
            up_to += softmax.weight(c.logit);
            if unit < up_to {
                return c.token;
            }
        }
        self.candidates[self.candidates.len() - 1].token
    }

    /// Every kept token with its probability.
    pub fn distribution(&self) -> Distribution {
        let x_max = self.candidates[0].logit;
        if self.is_greedy {
            return Distribution {
                tokens: vec![self.candidates[0].token],
                probabilities: vec![1.0],
                logprobs: vec![0.0],
            };
        }
        let softmax = self.temperature.softmax(x_max);
        let total: u64 = self.candidates.iter().map(|c| softmax.weight(c.logit)).sum();
        let ln_total = ln(total as f64 / UNIT as f64);
        let logprob = |c: &Candidate| self.temperature.scaled(c.logit, x_max) - ln_total;
        Distribution {
            tokens: self.candidates.iter().map(|c| c.token).collect(),
            probabilities: self.candidates.iter().map(|c| exp(logprob(c))).collect(),
            logprobs: self.candidates.iter().map(logprob).collect(),
        }
    }
}
