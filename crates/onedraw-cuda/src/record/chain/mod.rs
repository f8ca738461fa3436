//! A sequence's parameters as the record that the kernels read: what [`Plan`] makes of them, stage by stage.

use onedraw::edit::temperature::Temperature;
use onedraw::float_mode::Standard;
use onedraw::math::ln;
use onedraw::row::MAX_VOCABULARY;
use onedraw::{PenaltyScope, Plan, SamplingParams};

use super::layout::{EditKind, Sequence, Stage, StageKind, logprobs_mode};
use super::shared::{MAX_EDITS, MAX_STAGES};
use crate::error::CudaError;

/// The most entries of logprobs beside the drawn token: half the list that a draw has in shared memory
/// (`LIST_CAPACITY` in `kernels/limits.cuh`), so that the tokens down to the last wanted one fit it on nearly
/// every row.
pub(crate) const MAX_LOGPROBS: i64 = 1024;
/// The longest window of penalties. The window's tokens are kept on the device: 4 MiB for each sequence.
const LONGEST_WINDOW: u32 = 1 << 20;
/// 2^53, of which shares are fractions.
const ONE: f64 = 9_007_199_254_740_992.0;

/// Whether rows of a sequence may come with a grammar's mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Masks {
    /// They may.
    Taken,
    /// They may not: the order does not name the stage that applies it.
    Unnamed,
    /// They may not on a device: the stage stands after a temperature or a truncation.
    TooLate,
}

/// Checked parameters. The record still lacks its addresses, its seed and the number of the sequence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub plan: Plan,
    pub sequence: Sequence,
    pub masks: Masks,
}

/// Checks whether the device can draw for these parameters. The error names the stage or the parameter that
/// it cannot.
///
/// ```
/// use onedraw::SamplingParams;
/// let params = SamplingParams::builder().xtc_probability(0.5).build()?;
/// let error = onedraw_cuda::check(&params).unwrap_err();
/// assert_eq!(error.to_string(), "xtc is not on the device yet; draw these rows on the CPU");
/// # Ok::<(), onedraw::ParamError>(())
/// ```
pub fn check(params: &SamplingParams) -> Result<(), CudaError> {
    Record::new(params).map(|_| ())
}

impl Record {
    /// Checks the parameters and lays the chain out. Stages that do nothing are left out, as [`Plan`] leaves
    /// them out.
    pub(crate) fn new(params: &SamplingParams) -> Result<Self, CudaError> {
        let _mode = Standard::enter();
        let plan = Plan::new(params)?;
        refuse(params)?;
        let mut chain = Chain::new(plan.is_greedy());
        let order = params.order.clone().unwrap_or_default();
        for stage in order.stages() {
            chain.push(stage, params)?;
        }
        let masks = match chain.late_mask {
            true => Masks::TooLate,
            false if order.names(&onedraw::Stage::Allowed) => Masks::Taken,
            false => Masks::Unnamed,
        };
        Ok(Self { plan, sequence: chain.sequence(params), masks })
    }
}

impl Sequence {
    /// Whether an edit of this kind is in the chain.
    pub(crate) fn has(&self, kind: EditKind) -> bool {
        self.edit[..self.edits as usize].contains(&(kind as u32))
    }

    /// The stage of edit number `index`; `None` if there is none.
    pub(crate) fn edit_stage(&self, index: u32) -> Option<onedraw::Stage> {
        let edits = &self.edit[..self.edits as usize];
        let kinds = [
            (EditKind::BadWords, onedraw::Stage::BadWords),
            (EditKind::MinTokens, onedraw::Stage::MinTokens),
            (EditKind::LogitBias, onedraw::Stage::LogitBias),
            (EditKind::Penalties, onedraw::Stage::Penalties),
            (EditKind::Allowed, onedraw::Stage::Allowed),
        ];
        let edit = edits.get(index as usize)?;
        kinds.into_iter().find(|(kind, _)| *kind as u32 == *edit).map(|(_, stage)| stage)
    }
}

/// Refuses parameters without a stage of their own that the device does not know.
fn refuse(params: &SamplingParams) -> Result<(), CudaError> {
    let refused = match params.logprobs {
        Some(count) if count < 0 => Some("logprobs of all tokens (-1)"),
        Some(count) if count > MAX_LOGPROBS => Some("more than 1024 logprobs"),
        _ if params.prompt_logprobs.is_some() => Some("prompt_logprobs"),
        // They take text back, which the device cannot.
        _ if !params.banned_strings.is_empty() => Some("banned_strings"),
        _ if params.penalty_window > LONGEST_WINDOW => Some("a penalty_window above 1048576"),
        _ => None,
    };
    refused.map_or(Ok(()), |what| Err(CudaError::unsupported(what)))
}

/// A chain that is being laid out.
struct Chain {
    is_greedy: bool,
    /// The temperature in force after the stages so far.
    temperature: Temperature,
    /// Whether a temperature stage has divided.
    is_heated: bool,
    stages: Vec<Stage>,
    edits: Vec<EditKind>,
    /// Whether a mask would come after a temperature or a truncation.
    late_mask: bool,
}

impl Chain {
    fn new(is_greedy: bool) -> Self {
        let (stages, edits) = (Vec::new(), Vec::new());
        Self { is_greedy, temperature: Temperature::ONE, is_heated: false, stages, edits, late_mask: false }
    }

    fn push(&mut self, stage: &onedraw::Stage, params: &SamplingParams) -> Result<(), CudaError> {
        use onedraw::Stage as Named;
        let is_active_elsewhere = match stage {
            Named::Dry => params.dry_multiplier > 0.0,
            Named::NoRepeatNgram => params.no_repeat_ngram_size > 0,
            Named::Smoothing => params.smoothing_factor > 0.0,
            Named::Xtc => params.xtc_probability > 0.0,
            Named::Mirostat => params.mirostat > 0,
            Named::Temperature if params.dynatemp_range > 0.0 => {
                return Err(CudaError::unsupported("dynatemp_range"));
            }
            Named::Temperature => {
                self.heat(params.temperature);
                false
            }
            Named::Allowed if params.allowed_token_ids.is_none() => return self.push_mask(),
            Named::Allowed | Named::BadWords | Named::MinTokens | Named::LogitBias | Named::Penalties => {
                return edit(stage, params).map_or(Ok(()), |edit| self.push_edit(edit, stage));
            }
            Named::MinP | Named::TopK | Named::TopP | Named::Typical => return self.truncate(stage, params),
            Named::TopNSigma | Named::Epsilon | Named::Eta | Named::TopA => {
                return self.truncate(stage, params);
            }
            _ => true,
        };
        if is_active_elsewhere {
            return Err(CudaError::unsupported(stage.name()));
        }
        Ok(())
    }

    /// The temperature stage. A greedy chain draws nothing; its truncations see the undivided logits.
    fn heat(&mut self, temperature: f64) {
        if temperature != 1.0 && !self.is_greedy {
            self.temperature = self.temperature.then(temperature);
            self.is_heated = true;
        }
    }

    /// Whether an edit at this place would see what a temperature or a truncation left.
    fn has_step(&self) -> bool {
        self.is_heated || !self.stages.is_empty()
    }

    /// The place of a mask that may come with a row.
    fn push_mask(&mut self) -> Result<(), CudaError> {
        if self.has_step() {
            self.late_mask = true;
            return Ok(());
        }
        self.push_edit(EditKind::Allowed, &onedraw::Stage::Allowed)
    }

    fn push_edit(&mut self, edit: EditKind, stage: &onedraw::Stage) -> Result<(), CudaError> {
        if self.has_step() {
            let what = format!("{} after a temperature or a truncation", stage.name());
            return Err(CudaError::unsupported(what));
        }
        if self.edits.len() == MAX_EDITS {
            return Err(CudaError::unsupported("a chain of more than 12 edits"));
        }
        self.edits.push(edit);
        Ok(())
    }

    fn truncate(&mut self, stage: &onedraw::Stage, params: &SamplingParams) -> Result<(), CudaError> {
        let Some(truncation) = truncation(stage, params, self.temperature) else { return Ok(()) };
        if self.stages.len() == MAX_STAGES {
            return Err(CudaError::unsupported("a chain of more than 8 truncations"));
        }
        self.stages.push(truncation);
        Ok(())
    }

    /// The record of all stages that were pushed.
    fn sequence(&self, params: &SamplingParams) -> Sequence {
        let mut sequence: Sequence = bytemuck::Zeroable::zeroed();
        sequence.seed = params.seed.unwrap_or_default();
        sequence.position = params.output_token_ids.len() as u32;
        sequence.prompt = params.prompt_token_ids.len() as u32;
        sequence.is_greedy = self.is_greedy.into();
        sequence.inverse = self.temperature.inverse;
        sequence.scale = self.temperature.softmax(0.0).scale;
        sequence.stages = self.stages.len() as u32;
        sequence.stage[..self.stages.len()].copy_from_slice(&self.stages);
        let is_plain = self.is_plain() && asks_only_the_row(params);
        sequence.is_plain = is_plain.into();
        let place =
            |kind| self.stages.iter().position(|stage| stage.kind == kind as u32).unwrap_or(MAX_STAGES);
        let (nucleus, top_k) = (place(StageKind::TopP), place(StageKind::TopK));
        sequence.min_p_place = place(StageKind::MinP) as u32;
        sequence.top_p_place = nucleus as u32;
        sequence.k = self.stages.get(top_k).map_or(u32::MAX, |stage| stage.k);
        sequence.k_before = if top_k < nucleus { sequence.k } else { u32::MAX };
        // Behind another truncation top-p does not see the mass of the whole row, which is what the first
        // pass sums.
        let nucleus = self.stages.first().filter(|stage| stage.kind == StageKind::TopP as u32);
        sequence.sum_scale = nucleus.filter(|_| is_plain && !self.is_greedy).map_or(0.0, |stage| stage.scale);
        sequence.edits = self.edits.len() as u32;
        for (place, edit) in sequence.edit.iter_mut().zip(&self.edits) {
            *place = *edit as u32;
        }
        if sequence.has(EditKind::Penalties) {
            sequence.repetition = params.repetition_penalty as f32;
            sequence.frequency = params.frequency_penalty as f32;
            sequence.presence = params.presence_penalty as f32;
            sequence.counts_prompt = (params.penalty_scope == PenaltyScope::All).into();
            sequence.window = params.penalty_window;
        }
        if sequence.has(EditKind::MinTokens) {
            sequence.min_tokens = params.min_tokens;
            sequence.ends = (params.eos_token_id.len() + params.stop_token_ids.len()) as u32;
        }
        sequence.biases = params.logit_bias.len() as u32;
        sequence.words = params.bad_words_ids.len() as u32;
        // `refuse` has refused negative and large counts.
        sequence.logprobs = params.logprobs.map_or(0, |count| count as u32 + 1);
        sequence.logprobs_mode = logprobs_mode(params.logprobs_mode);
        sequence
    }

    /// Whether the chain has only min-p, top-k and top-p, each once at most.
    fn is_plain(&self) -> bool {
        let kinds = [StageKind::MinP, StageKind::TopK, StageKind::TopP].map(|kind| kind as u32);
        let is_once =
            |stage: &Stage| self.stages.iter().filter(|other| other.kind == stage.kind).count() == 1;
        self.stages.iter().all(|stage| kinds.contains(&stage.kind) && is_once(stage))
    }
}

/// Whether nothing is reported of what the chain leaves, so that only the unmodified row is asked about.
fn asks_only_the_row(params: &SamplingParams) -> bool {
    params.logprobs.is_none() || params.logprobs_mode.is_raw()
}

/// The edit of a stage; `None` if its parameters give it nothing to do.
fn edit(stage: &onedraw::Stage, params: &SamplingParams) -> Option<EditKind> {
    let has_ends = !params.eos_token_id.is_empty() || !params.stop_token_ids.is_empty();
    // Rounded to f32, in which edits compute.
    let penalties = [params.repetition_penalty, params.frequency_penalty, params.presence_penalty];
    let (kind, is_active) = match stage {
        onedraw::Stage::Allowed => (EditKind::Allowed, params.allowed_token_ids.is_some()),
        onedraw::Stage::BadWords => (EditKind::BadWords, !params.bad_words_ids.is_empty()),
        onedraw::Stage::MinTokens => (EditKind::MinTokens, params.min_tokens > 0 && has_ends),
        onedraw::Stage::LogitBias => (EditKind::LogitBias, !params.logit_bias.is_empty()),
        onedraw::Stage::Penalties => {
            (EditKind::Penalties, penalties.map(|penalty| penalty as f32) != [1.0, 0.0, 0.0])
        }
        _ => return None,
    };
    is_active.then_some(kind)
}

/// The truncation of a stage at the temperature in force; `None` if it keeps everything.
fn truncation(stage: &onedraw::Stage, params: &SamplingParams, temperature: Temperature) -> Option<Stage> {
    let plain =
        Stage { inverse: temperature.inverse, scale: temperature.softmax(0.0).scale, ..Stage::default() };
    let of = |kind: StageKind| Stage { kind: kind as u32, ..plain };
    let share =
        |kind, p: f64| (p < 1.0).then(|| Stage { share: ((p * ONE).round() as u64).max(1), ..of(kind) });
    let bar = |kind, value: f64| (value > 0.0).then(|| Stage { number: ln(value), ..of(kind) });
    match stage {
        onedraw::Stage::MinP => (params.min_p > 0.0)
            .then(|| Stage { number: temperature.value * ln(params.min_p), ..of(StageKind::MinP) }),
        onedraw::Stage::TopK => (params.top_k > 0 && params.top_k < MAX_VOCABULARY as i64)
            .then(|| Stage { k: params.top_k as u32, ..of(StageKind::TopK) }),
        onedraw::Stage::TopP => share(StageKind::TopP, params.top_p),
        onedraw::Stage::Typical => share(StageKind::Typical, params.typical_p),
        onedraw::Stage::Epsilon => bar(StageKind::Epsilon, params.epsilon_cutoff),
        onedraw::Stage::Eta => bar(StageKind::Eta, params.eta_cutoff),
        onedraw::Stage::TopA => bar(StageKind::TopA, params.top_a),
        onedraw::Stage::TopNSigma => (params.top_n_sigma > 0.0)
            .then(|| Stage { number: params.top_n_sigma, ..of(StageKind::TopNSigma) }),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
