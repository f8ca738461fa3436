//! Which kernels a step needs.

use crate::dtype::Dtype;
use crate::kernel::Kernel;
use crate::record::layout::Sequence;

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
    /// Whether a sequence reports of what is left of a row: logprobs, or the drawn token's probability.
    pub has_processed: bool,
    /// Whether the drawn tokens are appended to their sequences.
    pub appends: bool,
}

impl Form {
    /// Adds what a row of a sequence needs.
    pub(crate) fn add(&mut self, sequence: &Sequence, has_mask: bool) {
        self.has_raw |= sequence.is_raw();
        self.has_processed |= sequence.tells_probability != 0;
        self.has_masks |= has_mask || sequence.allowed != 0;
        self.has_sums |= sequence.sum_scale != 0.0;
        self.has_noise |= sequence.is_greedy == 0;
        self.has_others |= sequence.is_plain == 0;
        self.has_edits |= sequence.touched != 0;
    }

    /// The kernel that draws such rows.
    pub(crate) fn draw(&self, dtype: Dtype) -> Kernel {
        if self.has_others || self.has_processed {
            Kernel::Draw(dtype)
        } else if self.has_edits || self.has_masks {
            Kernel::DrawEdited(dtype)
        } else {
            Kernel::DrawBare(dtype)
        }
    }

    /// Whether a sequence reports anything beside its token.
    pub(crate) fn has_reports(&self) -> bool {
        self.has_raw || self.has_processed
    }
}
