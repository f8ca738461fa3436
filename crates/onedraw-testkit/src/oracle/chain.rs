//! The stages, one after the other, over the list of tokens that are left.

use std::collections::VecDeque;

use onedraw::{SamplingParams, Stage};

use super::edit::edit;
use super::expected::{Allowance, Failure, Outcome};
use super::left::{Left, Softmax};
use super::truncate::{self, Cut, ENTROPY_MARGIN};

/// Below this the draw is greedy.
const GREEDY_BELOW: f64 = 1e-5;
/// How near to [`GREEDY_BELOW`], relative to it, a temperature that the entropy sets may fall on either side.
const GREEDY_MARGIN: f64 = 1e-6;
/// What a doubt about the temperature does is computed to first order, which holds up to here.
const MOST_TEMPERATURE_DOUBT: f64 = 1e-2;
/// More answers than this in all are not followed.
const MOST_ANSWERS: usize = 256;
/// The least slack where answers are not listed: their mass may be 0 in f64.
const LEAST_SLACK: f64 = 1e-9;
/// What names XTC's coin among the noise of a position.
const COIN: u32 = 3;

/// Every answer that a row may have.
pub(super) struct Answers {
    /// With every decision taken as the sums say.
    pub plain: Result<Outcome, Failure>,
    /// The answers that differ from it because borderline tokens were decided another way.
    pub others: Vec<Result<Outcome, Failure>>,
    pub allowance: Allowance,
}

/// Runs the chain, once for each way in which borderline tokens can be decided.
pub(super) fn run(logits: &[f32], stages: &[Stage], params: &SamplingParams) -> Answers {
    let start = Left::new(logits);
    let mut walk = Walk {
        stages,
        params,
        vocabulary: logits.len(),
        branches: VecDeque::new(),
        is_temperature_open: false,
        allowance: Allowance::default(),
    };
    if start.tokens.is_empty() {
        let plain = Err(Failure::NothingLeft(None));
        return Answers { plain, others: Vec::new(), allowance: walk.allowance };
    }
    let plain = walk.follow(start, 0);
    let mut others = Vec::new();
    for followed in 1.. {
        let Some((left, at)) = walk.branches.pop_front() else { break };
        if followed == MOST_ANSWERS {
            walk.allowance.slack = 1.0;
            break;
        }
        let other = walk.follow(left, at);
        if other != plain && !others.contains(&other) {
            others.push(other);
        }
    }
    if walk.is_temperature_open && !others.is_empty() {
        // What lies between its two ends is not known.
        walk.allowance.slack = 1.0;
    }
    Answers { plain, others, allowance: walk.allowance }
}

struct Walk<'a> {
    stages: &'a [Stage],
    params: &'a SamplingParams,
    vocabulary: usize,
    /// What an uncertain stage might have left instead, and the stage that comes next.
    branches: VecDeque<(Left, usize)>,
    /// Whether a temperature was so much in doubt that its two ends were followed instead.
    is_temperature_open: bool,
    allowance: Allowance,
}

impl Walk<'_> {
    /// The plain reading of the stages from `start` on; other readings are added to `branches`.
    fn follow(&mut self, mut left: Left, start: usize) -> Result<Outcome, Failure> {
        for at in start..self.stages.len() {
            let stage = &self.stages[at];
            if !is_set(stage, self.params) {
                continue;
            }
            match stage {
                Stage::Temperature if self.params.dynatemp_range > 0.0 => {
                    self.set_temperature(&mut left, at);
                }
                Stage::Temperature if self.params.temperature < GREEDY_BELOW => left.greedy = true,
                Stage::Temperature => left.temperature *= self.params.temperature,
                Stage::Xtc if self.coin(at) >= self.params.xtc_probability => {}
                _ => match self.cut(stage, &left) {
                    Some(cut) => self.truncate(&cut, &mut left, at),
                    None => {
                        left.take_temperature_into_the_logits();
                        let best = left.tokens[0];
                        // Smoothing measures from the best logit, and what that is off by is common to all.
                        let common = if *stage == Stage::Smoothing { best.doubt } else { 0.0 };
                        left.edit(common, edit(stage, self.params, best.logit));
                        if left.tokens.is_empty() {
                            return Err(Failure::NothingLeft(Some(stage.clone())));
                        }
                    }
                },
            }
        }
        self.allow(&left);
        Ok(left.outcome())
    }

    /// What a truncation keeps; none if the stage is an edit.
    fn cut(&self, stage: &Stage, left: &Left) -> Option<Cut> {
        let params = self.params;
        let mu = params.mirostat_mu.unwrap_or(2.0 * params.mirostat_tau);
        Some(match stage {
            Stage::MinP => truncate::min_p(left, params.min_p),
            Stage::TopK => truncate::top_k(left, params.top_k),
            Stage::TopP => truncate::top_p(left, params.top_p),
            Stage::Typical => truncate::typical(left, params.typical_p),
            Stage::TopNSigma => truncate::top_n_sigma(left, params.top_n_sigma),
            Stage::Epsilon => truncate::epsilon(left, params.epsilon_cutoff),
            Stage::Eta => truncate::eta(left, params.eta_cutoff),
            Stage::TopA => truncate::top_a(left, params.top_a),
            Stage::Xtc => truncate::xtc(left, params.xtc_threshold, &params.xtc_protected_token_ids),
            Stage::Mirostat if params.mirostat == 1 => truncate::mirostat_1(left, mu, self.vocabulary),
            Stage::Mirostat => truncate::mirostat_2(left, mu),
            _ => return None,
        })
    }

    /// Uniform in (0, 1), for the XTC stage that stands there.
    fn coin(&self, at: usize) -> f64 {
        let number = self.stages[..at].iter().filter(|stage| **stage == Stage::Xtc).count() as u32;
        let position = self.params.output_token_ids.len() as u32;
        let seed = self.params.seed.unwrap_or(0);
        let words =
            rand_philox::philox4x32_10([number, position, 0, COIN], [seed as u32, (seed >> 32) as u32]);
        (f64::from(words[0]) + 0.5) / 4_294_967_296.0
    }

    fn truncate(&mut self, cut: &Cut, left: &mut Left, at: usize) {
        let (narrowest, widest) = (cut.narrowest(), cut.widest());
        let mut places = (widest.start..=narrowest.start).chain(narrowest.end..=widest.end);
        if places.any(|place| left.is_order_in_doubt(place)) {
            // Other tokens than these may stand beside the cut.
            self.allowance.slack = 1.0;
        }
        if !cut.is_complete {
            // A later edit may lift a borderline token, a later temperature its mass. Only if the best token
            // is the same for all and each later stage keeps the more the more it is given, are later answers
            // between those of the narrowest and the widest window.
            let is_harmless = |stage: &Stage| {
                let is_monotone =
                    matches!(stage, Stage::TopK | Stage::TopP | Stage::MinP | Stage::Epsilon | Stage::TopA);
                !is_set(stage, self.params) || is_monotone && narrowest.start == widest.start
            };
            let softmax = Softmax::of(left);
            let (least, most) = (softmax.mass(&narrowest), softmax.mass(&widest));
            let slack = match least > 0.0 && self.stages[at + 1..].iter().all(is_harmless) {
                true => ((most - least) / least).clamp(LEAST_SLACK, 1.0),
                false => 1.0,
            };
            self.allowance.slack = self.allowance.slack.max(slack);
        }
        for window in cut.others.iter().filter(|window| !window.is_empty()) {
            let mut other = left.clone();
            other.keep(window, &cut.spared);
            self.branches.push_back((other, at + 1));
        }
        left.keep(&cut.kept, &cut.spared);
    }

    /// Multiplies the temperature by the one that the entropy sets, or makes the draw greedy.
    fn set_temperature(&mut self, left: &mut Left, at: usize) {
        let SamplingParams { temperature, dynatemp_range, dynatemp_exponent, .. } = *self.params;
        let (low, high) = ((temperature - dynatemp_range).max(0.0), temperature + dynatemp_range);
        let softmax = Softmax::of(left);
        let largest = (left.tokens.len() as f64).ln();
        let at_entropy = |entropy: f64| {
            // A single token has no entropy, nor any that it could have.
            let share = if largest == 0.0 { 0.0 } else { (entropy / largest).clamp(0.0, 1.0) };
            low + (high - low) * share.powf(dynatemp_exponent)
        };
        let margin = ENTROPY_MARGIN + softmax.entropy_doubt;
        let [least, plain, most] = [-margin, 0.0, margin].map(|off| at_entropy(softmax.entropy + off));
        let may_be_greedy = least * (1.0 - GREEDY_MARGIN) < GREEDY_BELOW;
        let may_be_drawn = most * (1.0 + GREEDY_MARGIN) >= GREEDY_BELOW;
        let [least, set] = [least, plain].map(|temperature| temperature.max(GREEDY_BELOW));
        let doubt = (most / set - 1.0).max(1.0 - least / set).max(0.0);
        let drawn = |temperature: f64, doubt: f64| Left {
            temperature: left.temperature * temperature,
            temperature_doubt: left.temperature_doubt + doubt,
            ..left.clone()
        };

        let mut readings = Vec::new();
        if may_be_drawn && doubt <= MOST_TEMPERATURE_DOUBT {
            readings.push(drawn(set, doubt));
        } else if may_be_drawn {
            self.is_temperature_open = true;
            readings.extend([set, least, most].map(|temperature| drawn(temperature, 0.0)));
        }
        if may_be_greedy {
            let place = if plain < GREEDY_BELOW { 0 } else { readings.len() };
            readings.insert(place, Left { greedy: true, ..left.clone() });
        }
        *left = readings.remove(0);
        self.branches.extend(readings.into_iter().map(|reading| (reading, at + 1)));
    }

    /// Allows for what the engine's logits and temperature may be off by at the end.
    fn allow(&mut self, left: &Left) {
        let allowance = &mut self.allowance;
        if left.greedy {
            if left.is_order_in_doubt(1) {
                allowance.slack = 1.0;
            }
            return;
        }
        allowance.tolerance = allowance.tolerance.max(Softmax::of(left).tolerance()).min(1.0);
        allowance.order_in_doubt |= (1..left.tokens.len()).any(|place| left.is_order_in_doubt(place));
    }
}

/// Whether the parameters give a stage anything to do, whatever the history is: one without a task leaves
/// even the temperature where it is.
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
        Stage::Dry => params.dry_multiplier > 0.0,
        Stage::NoRepeatNgram => params.no_repeat_ngram_size > 0,
        Stage::Smoothing => params.smoothing_factor > 0.0,
        Stage::Temperature => params.temperature != 1.0 || params.dynatemp_range > 0.0,
        Stage::MinP => params.min_p > 0.0,
        Stage::TopK => params.top_k > 0,
        Stage::TopP => params.top_p < 1.0,
        Stage::Typical => params.typical_p < 1.0,
        Stage::TopNSigma => params.top_n_sigma > 0.0,
        Stage::Epsilon => params.epsilon_cutoff > 0.0,
        Stage::Eta => params.eta_cutoff > 0.0,
        Stage::TopA => params.top_a > 0.0,
        Stage::Xtc => params.xtc_probability > 0.0,
        Stage::Mirostat => params.mirostat > 0,
        _ => panic!("the oracle does not know the stage {}", stage.name()),
    }
}
