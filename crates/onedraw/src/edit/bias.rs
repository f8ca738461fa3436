//! Logit bias: a number added to single logits.

use crate::edited::Edited;
use crate::params::SamplingParams;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LogitBias {
    biases: Vec<(u32, f32)>,
}

impl LogitBias {
    pub(crate) fn new(params: &SamplingParams) -> Option<Self> {
        let biases: Vec<_> = params.logit_bias.iter().map(|(&id, &bias)| (id, bias as f32)).collect();
        (!biases.is_empty()).then_some(Self { biases })
    }

    pub(crate) fn apply(&self, row: &mut Edited<'_>) {
        for &(id, bias) in &self.biases {
            row.edit(id, |x| x + bias);
        }
    }
}
