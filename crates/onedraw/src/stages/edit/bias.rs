//! Logit bias: a number added to single logits.

use crate::logits::edited::EditedRow;
use crate::params::SamplingParams;

/// Checked `logit_bias`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogitBias {
    biases: Vec<(u32, f32)>,
}

impl LogitBias {
    pub(crate) fn new(params: &SamplingParams) -> Option<Self> {
        let biases: Vec<_> = params.logit_bias.iter().map(|(&id, &bias)| (id, bias as f32)).collect();
        (!biases.is_empty()).then_some(Self { biases })
    }

    /// Ids, ascending, with the numbers that are added to their logits.
    pub fn biases(&self) -> &[(u32, f32)] {
        &self.biases
    }

    pub(crate) fn apply(&self, row: &mut EditedRow<'_>) {
        for &(id, bias) in &self.biases {
            row.edit(id, |x| x + bias);
        }
    }
}
