//! The structs that the host fills and the kernels read, and those that come back, as `kernels/record/record.cuh`
//! has them: what each field means is said there. Addresses are device memory.
//!
//! Offsets and sizes are asserted against `kernels/record/shared.def`, on both sides. The derives refuse hidden
//! padding.

use bytemuck::{Pod, Zeroable};
use onedraw::noise::BLOCK;
use onedraw::{KeptMode, LogprobsMode};

use super::shared::{BLOCKS_PER_VECTOR, MAX_LISTED, MAX_STAGES, NEAR_EDITS, count, shared_struct, value};

/// An operation's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum StageKind {
    MinP = value("STAGE_KIND(MIN_P"),
    TopK = value("STAGE_KIND(TOP_K"),
    TopP = value("STAGE_KIND(TOP_P"),
    Typical = value("STAGE_KIND(TYPICAL"),
    Epsilon = value("STAGE_KIND(EPSILON"),
    Eta = value("STAGE_KIND(ETA"),
    TopA = value("STAGE_KIND(TOP_A"),
    TopNSigma = value("STAGE_KIND(TOP_N_SIGMA"),
    Xtc = value("STAGE_KIND(XTC"),
    Mirostat = value("STAGE_KIND(MIROSTAT"),
    Heat = value("STAGE_KIND(HEAT"),
    Narrow = value("STAGE_KIND(NARROW"),
    Smooth = value("STAGE_KIND(SMOOTH"),
}

/// An edit's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum EditKind {
    BadWords = value("EDIT_KIND(BAD_WORDS"),
    MinTokens = value("EDIT_KIND(MIN_TOKENS"),
    LogitBias = value("EDIT_KIND(LOGIT_BIAS"),
    Penalties = value("EDIT_KIND(PENALTIES"),
    Allowed = value("EDIT_KIND(ALLOWED"),
    Dry = value("EDIT_KIND(DRY"),
    NoRepeat = value("EDIT_KIND(NO_REPEAT"),
    Bans = value("EDIT_KIND(BANS"),
}

/// What is summed of a whole row before it is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum GaugeKind {
    None = value("GAUGE_KIND(NO_GAUGE"),
    Mass = value("GAUGE_KIND(MASS"),
    MassAndSurprises = value("GAUGE_KIND(MASS_AND_SURPRISES"),
    MassAndLowest = value("GAUGE_KIND(MASS_AND_LOWEST"),
}

/// By which rule a draft is judged from the laws of its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Rule {
    Rejection = value("RULE(BY_REJECTION"),
    Block = value("RULE(AS_A_BLOCK"),
    Typical = value("RULE(IF_TYPICAL"),
}

shared_struct! { "Stage":
    /// An operation.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
    pub(crate) struct Stage {
        pub kind: u32,
        pub k: u32,
        pub number: f64,
        pub share: u64,
        pub inverse: f64,
        pub scale: f32,
        pub reserved: u32,
    }
}

shared_struct! { "Sequence":
    /// A sequence: its parameters, and where it stands.
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    pub(crate) struct Sequence {
        pub allowed: u64,
        pub touched: u64,
        pub edit_list: u64,
        pub edit_list_length: u32,
        pub is_told: u32,
        pub sum_scale: f32,
        pub logprobs: u32,
        pub logprobs_mode: u32,
        pub position: u32,
        pub seed: u64,
        pub sequence: u32,
        pub round: u32,
        pub inverse: f64,
        pub scale: f32,
        pub is_greedy: u32,
        pub is_plain: u32,
        pub min_p_place: u32,
        pub top_p_place: u32,
        pub k_before: u32,
        pub k: u32,
        pub is_dynamic: u32,
        pub stage: [Stage; MAX_STAGES],
        pub chains: [u64; 2],
        pub chain_lengths: [u32; 2],
        pub mu: f64,
        pub tau: f64,
        pub eta: f64,
        pub bend_factor: f64,
        pub bend_quadratic: f64,
        pub bend_cubic: f64,
        pub is_bent: u32,
        pub mirostat: u32,
        pub late_allowed: u64,
        pub protected_ids: u64,
        pub protected_count: u32,
        pub edits: u32,
        pub near_edits: [u8; NEAR_EDITS],
        pub repetition: f32,
        pub frequency: f32,
        pub presence: f32,
        pub counts_prompt: u32,
        pub window: u32,
        pub prompt: u32,
        pub room: u32,
        pub min_tokens: u32,
        pub ends: u32,
        pub biases: u32,
        pub words: u32,
        pub needs_desk: u32,
        pub dry_multiplier: f64,
        pub dry_base: f64,
        pub breakers: u64,
        pub breaker_count: u32,
        pub dry_allowed: u32,
        pub dry_window: u32,
        pub ngram: u32,
        pub mu_room: u32,
        pub late_scale: f32,
        pub late_inverse: f64,
        pub kept: u32,
        pub gauge: u32,
        pub gauge_scale: f32,
        pub tells_probability: u32,
        pub prefixes: u32,
        pub length: u32,
        pub counts: u64,
        pub history: u64,
        pub end_ids: u64,
        pub bias_ids: u64,
        pub bias_values: u64,
        pub bad_words: u64,
        pub bans: u64,
        pub mus: u64,
        pub ban_count: u32,
        pub ban_place: u32,
        pub far_edits: u64,
    }
}

shared_struct! { "Task":
    /// A row of a step.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
    pub(crate) struct Task {
        pub mask: u64,
        pub late_mask: u64,
        pub path: u64,
        pub slot: u32,
        pub depth: u32,
        pub repeats: u64,
        pub touched: u64,
        pub allowed: u64,
        pub edit_list: u64,
        pub sum_scale: f32,
        pub is_raw: u32,
        pub gauge_scale: f32,
        pub gauge: u32,
        pub first_child: u32,
        pub next_sibling: u32,
    }
}

impl Sequence {
    /// Whether it reports logprobs of unmodified rows.
    pub(crate) fn is_raw(&self) -> bool {
        let mode = LogprobsMode::ALL.into_iter().find(|&mode| logprobs_mode(mode) == self.logprobs_mode);
        self.logprobs > 0 && mode.is_some_and(|mode| mode.is_raw())
    }

    /// What is summed of its rows before they are drawn. Where tokens are edited, the largest logit is known only
    /// to the draw, which then sums by itself.
    pub(crate) fn gauge(&self) -> u32 {
        if self.touched == 0 { self.gauge } else { GaugeKind::None as u32 }
    }

    /// Whether it reports so many logprobs that whole rows are sorted.
    pub(crate) fn lists_all(&self) -> bool {
        self.logprobs as usize > MAX_LISTED + 1
    }

    /// Whether it must be known what the text repeats.
    pub(crate) fn has_repeats(&self) -> bool {
        self.dry_multiplier > 0.0 || self.ngram > 0
    }
}

impl Task {
    /// A row of a sequence, without a mask and right after its text.
    pub(crate) fn of(slot: u32, sequence: &Sequence) -> Self {
        let Sequence { touched, allowed, edit_list, sum_scale, gauge_scale, .. } = *sequence;
        let (is_raw, gauge) = (sequence.is_raw().into(), sequence.gauge());
        // The address follows once it is known which row it is.
        let repeats = sequence.has_repeats().into();
        let task = Self { slot, repeats, touched, allowed, edit_list, sum_scale, ..Self::default() };
        Self { is_raw, gauge_scale, gauge, ..task }
    }
}

shared_struct! { "Outcome":
    /// How a row's draw ended.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub(crate) struct Outcome {
        pub token: u32,
        pub status: u32,
    }
}

impl Outcome {
    pub(crate) const DRAWN: u32 = value("STATUS(DRAWN");
    pub(crate) const NAN_LOGIT: u32 = value("STATUS(NAN_LOGIT");
    pub(crate) const INFINITE_LOGIT: u32 = value("STATUS(INFINITE_LOGIT");
    pub(crate) const NOTHING_LEFT: u32 = value("STATUS(NOTHING_LEFT");
}

shared_struct! { "Report":
    /// What is said of a drawn token beside its entries.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
    pub(crate) struct Report {
        pub drawn: u64,
        pub last: u64,
        pub head: u64,
        pub kept_last: u64,
        pub mass: u64,
        pub raw_mass: u64,
        pub inverse: f64,
        pub probability: f64,
        pub mu: f64,
        pub above: f32,
        pub lowest: f32,
        pub x_max: f32,
        pub scale: f32,
        pub rank: u32,
        pub entry_count: u32,
        pub arrived: u32,
        pub bend_top: f32,
        pub is_on_desk: u32,
        pub kept_count: u32,
        pub raw_top: f32,
        pub reserved: u32,
    }
}

shared_struct! { "Gauge":
    /// The sums of a whole row.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
    pub(crate) struct Gauge {
        pub mass: u64,
        pub surprises: u64,
        pub tokens: u32,
        pub lowest: u32,
    }
}

shared_struct! { "Entry":
    /// A reported token.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
    pub(crate) struct Entry {
        pub token: u32,
        pub rank: u32,
        pub value: f64,
    }
}

shared_struct! { "Trial":
    /// A draft that is judged by laws.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
    pub(crate) struct Trial {
        pub tokens: u64,
        pub parents: u64,
        pub drawn: u64,
        pub shares: u64,
        pub threshold: f64,
        pub alpha: f64,
        pub slot: u32,
        pub first: u32,
        pub nodes: u32,
        pub rule: u32,
        pub length: u32,
        pub reserved: u32,
    }
}

shared_struct! { "Step":
    /// The one argument of all kernels of a step.
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    pub(crate) struct StepArguments {
        pub sequences: u64,
        pub tasks: u64,
        pub logits: u64,
        pub stride: i64,
        pub rows: u32,
        pub vocabulary: u32,
        pub pitch: u32,
        pub width: u32,
        pub advances: u32,
        pub group: u32,
        pub noise_makers: u32,
        pub is_summed: u32,
        pub peaks: u64,
        pub sums: u64,
        pub references: u64,
        pub gains: u64,
        pub raw_peaks: u64,
        pub summits: u64,
        pub raw_summits: u64,
        pub raw_masses: u64,
        pub bad_tokens: u64,
        pub results: u64,
        pub reports: u64,
        pub entries: u64,
        pub laws: u64,
        pub trials: u64,
        pub is_chosen: u32,
        pub weighs: u32,
        pub edited: u64,
        pub desks: u64,
        pub gauges: u64,
        pub kept_bits: u64,
        pub sorting: u64,
        pub editors: u32,
        pub level: u32,
    }
}

shared_struct! { "Turn":
    /// A request's part of a step.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub(crate) struct TurnRecord {
        pub text: u64,
        pub guesses: u64,
        pub slot: u32,
        pub place: u32,
        pub first: u32,
        pub rows: u32,
        pub needed: u32,
        pub takes_best: u32,
        pub is_new: u32,
        pub reserved: u32,
    }
}

shared_struct! { "Requests":
    /// The one argument of the kernels for requests.
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    pub(crate) struct RequestArguments {
        pub sequences: u64,
        pub turns: u64,
        pub results: u64,
        pub reports: u64,
        pub entries: u64,
        pub text_lengths: u64,
        pub read_lengths: u64,
        pub refused: u64,
        pub tokens: u64,
        pub counts: u64,
        pub rejected: u64,
        pub failures: u64,
        pub listed_tokens: u64,
        pub listed_logprobs: u64,
        pub ranks: u64,
        pub token_width: u32,
        pub best: u32,
        pub width: u32,
        pub vocabulary: u32,
        pub kept_bits: u64,
        pub set_bits: u64,
        pub set_ids: u64,
        pub set_counts: u64,
        pub kept_pitch: u32,
        pub set_width: u32,
    }
}

shared_struct! { "Revision":
    /// What a sequence is to be.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
    pub(crate) struct Revision {
        pub sequence: u64,
        pub history: u64,
        pub mus: u64,
        pub bans: u64,
        pub touched: u64,
        pub edit_list: u64,
        pub seed: u64,
        pub room: u32,
        pub mu_room: u32,
        pub round: u32,
        pub ban_count: u32,
        pub ban_place: u32,
        pub is_new: u32,
        pub is_shorter: u32,
        pub length: u32,
        pub is_moved: u32,
        pub position: u32,
    }
}

shared_struct! { "ReviseStep":
    /// The argument of the kernel that changes sequences.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
    pub(crate) struct ReviseArguments {
        pub list: u64,
        pub count: u32,
        pub vocabulary: u32,
    }
}

// Every kind of the list is a variant above.
const _: () = assert!(count("STAGE_KIND(") == 13 && count("EDIT_KIND(") == 8 && count("STATUS(") == 4);
const _: () = assert!(count("RULE(") == 3);
const _: () = assert!(count("LOGPROBS_MODE(") == LogprobsMode::ALL.len());
const _: () = assert!(count("KEPT_MODE(") == KeptMode::ALL.len() && count("GAUGE_KIND(") == 4);

/// A mode of kept sets as the kernels number it.
pub(crate) fn kept_mode(mode: KeptMode) -> u32 {
    match mode {
        KeptMode::None => const { value("KEPT_MODE(KEEP_NONE") },
        KeptMode::Summary => const { value("KEPT_MODE(KEEP_SUMMARY") },
        KeptMode::Ids => const { value("KEPT_MODE(KEEP_IDS") },
    }
}

/// A mode of logprobs as the kernels number it.
pub(crate) fn logprobs_mode(mode: LogprobsMode) -> u32 {
    match mode {
        LogprobsMode::RawLogprobs => const { value("LOGPROBS_MODE(RAW_LOGPROBS") },
        LogprobsMode::RawLogits => const { value("LOGPROBS_MODE(RAW_LOGITS") },
        LogprobsMode::ProcessedLogprobs => const { value("LOGPROBS_MODE(PROCESSED_LOGPROBS") },
        LogprobsMode::ProcessedLogits => const { value("LOGPROBS_MODE(PROCESSED_LOGITS") },
    }
}

/// Blocks of tokens of a row, rounded up to whole vectors: where the next row begins in arrays with one
/// number for each block.
pub(crate) fn pitch(vocabulary: usize) -> usize {
    vocabulary.div_ceil(BLOCK).next_multiple_of(BLOCKS_PER_VECTOR)
}
