//! A sequence's record as the kernels read it, filled from its [`Plan`].

use std::ops::Range;

use onedraw::bend::Bend;
use onedraw::float_mode::Standard;
use onedraw::plan::{Operation, Segment, keep_a_prefix};
use onedraw::query::Place;
use onedraw::stages::edit::Edit;
use onedraw::stages::temperature::Heat;
use onedraw::stages::truncate::cutoff::Cutoff;
use onedraw::stages::truncate::share::Share;
use onedraw::stages::truncate::{Prefix, Truncation};
use onedraw::temperature::Temperature;
use onedraw::{KeptMode, PenaltyScope, Plan, SamplingParams};

use super::layout::{EditKind, GaugeKind, Sequence, Stage, StageKind, kept_mode, logprobs_mode};
use super::shared::{MAX_STAGES, NEAR_EDITS};
use crate::error::CudaError;

/// Whether rows of a sequence may come with a grammar's mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Masks {
    /// They may, and it is applied before every operation.
    Early,
    /// They may, and it is applied in a later segment.
    Late,
    /// They may not: the order does not name the stage that applies it.
    Unnamed,
}

/// What the device holds of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    Whole,
    Split,
}

/// Checked parameters. The record still lacks its addresses, its seed and the number of the sequence.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub plan: Plan,
    pub sequence: Sequence,
    /// The kinds of the edits of all segments, one segment after the other.
    pub kinds: Vec<u8>,
    /// The operations, of rows without a mask and with one. Empty for plain chains.
    pub chains: [Vec<Stage>; 2],
    pub masks: Masks,
    /// Whether an edit reads the text: a window, bad words of several tokens, DRY or n-grams.
    pub reads_text: bool,
    /// Tokens that must not be drawn next, where text was taken back before the sequence came here.
    pub banned: Vec<u32>,
}

/// Checks whether the device can draw for these parameters. The error names the stage or the parameter that
/// it cannot.
///
/// ```
/// use onedraw::custom::{Custom, Keep, View};
/// use onedraw::{KeptMode, Order, SamplingParams, Stage};
///
/// let params = SamplingParams::builder().xtc_probability(0.5).kept(KeptMode::Ids).build()?;
/// onedraw_cuda::check(&params)?;
/// let own = Custom::truncation("own", |_: &View<'_>| Ok(Keep::AllBut(Vec::new())))?;
/// let params = SamplingParams::builder().order(Order::of([Stage::Custom(own)])).build()?;
/// let error = onedraw_cuda::check(&params).unwrap_err();
/// assert!(error.to_string().starts_with("own is a stage of your own, which a device cannot run"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check(params: &SamplingParams) -> Result<(), CudaError> {
    Record::new(params).map(|_| ())
}

impl Record {
    /// Checks the parameters and fills the record from their plan.
    pub(crate) fn new(params: &SamplingParams) -> Result<Self, CudaError> {
        Self::of(params, Rows::Whole)
    }

    /// The same for rows of which the device holds a part. Whoever draws from all parts carries out the
    /// operations and reports, so what only these need is not refused.
    pub(crate) fn of_part(params: &SamplingParams) -> Result<Self, CudaError> {
        let (logprobs, prompt_logprobs, kept) = (None, None, KeptMode::None);
        Self::of(&SamplingParams { logprobs, prompt_logprobs, kept, ..params.clone() }, Rows::Split)
    }

    fn of(params: &SamplingParams, rows: Rows) -> Result<Self, CudaError> {
        let _mode = Standard::enter();
        let plan = Plan::new(params)?;
        let plain = plan.segments(false)?;
        let masked = plan.segments(true).ok();
        let is_late = |segments: &[Segment]| !segments[0].edits.iter().any(is_allowed);
        let masks = match masked {
            None => Masks::Unnamed,
            Some(masked) if is_late(masked) => Masks::Late,
            Some(_) => Masks::Early,
        };
        let mut edits = Edits::default();
        let mut chain = |segments| Chain::new(rows, plan.is_greedy(), segments, &mut edits);
        let (first, second) = match masked {
            None => (chain(plain)?, None),
            // Rows without a mask have the same chain: the stage does nothing then.
            Some(masked) if masks == Masks::Early && masked.len() == plain.len() => (chain(masked)?, None),
            // The edits of the first segment are those of rows with a mask.
            Some(masked) if masks == Masks::Early => {
                let second = chain(masked)?;
                (chain(plain)?, Some(second))
            }
            Some(masked) => (chain(plain)?, Some(chain(masked)?)),
        };
        let has_two = second.is_some();
        let second = second.unwrap_or_else(|| first.clone());
        let mut sequence = first.sequence(params, &edits)?;
        (sequence.late_inverse, sequence.late_scale) = (second.temperature.inverse, second.scale());
        let is_prefix = |segments: Option<&[Segment]>| u32::from(segments.is_some_and(keep_a_prefix));
        sequence.prefixes = is_prefix(Some(plain)) | is_prefix(masked) << 1;
        let has_desk = first.has_segments || second.has_segments;
        let chains = [first.stages, second.stages];
        let (kinds, reads_text, banned) = (edits.kinds, false, Vec::new());
        let mut record = Self { plan, sequence, kinds, chains, masks, reads_text, banned };
        record.sequence.needs_desk = has_desk.into();
        if has_two {
            // A row with a mask has another chain, so the record has none of its own.
            (record.sequence.is_plain, record.sequence.sum_scale) = (0, 0.0);
        }
        for edit in record.clone().edits() {
            record.sequence.describe(edit, params);
        }
        let has_words = record.edits().any(|edit| match edit {
            Edit::BadWords(bad_words) => bad_words.words().iter().any(|(beginning, _)| !beginning.is_empty()),
            _ => false,
        });
        record.reads_text = record.sequence.window > 0 || has_words || record.sequence.has_repeats();
        Ok(record)
    }

    /// The edits of all segments, as rows have them that come with a mask, if any may.
    pub(crate) fn edits(&self) -> impl Iterator<Item = &Edit> + Clone {
        let segments = self.plan.segments(self.masks != Masks::Unnamed).unwrap_or_default();
        segments.iter().flat_map(|segment| &segment.edits)
    }

    /// Whether an edit of this kind is in the chain.
    pub(crate) fn has(&self, kind: EditKind) -> bool {
        self.kinds.contains(&(kind as u8))
    }

    /// Where `kinds` has the edits of a segment of rows that come with a mask, or without one; `None` if there is no
    /// such segment.
    pub(crate) fn segment(&self, has_mask: bool, segment: usize) -> Option<Range<usize>> {
        let Some(later) = segment.checked_sub(1) else { return Some(0..self.sequence.edits as usize) };
        let chain = self.chains[usize::from(has_mask)].iter();
        let narrow = chain.filter(|stage| stage.kind == StageKind::Narrow as u32).nth(later)?;
        Some(narrow.k as usize..narrow.share as usize)
    }

    /// Whether the operation at a place of that chain is XTC, which spares protected tokens.
    pub(crate) fn is_xtc(&self, has_mask: bool, place: Place) -> bool {
        let segments = self.plan.segments(has_mask).unwrap_or_default();
        let segment = segments.get(place.segment as usize);
        let operation = segment.and_then(|segment| segment.operations.get(place.operation as usize));
        matches!(operation, Some(Operation::Truncate(_, Truncation::Xtc(_))))
    }

    /// Whether the list of allowed ids is applied in a later segment.
    pub(crate) fn allows_late(&self) -> bool {
        let segments = self.plan.segments(false).unwrap_or_default();
        segments.iter().skip(1).flat_map(|segment| &segment.edits).any(is_allowed)
            && !segments[0].edits.iter().any(is_allowed)
    }
}

fn is_allowed(edit: &Edit) -> bool {
    matches!(edit, Edit::Allowed(_))
}

/// The kinds of the edits of all segments, one segment after the other.
#[derive(Clone, Debug, Default)]
struct Edits {
    kinds: Vec<u8>,
    /// How many belong to the first segment.
    first: Option<usize>,
}

impl Edits {
    /// Adds those of a segment; returns where they begin.
    fn add(&mut self, segment: &Segment) -> Result<usize, CudaError> {
        let start = self.kinds.len();
        for edit in &segment.edits {
            self.kinds.push(edit_kind(edit)? as u8);
        }
        Ok(start)
    }
}

/// The stage of an edit, by its number among kinds; `None` if there is none.
pub(crate) fn stage_of_edit(number: u32) -> Option<onedraw::Stage> {
    let kinds = [
        // Banned words of a kind.
        (EditKind::Bans, onedraw::Stage::BadWords),
        (EditKind::BadWords, onedraw::Stage::BadWords),
        (EditKind::MinTokens, onedraw::Stage::MinTokens),
        (EditKind::LogitBias, onedraw::Stage::LogitBias),
        (EditKind::Penalties, onedraw::Stage::Penalties),
        (EditKind::Allowed, onedraw::Stage::Allowed),
        (EditKind::Dry, onedraw::Stage::Dry),
        (EditKind::NoRepeat, onedraw::Stage::NoRepeatNgram),
    ];
    kinds.into_iter().find(|(kind, _)| *kind as u32 == number).map(|(_, stage)| stage)
}

/// The operations of a chain, as the kernels read them.
#[derive(Clone, Debug)]
struct Chain {
    rows: Rows,
    is_greedy: bool,
    /// The temperature in force after the operations so far.
    temperature: Temperature,
    stages: Vec<Stage>,
    /// The curve of smoothing in the first segment.
    bend: Option<Bend>,
    /// Whether the entropy sets the temperature.
    is_dynamic: bool,
    has_segments: bool,
}

impl Chain {
    /// The operations of the segments. Their edits are added to `edits`.
    fn new(rows: Rows, is_greedy: bool, segments: &[Segment], edits: &mut Edits) -> Result<Self, CudaError> {
        let mut chain = Self {
            rows,
            is_greedy,
            temperature: Temperature::ONE,
            stages: Vec::new(),
            bend: None,
            is_dynamic: false,
            has_segments: segments.len() > 1,
        };
        for (i, segment) in segments.iter().enumerate() {
            // The edits of the first segment are those of both chains.
            let is_known = i == 0 && edits.first.is_some();
            let start = if is_known { 0 } else { edits.add(segment)? };
            match i {
                0 => _ = edits.first.get_or_insert(edits.kinds.len()),
                _ => chain.narrow(start, edits.kinds.len()),
            }
            for operation in &segment.operations {
                chain.operate(operation, i == 0)?;
            }
        }
        Ok(chain)
    }

    /// Begins a segment with these edits.
    fn narrow(&mut self, start: usize, end: usize) {
        let (kind, inverse) = (StageKind::Narrow as u32, self.temperature.inverse);
        self.stages.push(Stage { kind, k: start as u32, share: end as u64, inverse, ..Stage::default() });
        self.temperature = Temperature::ONE;
    }

    fn operate(&mut self, operation: &Operation, is_first: bool) -> Result<(), CudaError> {
        let stage = match operation {
            Operation::Heat(Heat::Fixed(temperature)) => {
                self.temperature = self.temperature.then(*temperature);
                return Ok(());
            }
            Operation::Heat(Heat::Dynamic { low, high, exponent }) => {
                self.is_dynamic = true;
                let kind = StageKind::Heat as u32;
                Stage { kind, number: *low, share: high.to_bits(), inverse: *exponent, ..Stage::default() }
            }
            // It is the first operation of its segment.
            Operation::Smooth(bend) if is_first => {
                self.bend = Some(*bend);
                return Ok(());
            }
            Operation::Smooth(Bend { factor, quadratic, cubic }) => {
                let (kind, share) = (StageKind::Smooth as u32, quadratic.to_bits());
                Stage { kind, number: *factor, share, inverse: *cubic, ..Stage::default() }
            }
            Operation::Truncate(stage, truncation) => truncation_stage(truncation, self.temperature)
                .ok_or_else(|| CudaError::unsupported(stage.name()))?,
            Operation::Custom(_) if self.rows == Rows::Split => return Ok(()),
            Operation::Custom(custom) => {
                return Err(CudaError::OwnStage { name: custom.name().to_owned() });
            }
            other => return Err(CudaError::unsupported(other.stage().name())),
        };
        self.stages.push(stage);
        Ok(())
    }

    /// The record.
    fn sequence(&self, params: &SamplingParams, edits: &Edits) -> Result<Sequence, CudaError> {
        let mut sequence: Sequence = bytemuck::Zeroable::zeroed();
        sequence.seed = params.seed.unwrap_or_default();
        sequence.position = params.output_token_ids.len() as u32;
        sequence.prompt = params.prompt_token_ids.len() as u32;
        sequence.length = sequence.prompt.saturating_add(sequence.position);
        sequence.is_greedy = self.is_greedy.into();
        sequence.inverse = self.temperature.inverse;
        sequence.scale = self.scale();
        if let Some(bend) = self.bend {
            sequence.is_bent = 1;
            (sequence.bend_factor, sequence.bend_quadratic, sequence.bend_cubic) =
                (bend.factor, bend.quadratic, bend.cubic);
        }
        sequence.is_dynamic = self.is_dynamic.into();
        if self.stages.iter().any(|stage| stage.kind == StageKind::Mirostat as u32) {
            sequence.mirostat = params.mirostat.into();
            (sequence.tau, sequence.eta) = (params.mirostat_tau, params.mirostat_eta);
            sequence.mu = params.mirostat_mu.unwrap_or(2.0 * params.mirostat_tau);
        }
        let is_told = params.tells_probability() || params.kept != KeptMode::None;
        sequence.is_plain = self.is_plain().into();
        if self.is_plain() {
            sequence.stage[..self.stages.len()].copy_from_slice(&self.stages);
        }
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
        let is_summed = !self.is_greedy && self.bend.is_none();
        sequence.sum_scale = nucleus.filter(|_| is_summed).map_or(0.0, |stage| stage.scale);
        (sequence.gauge, sequence.gauge_scale) = self.gauge();
        let near = edits.kinds.len().min(NEAR_EDITS);
        sequence.near_edits[..near].copy_from_slice(&edits.kinds[..near]);
        sequence.edits = edits.first.unwrap_or_default() as u32;
        sequence.logprobs = params.logprobs.map_or(0, entries);
        sequence.logprobs_mode = logprobs_mode(params.logprobs_mode);
        sequence.is_told = is_told.into();
        sequence.tells_probability = params.tells_probability().into();
        sequence.kept = kept_mode(params.kept);
        Ok(sequence)
    }

    /// log2(e) / T of what is left at last.
    fn scale(&self) -> f32 {
        self.temperature.softmax(0.0).scale
    }

    /// The sums over the whole row that the first operation needs, and the scale at which it does.
    fn gauge(&self) -> (u32, f32) {
        let Some(first) = self.stages.first() else { return (GaugeKind::None as u32, 0.0) };
        let is = |kinds: &[StageKind]| kinds.iter().any(|&kind| kind as u32 == first.kind);
        let kind = match first.k {
            _ if is(&[StageKind::Eta, StageKind::Typical, StageKind::Heat]) => GaugeKind::MassAndSurprises,
            _ if is(&[StageKind::Epsilon, StageKind::TopA, StageKind::Xtc]) => GaugeKind::Mass,
            2 if is(&[StageKind::Mirostat]) => GaugeKind::MassAndLowest,
            _ => GaugeKind::None,
        };
        (kind as u32, if is(&[StageKind::Heat]) { Temperature::ONE.softmax(0.0).scale } else { first.scale })
    }

    /// Whether the chain has only min-p, top-k and top-p, each once at most.
    fn is_plain(&self) -> bool {
        let kinds = [StageKind::MinP, StageKind::TopK, StageKind::TopP].map(|kind| kind as u32);
        let is_once =
            |stage: &Stage| self.stages.iter().filter(|other| other.kind == stage.kind).count() == 1;
        self.bend.is_none() && self.stages.iter().all(|stage| kinds.contains(&stage.kind) && is_once(stage))
    }
}

/// Entries of so many logprobs, the drawn token's among them; −1: of all tokens.
pub(crate) fn entries(count: i64) -> u32 {
    u32::try_from(count).map_or(u32::MAX, |count| count.saturating_add(1))
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
            Edit::Dry(_) => {
                (self.dry_multiplier, self.dry_base) = (params.dry_multiplier, params.dry_base);
                (self.dry_allowed, self.dry_window) = (params.dry_allowed_length, params.dry_penalty_last_n);
                self.breaker_count = params.dry_sequence_breakers.len() as u32;
            }
            Edit::NoRepeatNgram(_) => self.ngram = params.no_repeat_ngram_size,
            _ => {}
        }
    }
}

/// The kernels' number of an edit.
fn edit_kind(edit: &Edit) -> Result<EditKind, CudaError> {
    match edit {
        Edit::Bans => Ok(EditKind::Bans),
        Edit::Allowed(_) => Ok(EditKind::Allowed),
        Edit::BadWords(_) => Ok(EditKind::BadWords),
        Edit::MinTokens(_) => Ok(EditKind::MinTokens),
        Edit::LogitBias(_) => Ok(EditKind::LogitBias),
        Edit::Penalties(_) => Ok(EditKind::Penalties),
        Edit::Dry(_) => Ok(EditKind::Dry),
        Edit::NoRepeatNgram(_) => Ok(EditKind::NoRepeat),
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
        Truncation::Xtc(xtc) => {
            let (probability, k) = (xtc.probability().to_bits(), xtc.index());
            return Some(Stage { k, share: probability, ..number(StageKind::Xtc, xtc.threshold()) });
        }
        Truncation::Mirostat(mirostat) => {
            return Some(Stage { k: mirostat.version().into(), ..of(StageKind::Mirostat) });
        }
        _ => return None,
    };
    Some(match prefix {
        Prefix::MinP(min_p) => Stage {
            share: min_p.threshold(Temperature::ONE).to_bits(),
            ..number(StageKind::MinP, min_p.threshold(temperature))
        },
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
