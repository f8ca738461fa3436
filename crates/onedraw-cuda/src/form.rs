//! Which kernels a step needs.

use onedraw::KeptMode;

use crate::dtype::Dtype;
use crate::kernel::Kernel;
use crate::record::layout::{GaugeKind, Sequence, kept_mode};

/// Which kernels a step launches. A CUDA graph of one launch serves every later step of the same form over
/// the same matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Form {
    /// The rows of the step.
    pub rows: usize,
    /// Whether a sequence edits single tokens.
    pub has_edits: bool,
    /// Whether a row has a mask.
    pub has_masks: bool,
    /// Whether a sequence needs the masses of blocks, for top-p.
    pub has_sums: bool,
    /// Whether a sequence draws: none does where all are greedy.
    pub has_noise: bool,
    /// Whether a sequence has other stages than min-p, top-k and top-p.
    pub has_others: bool,
    /// Whether a sequence reports logprobs of unmodified rows.
    pub has_raw: bool,
    /// Whether a sequence reports of what is left of a row: logprobs, the drawn token's probability, or what is kept.
    pub has_processed: bool,
    /// Whether a chain has several segments.
    pub has_segments: bool,
    /// Whether a sequence has DRY or n-grams, which look for what a text repeats.
    pub has_repeats: bool,
    /// Whether a sequence has mirostat, which learns from each draw.
    pub has_mirostat: bool,
    /// Whether a chain begins with an operation that needs sums over the whole row.
    pub has_gauges: bool,
    /// Whether a sequence keeps the ids of what is left.
    pub has_ids: bool,
    /// Whether a sequence reports so many logprobs that whole rows are sorted.
    pub lists_all: bool,
    /// How often rows wait for others: with mirostat, a row after a guess needs to know what the row before it
    /// has learned. The draw is launched once more for each time.
    pub waits: usize,
    /// Whether the drawn tokens are appended to their sequences.
    pub appends: bool,
}

impl Form {
    /// Adds what a row of a sequence needs.
    pub(crate) fn add(&mut self, sequence: &Sequence, has_mask: bool) {
        self.has_raw |= sequence.is_raw();
        self.has_processed |= sequence.is_told != 0;
        self.has_masks |= has_mask || sequence.allowed != 0;
        self.has_sums |= sequence.sum_scale != 0.0;
        self.has_noise |= sequence.is_greedy == 0;
        self.has_others |= sequence.is_plain == 0;
        self.has_edits |= sequence.touched != 0;
        self.has_mirostat |= sequence.mirostat != 0;
        self.has_segments |= sequence.needs_desk != 0;
        self.has_repeats |= sequence.has_repeats();
        self.has_gauges |= sequence.gauge() != GaugeKind::None as u32;
        self.lists_all |= sequence.lists_all();
        self.has_ids |= sequence.kept == kept_mode(KeptMode::Ids);
    }

    /// Adds guesses that follow a row of a sequence, so many one after the other.
    pub(crate) fn add_guesses(&mut self, sequence: &Sequence, depth: usize) {
        if sequence.mirostat != 0 {
            self.waits = self.waits.max(depth);
        }
    }

    /// The kernel that draws such rows.
    pub(crate) fn draw(&self, dtype: Dtype) -> Kernel {
        let is_bare = !self.has_edits && !self.has_masks;
        match self.has_others || self.has_processed {
            true if is_bare && !self.has_segments => Kernel::DrawStaged(dtype),
            true => Kernel::Draw(dtype),
            false if is_bare => Kernel::DrawBare(dtype),
            false => Kernel::DrawEdited(dtype),
        }
    }

    /// Whether a sequence reports anything beside its token.
    pub(crate) fn has_reports(&self) -> bool {
        self.has_raw || self.has_processed || self.has_mirostat
    }
}
