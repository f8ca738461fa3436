//! What the host and the kernels say to each other, laid out as `kernels/record.cuh` has it. Addresses are device memory.

pub(crate) mod chain;
pub(crate) mod tables;

use bytemuck::{Pod, Zeroable};
use onedraw::LogprobsMode;

/// The most truncations of a chain.
pub(crate) const STAGES: usize = 8;
/// The most edits of a chain.
pub(crate) const EDITS: usize = 12;
/// Tokens that an edit may change, as many as a sequence lists.
pub(crate) const TABULATED: usize = 1536;

/// A truncation's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum StageKind {
    MinP = 1,
    TopK = 2,
    TopP = 3,
    Typical = 4,
    Epsilon = 5,
    Eta = 6,
    TopA = 7,
    TopNSigma = 8,
}

/// An edit's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum EditKind {
    BadWords = 1,
    MinTokens = 2,
    LogitBias = 3,
    Penalties = 4,
    Allowed = 5,
}

/// A truncation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Stage {
    pub kind: u32,
    pub k: u32,
    pub number: f64,
    pub share: u64,
    pub inverse: f64,
    pub scale: f32,
    pub reserved: u32,
}

/// A sequence: its parameters, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Sequence {
    pub allowed: u64,
    pub touched: u64,
    pub list: u64,
    pub listed: u32,
    pub reserved: u32,
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
    pub stages: u32,
    pub is_plain: u32,
    pub minimum: u32,
    pub nucleus: u32,
    pub k_before: u32,
    pub k: u32,
    pub stage: [Stage; STAGES],
    pub edits: u32,
    pub edit: [u32; EDITS],
    pub repetition: f32,
    pub frequency: f32,
    pub presence: f32,
    pub counts_prompt: u32,
    pub window: u32,
    pub prompt: u32,
    pub ring: u32,
    pub min_tokens: u32,
    pub ends: u32,
    pub biases: u32,
    pub words: u32,
    pub counts: u64,
    pub history: u64,
    pub end_ids: u64,
    pub bias_ids: u64,
    pub bias_values: u64,
    pub bad_words: u64,
}

/// A row of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Task {
    pub mask: u64,
    pub path: u64,
    pub slot: u32,
    pub depth: u32,
    pub touched: u64,
    pub allowed: u64,
    pub list: u64,
    pub sum_scale: f32,
    pub is_raw: u32,
}

impl Sequence {
    /// Whether it reports logprobs of rows as they came.
    pub(crate) fn is_raw(&self) -> bool {
        let mode = LogprobsMode::ALL.get(self.logprobs_mode as usize);
        self.logprobs > 0 && mode.is_some_and(|mode| mode.is_raw())
    }
}

impl Task {
    /// A row of a sequence, without a mask and right after its text.
    pub(crate) fn of(slot: u32, sequence: &Sequence) -> Self {
        let Sequence { touched, allowed, list, sum_scale, .. } = *sequence;
        Self { slot, touched, allowed, list, sum_scale, is_raw: sequence.is_raw().into(), ..Self::default() }
    }
}

/// How a row's draw ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Outcome {
    pub token: u32,
    pub status: u32,
}

impl Outcome {
    pub(crate) const DRAWN: u32 = 0;
    pub(crate) const NAN_LOGIT: u32 = 1;
    pub(crate) const INFINITE_LOGIT: u32 = 2;
    pub(crate) const NOTHING_LEFT: u32 = 3;
}

/// What is said of a drawn token beside its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Report {
    pub drawn: u64,
    pub last: u64,
    pub mass: u64,
    pub inverse: f64,
    pub probability: f64,
    pub above: f32,
    pub lowest: f32,
    pub x_max: f32,
    pub scale: f32,
    pub rank: u32,
    pub listed: u32,
    pub arrived: u32,
    pub reserved: u32,
}

/// A reported token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Entry {
    pub token: u32,
    pub rank: u32,
    pub value: f64,
}

/// A draft that is judged by laws.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Trial {
    pub tokens: u64,
    pub parents: u64,
    pub drawn: u64,
    pub shares: u64,
    pub slot: u32,
    pub first: u32,
    pub nodes: u32,
    pub is_block: u32,
    pub length: u32,
    pub reserved: u32,
}

/// The one argument of all kernels of a step.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Step {
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
    pub dice: u32,
    pub is_summed: u32,
    pub peaks: u64,
    pub sums: u64,
    pub references: u64,
    pub lucks: u64,
    pub raw_tops: u64,
    pub summits: u64,
    pub raw_summits: u64,
    pub weights: u64,
    pub bad: u64,
    pub results: u64,
    pub reports: u64,
    pub entries: u64,
    pub laws: u64,
    pub trials: u64,
    pub is_chosen: u32,
    pub parts: u32,
    pub edited: u64,
    pub editors: u32,
    pub reserved: u32,
}

// As kernels/record.cuh has them; the derives above refuse hidden padding.
const _: () = {
    assert!(size_of::<Stage>() == 40);
    assert!(size_of::<Sequence>() == 568);
    assert!(size_of::<Task>() == 56);
    assert!(size_of::<Outcome>() == 8);
    assert!(size_of::<Report>() == 72);
    assert!(size_of::<Entry>() == 16);
    assert!(size_of::<Trial>() == 56);
    assert!(size_of::<Step>() == 200);
};
