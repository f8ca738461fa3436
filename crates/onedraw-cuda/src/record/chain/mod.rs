//! A sequence's record as the kernels read it, filled from its [`Plan`].

use onedraw::float_mode::Standard;
use onedraw::plan::{Operation, Segment};
use onedraw::stages::edit::Edit;
use onedraw::stages::temperature::Heat;
use onedraw::stages::truncate::cutoff::Cutoff;
use onedraw::stages::truncate::share::Share;
use onedraw::stages::truncate::{Prefix, Truncation};
use onedraw::temperature::Temperature;
use onedraw::{KeptMode, PenaltyScope, Plan, SamplingParams};

use super::layout::{EditKind, Sequence, Stage, StageKind, logprobs_mode};
use super::shared::{MAX_EDITS, MAX_STAGES};
use crate::error::CudaError;

/// The most entries of logprobs beside the drawn token: half the list that a draw has in shared memory
/// (`LIST_CAPACITY` in `kernels/limits.cuh`), so that the tokens down to the last wanted one fit it on nearly
/// every row.
pub(crate) const MAX_LOGPROBS: i64 = 1024;
/// The longest window of penalties. The window's tokens are kept on the device: 4 MiB for each sequence.
const LONGEST_WINDOW: u32 = 1 << 20;

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
    /// Checks the parameters and fills the record from their plan.
    pub(crate) fn new(params: &SamplingParams) -> Result<Self, CudaError> {
        let _mode = Standard::enter();
        let plan = Plan::new(params)?;
        refuse(params)?;
        let plain = plan.segments(false)?;
        let mut chain = Chain::new(plan.is_greedy());
        for (i, segment) in plain.iter().enumerate() {
            chain.push(segment, i == 0)?;
        }
        let (masks, edits) = match plan.segments(true) {
            Err(_) => (Masks::Unnamed, &plain[0].edits),
            // The stage that applies a mask begins a segment of its own.
            Ok(masked) if masked.len() > plain.len() => (Masks::TooLate, &plain[0].edits),
            Ok(masked) => (Masks::Taken, &masked[0].edits),
        };
        let sequence = chain.sequence(params, edits)?;
        Ok(Self { plan, sequence, masks })
    }

    /// The edits of the record, in their order: those of rows that come with a mask, if any may.
    pub(crate) fn edits(&self) -> impl Iterator<Item = &Edit> + Clone {
        let segments = self.plan.segments(self.masks == Masks::Taken).unwrap_or_default();
        segments.first().into_iter().flat_map(|segment| on_device(&segment.edits))
    }
}

/// The edits without that of banned tokens: nothing is taken back on a device.
fn on_device(edits: &[Edit]) -> impl Iterator<Item = &Edit> + Clone {
    edits.iter().filter(|edit| !matches!(edit, Edit::Bans))
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
        Some(count) if count < 0 => "logprobs of all tokens (-1)".to_owned(),
        Some(count) if count > MAX_LOGPROBS => format!("more than {MAX_LOGPROBS} logprobs"),
        _ if params.prompt_logprobs.is_some() => "prompt_logprobs".to_owned(),
        _ if params.kept != KeptMode::None => format!("kept: {}", params.kept.name()),
        // They take text back, which the device cannot.
        _ if !params.banned_strings.is_empty() => "banned_strings".to_owned(),
        _ if params.penalty_window > LONGEST_WINDOW => format!("a penalty_window above {LONGEST_WINDOW}"),
        _ => return Ok(()),
    };
    Err(CudaError::unsupported(refused))
}

/// The operations of a chain, as the kernels read them.
struct Chain {
    is_greedy: bool,
    /// The temperature in force after the operations so far.
    temperature: Temperature,
    stages: Vec<Stage>,
}

impl Chain {
    fn new(is_greedy: bool) -> Self {
        Self { is_greedy, temperature: Temperature::ONE, stages: Vec::new() }
    }

    /// Adds a segment of the plan. The device has edits in the first segment only.
    fn push(&mut self, segment: &Segment, is_first: bool) -> Result<(), CudaError> {
        for edit in on_device(&segment.edits) {
            edit_kind(edit)?;
            if !is_first {
                let what = format!("{} after a temperature or a truncation", edit.stage().name());
                return Err(CudaError::unsupported(what));
            }
        }
        segment.operations.iter().try_for_each(|operation| self.operate(operation))
    }

    fn operate(&mut self, operation: &Operation) -> Result<(), CudaError> {
        match operation {
            Operation::Heat(Heat::Fixed(temperature)) => {
                self.temperature = self.temperature.then(*temperature);
                Ok(())
            }
            Operation::Heat(_) => Err(CudaError::unsupported("dynatemp_range")),
            Operation::Truncate(stage, truncation) => {
                let stage = truncation_stage(truncation, self.temperature)
                    .ok_or_else(|| CudaError::unsupported(stage.name()))?;
                if self.stages.len() == MAX_STAGES {
                    let what = format!("a chain of more than {MAX_STAGES} truncations");
                    return Err(CudaError::unsupported(what));
                }
                self.stages.push(stage);
                Ok(())
            }
            other => Err(CudaError::unsupported(other.stage().name())),
        }
    }

    /// The record.
    fn sequence(&self, params: &SamplingParams, edits: &[Edit]) -> Result<Sequence, CudaError> {
        let mut sequence: Sequence = bytemuck::Zeroable::zeroed();
        sequence.seed = params.seed.unwrap_or_default();
        sequence.position = params.output_token_ids.len() as u32;
        sequence.prompt = params.prompt_token_ids.len() as u32;
        sequence.is_greedy = self.is_greedy.into();
        sequence.inverse = self.temperature.inverse;
        sequence.scale = self.temperature.softmax(0.0).scale;
        sequence.stages = self.stages.len() as u32;
        sequence.stage[..self.stages.len()].copy_from_slice(&self.stages);
        let is_plain = self.is_plain() && !params.tells_probability();
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
        for edit in on_device(edits) {
            let place = sequence.edits as usize;
            if place == MAX_EDITS {
                return Err(CudaError::unsupported(format!("a chain of more than {MAX_EDITS} edits")));
            }
            sequence.edit[place] = edit_kind(edit)? as u32;
            sequence.edits += 1;
            sequence.describe(edit, params);
        }
        // `refuse` has refused negative and large counts.
        sequence.logprobs = params.logprobs.map_or(0, |count| count as u32 + 1);
        sequence.logprobs_mode = logprobs_mode(params.logprobs_mode);
        sequence.tells_probability = params.tells_probability().into();
        Ok(sequence)
    }

    /// Whether the chain has only min-p, top-k and top-p, each once at most.
    fn is_plain(&self) -> bool {
        let kinds = [StageKind::MinP, StageKind::TopK, StageKind::TopP].map(|kind| kind as u32);
        let is_once =
            |stage: &Stage| self.stages.iter().filter(|other| other.kind == stage.kind).count() == 1;
        self.stages.iter().all(|stage| kinds.contains(&stage.kind) && is_once(stage))
    }
}

impl Sequence {
    /// The numbers of an edit.
    fn describe(&mut self, edit: &Edit, params: &SamplingParams) {
        match edit {
            Edit::Penalties(penalties) => {
                self.repetition = penalties.repetition();
                self.frequency = penalties.frequency();
                self.presence = penalties.presence();
                self.counts_prompt = (penalties.scope() == PenaltyScope::All).into();
                self.window = params.penalty_window;
            }
            Edit::MinTokens(min_tokens) => {
                self.min_tokens = min_tokens.least() as u32;
                self.ends = min_tokens.ends().len() as u32;
            }
            Edit::LogitBias(bias) => self.biases = bias.biases().len() as u32,
            Edit::BadWords(bad_words) => self.words = bad_words.words().len() as u32,
            _ => {}
        }
    }
}

/// The kernels' number of an edit.
fn edit_kind(edit: &Edit) -> Result<EditKind, CudaError> {
    match edit {
        Edit::Allowed(_) => Ok(EditKind::Allowed),
        Edit::BadWords(_) => Ok(EditKind::BadWords),
        Edit::MinTokens(_) => Ok(EditKind::MinTokens),
        Edit::LogitBias(_) => Ok(EditKind::LogitBias),
        Edit::Penalties(_) => Ok(EditKind::Penalties),
        other => Err(CudaError::unsupported(other.stage().name())),
    }
}

/// A truncation at the temperature in force, as the kernels read it; `None` if they do not know it.
fn truncation_stage(truncation: &Truncation, temperature: Temperature) -> Option<Stage> {
    let of = |kind: StageKind| Stage {
        kind: kind as u32,
        inverse: temperature.inverse,
        scale: temperature.softmax(0.0).scale,
        ..Stage::default()
    };
    let share = |kind, share: Share| Stage { share: share.numerator(), ..of(kind) };
    let number = |kind, number: f64| Stage { number, ..of(kind) };
    let prefix = match truncation {
        Truncation::Prefix(prefix) => prefix,
        Truncation::Typical(typical) => return Some(share(StageKind::Typical, typical.share())),
        _ => return None,
    };
    Some(match prefix {
        Prefix::MinP(min_p) => number(StageKind::MinP, min_p.threshold(temperature)),
        Prefix::TopK(top_k) => Stage { k: top_k.k(), ..of(StageKind::TopK) },
        Prefix::TopP(top_p) => share(StageKind::TopP, top_p.share()),
        Prefix::TopNSigma(sigma) => number(StageKind::TopNSigma, sigma.n()),
        Prefix::Cutoff(Cutoff::Epsilon(bar)) => number(StageKind::Epsilon, *bar),
        Prefix::Cutoff(Cutoff::Eta(bar)) => number(StageKind::Eta, *bar),
        Prefix::Cutoff(Cutoff::TopA(bar)) => number(StageKind::TopA, *bar),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
