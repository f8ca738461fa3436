//! Minimum length: EOS and stop ids are masked until enough tokens are written.

use crate::logits::edited::EditedRow;
use crate::params::SamplingParams;
use crate::stages::edit::context::Context;

/// Checked `min_tokens`, with what would end the text.
#[derive(Clone, Debug, PartialEq)]
pub struct MinTokens {
    least: usize,
    /// EOS and stop ids.
    ends: Vec<u32>,
}

impl MinTokens {
    pub(crate) fn new(params: &SamplingParams) -> Option<Self> {
        let ends: Vec<u32> = params.eos_token_id.iter().chain(&params.stop_token_ids).copied().collect();
        (params.min_tokens > 0 && !ends.is_empty())
            .then_some(Self { least: params.min_tokens as usize, ends })
    }

    /// How many tokens must be written first.
    pub fn least(&self) -> usize {
        self.least
    }

    /// EOS, then the stop ids.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    pub(crate) fn apply(&self, row: &mut EditedRow<'_>, context: &Context<'_>) {
        if context.history.output().len() < self.least {
            self.ends.iter().for_each(|&id| row.mask(id));
        }
    }
}
