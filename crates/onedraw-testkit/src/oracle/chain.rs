//! The stages, one after the other, over the list of tokens that are left.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use onedraw::{PenaltyScope, SamplingParams, Stage};

use super::{Failure, Outcome};

/// Below this the draw is greedy.
const GREEDY_BELOW: f64 = 1e-5;
/// How near to p, as a share of the total, the mass before a token makes its place in the nucleus uncertain.
const TOP_P_MARGIN: f64 = 1e-6;
/// How near to min-p's threshold, relative to it, a logit makes its token's place uncertain.
const MIN_P_MARGIN: f64 = 1e-9;
/// More borderline tokens than this at one stage, and only the two ends are followed.
const MOST_LENGTHS: usize = 16;
/// More answers than this in all are not followed.
const MOST_ANSWERS: usize = 256;
/// The mass that more than [`MOST_LENGTHS`] tokens between the two margins of p can have, with room to spare.
const BORDER_MASS: f64 = 1e-5;

/// Every answer that a row may have.
pub(super) struct Answers {
    /// With every decision taken as the sums say.
    pub plain: Result<Outcome, Failure>,
    /// The answers that differ from it because borderline tokens were decided another way.
    pub others: Vec<Result<Outcome, Failure>>,
    /// See [`super::Expected::slack`].
    pub slack: f64,
}

/// Runs the chain, once for each way in which borderline tokens can be decided.
pub(super) fn run(logits: &[f32], stages: &[Stage], params: &SamplingParams) -> Answers {
    let tokens: Vec<(u32, f32)> =
        (0u32..).zip(logits.iter().copied()).filter(|token| token.1.is_finite()).collect();
    if tokens.is_empty() {
        return Answers { plain: Err(Failure::NothingLeft(None)), others: Vec::new(), slack: 0.0 };
    }
    let mut start = Left { tokens, temperature: 1.0, greedy: false };
    start.sort();
    let mut walk = Walk { stages, params, branches: VecDeque::new(), slack: 0.0 };
    let plain = walk.follow(start, 0);
    let mut others = Vec::new();
    for followed in 1.. {
        let Some((left, at)) = walk.branches.pop_front() else { break };
        if followed == MOST_ANSWERS {
            walk.slack = 1.0;
            break;
        }
        let other = walk.follow(left, at);
        if other != plain && !others.contains(&other) {
            others.push(other);
        }
    }
    Answers { plain, others, slack: walk.slack }
}

struct Walk<'a> {
    stages: &'a [Stage],
    params: &'a SamplingParams,
    /// What an uncertain truncation might have left instead, and the stage that comes next.
    branches: VecDeque<(Left, usize)>,
    slack: f64,
}

impl Walk<'_> {
    /// The plain reading of the stages from `start` on; other readings are added to `branches`.
    fn follow(&mut self, mut left: Left, start: usize) -> Result<Outcome, Failure> {
        for at in start..self.stages.len() {
            let stage = self.stages[at].clone();
            if !is_set(&stage, self.params) {
                continue;
            }
            match stage {
                Stage::Temperature if self.params.temperature < GREEDY_BELOW => left.greedy = true,
                Stage::Temperature => left.temperature *= self.params.temperature,
                Stage::TopK => {
                    let k = usize::try_from(self.params.top_k).expect("a set top_k is above 0");
                    left.tokens.truncate(k);
                }
                Stage::TopP => self.truncate(left.top_p(self.params.top_p), &mut left, at),
                Stage::MinP => self.truncate(left.min_p(self.params.min_p), &mut left, at),
                _ => {
                    left.take_temperature_into_the_logits();
                    left.edit(&stage, self.params);
                    if left.tokens.is_empty() {
                        return Err(Failure::NothingLeft(Some(stage)));
                    }
                    left.sort();
                }
            }
        }
        Ok(left.outcome())
    }

    fn truncate(&mut self, prefix: Prefix, left: &mut Left, at: usize) {
        let mut lengths: Vec<usize> = (prefix.shortest..=prefix.longest)
            .filter(|&length| {
                length != prefix.length && (!prefix.keeps_ties_together || left.is_border(length))
            })
            .collect();
        if lengths.len() > MOST_LENGTHS {
            lengths = vec![prefix.shortest, prefix.longest];
            let rest = &self.stages[at + 1..];
            // A later edit may lift a borderline token, a later temperature its mass.
            let may_grow = rest.iter().any(|stage| {
                is_set(stage, self.params) && !matches!(stage, Stage::TopK | Stage::TopP | Stage::MinP)
            });
            self.slack = self.slack.max(if may_grow { 1.0 } else { BORDER_MASS });
        }
        for length in lengths {
            let mut other = left.clone();
            other.tokens.truncate(length);
            self.branches.push_back((other, at + 1));
        }
        left.tokens.truncate(prefix.length);
    }
}

/// Whether the parameters give a stage anything to do, whatever the history is: one without a task leaves even the
/// temperature where it is.
fn is_set(stage: &Stage, params: &SamplingParams) -> bool {
    match stage {
        Stage::Allowed => params.allowed_token_ids.is_some(),
        Stage::BadWords => !params.bad_words_ids.is_empty(),
        Stage::MinTokens => {
            params.min_tokens > 0 && !(params.eos_token_id.is_empty() && params.stop_token_ids.is_empty())
        }
        Stage::LogitBias => !params.logit_bias.is_empty(),
        Stage::Penalties => {
            params.repetition_penalty != 1.0
                || params.frequency_penalty != 0.0
                || params.presence_penalty != 0.0
        }
        Stage::Temperature => params.temperature != 1.0,
        Stage::MinP => params.min_p > 0.0,
        Stage::TopK => params.top_k > 0,
        Stage::TopP => params.top_p < 1.0,
        _ => panic!("the oracle does not know the stage {}", stage.name()),
    }
}

/// How many tokens a truncation keeps, and how few or many it might keep with other rounding.
struct Prefix {
    length: usize,
    shortest: usize,
    longest: usize,
    /// Whether equal logits are decided alike.
    keeps_ties_together: bool,
}

/// The tokens that are left, in order, with their logits before the temperature in force.
#[derive(Clone)]
struct Left {
    tokens: Vec<(u32, f32)>,
    temperature: f64,
    greedy: bool,
}

impl Left {
    fn sort(&mut self) {
        // partial_cmp, not total_cmp: −0.0 and 0.0 are the same logit.
        self.tokens.sort_by(|a, b| {
            b.1.partial_cmp(&a.1).expect("logits that are left are finite").then(a.0.cmp(&b.0))
        });
    }

    fn is_border(&self, length: usize) -> bool {
        length == self.tokens.len() || self.tokens[length - 1].1 != self.tokens[length].1
    }

    /// The logarithm of each token's weight; the best has 0.
    fn scaled(&self) -> impl Iterator<Item = f64> {
        let best = f64::from(self.tokens[0].1);
        self.tokens.iter().map(move |token| (f64::from(token.1) - best) / self.temperature)
    }

    fn top_p(&self, p: f64) -> Prefix {
        let weights: Vec<f64> = self.scaled().map(f64::exp).collect();
        let total: f64 = weights.iter().sum();
        let mut before = 0.0;
        let (mut length, mut shortest, mut longest) = (0, 0, 0);
        for weight in weights {
            length += usize::from(before < p * total);
            shortest += usize::from(before < (p - TOP_P_MARGIN) * total);
            longest += usize::from(before < (p + TOP_P_MARGIN) * total);
            before += weight;
        }
        // Nothing is before the best token: it stays for any p.
        Prefix { length: length.max(1), shortest: shortest.max(1), longest, keeps_ties_together: false }
    }

    fn min_p(&self, min_p: f64) -> Prefix {
        let best = f64::from(self.tokens[0].1);
        let threshold = self.temperature * min_p.ln();
        let margin = threshold.abs() * MIN_P_MARGIN;
        let at_least =
            |limit: f64| self.tokens.iter().filter(|token| f64::from(token.1) - best >= limit).count();
        Prefix {
            length: at_least(threshold),
            shortest: at_least(threshold + margin),
            longest: at_least(threshold - margin),
            keeps_ties_together: true,
        }
    }

    /// An edit works on what the stages before it made of the logits.
    fn take_temperature_into_the_logits(&mut self) {
        if self.temperature != 1.0 {
            let factor = 1.0 / self.temperature;
            for (_, logit) in &mut self.tokens {
                *logit = saturated((f64::from(*logit) * factor) as f32);
            }
            self.temperature = 1.0;
        }
    }

    fn edit(&mut self, stage: &Stage, params: &SamplingParams) {
        match stage {
            Stage::Allowed => {
                let allowed = BTreeSet::from_iter(params.allowed_token_ids.iter().flatten());
                self.tokens.retain(|token| allowed.contains(&token.0));
            }
            Stage::BadWords => {
                let banned: BTreeSet<u32> = params
                    .bad_words_ids
                    .iter()
                    .filter_map(|word| word.split_last())
                    .filter(|(_, others)| params.output_token_ids.ends_with(others))
                    .map(|(&last, _)| last)
                    .collect();
                self.tokens.retain(|token| !banned.contains(&token.0));
            }
            Stage::MinTokens => {
                if params.output_token_ids.len() < params.min_tokens as usize {
                    let ends = BTreeSet::from_iter(params.eos_token_id.iter().chain(&params.stop_token_ids));
                    self.tokens.retain(|token| !ends.contains(&token.0));
                }
            }
            Stage::LogitBias => {
                for (token, logit) in &mut self.tokens {
                    if let Some(&bias) = params.logit_bias.get(token) {
                        *logit = saturated(*logit + bias as f32);
                    }
                }
            }
            Stage::Penalties => self.penalize(params),
            _ => panic!("the oracle does not know the edit {}", stage.name()),
        }
    }

    fn penalize(&mut self, params: &SamplingParams) {
        let history: Vec<(u32, bool)> = (params.prompt_token_ids.iter().map(|&id| (id, false)))
            .chain(params.output_token_ids.iter().map(|&id| (id, true)))
            .collect();
        let window = match params.penalty_window {
            0 => history.len(),
            window => history.len().min(window as usize),
        };
        // A token of the prompt alone is seen, with a count of 0.
        let mut seen: BTreeMap<u32, u32> = BTreeMap::new();
        for &(id, is_output) in &history[history.len() - window..] {
            let count = seen.entry(id).or_default();
            *count += u32::from(is_output || params.penalty_scope == PenaltyScope::All);
        }
        let repetition = params.repetition_penalty as f32;
        for (token, logit) in &mut self.tokens {
            let Some(&count) = seen.get(token) else { continue };
            *logit = saturated(if *logit > 0.0 { *logit / repetition } else { *logit * repetition });
            if count > 0 {
                *logit = saturated(*logit - params.frequency_penalty as f32 * count as f32);
                *logit = saturated(*logit - params.presence_penalty as f32);
            }
        }
    }

    fn outcome(&self) -> Outcome {
        if self.greedy {
            return Outcome { tokens: vec![self.tokens[0].0], probabilities: vec![1.0] };
        }
        let weights: Vec<f64> = self.scaled().map(f64::exp).collect();
        let total: f64 = weights.iter().sum();
        Outcome {
            tokens: self.tokens.iter().map(|token| token.0).collect(),
            probabilities: weights.iter().map(|weight| weight / total).collect(),
        }
    }
}

/// Only a mask makes −inf; an edit that overflows stays at the largest finite logit.
fn saturated(logit: f32) -> f32 {
    logit.clamp(f32::MIN, f32::MAX)
}
