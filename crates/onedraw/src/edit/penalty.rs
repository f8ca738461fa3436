//! Repetition, frequency and presence penalty, in this order, over the tokens of the window.
//!
//! Repetition counts prompt and output and works once a distinct token: it divides a positive logit and multiplies another.
//! Frequency and presence count the output, or the prompt too.

use crate::edit::Context;
use crate::edited::Edited;
use crate::math::saturated;
use crate::params::{PenaltyScope, SamplingParams};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Penalties {
    repetition: f32,
    frequency: f32,
    presence: f32,
    scope: PenaltyScope,
}

impl Penalties {
    pub(crate) fn new(params: &SamplingParams) -> Option<Self> {
        let penalties = Self {
            repetition: params.repetition_penalty as f32,
            frequency: params.frequency_penalty as f32,
            presence: params.presence_penalty as f32,
            scope: params.penalty_scope,
        };
        let is_neutral =
            penalties.repetition == 1.0 && penalties.frequency == 0.0 && penalties.presence == 0.0;
        (!is_neutral).then_some(penalties)
    }

    pub(crate) fn apply(&self, row: &mut Edited<'_>, context: &Context<'_>) {
        for seen in context.history.seen() {
            let count = match self.scope {
                PenaltyScope::Output => seen.in_output,
                PenaltyScope::All => seen.in_prompt + seen.in_output,
            };
            row.edit(seen.token, |x| self.of(x, count));
        }
    }

    /// The logit of a token of the window that frequency and presence saw `count` times.
    pub(crate) fn of(&self, x: f32, count: u32) -> f32 {
        let x = saturated(if x > 0.0 { x / self.repetition } else { x * self.repetition });
        if count == 0 {
            return x;
        }
        // A count is exact in f32 up to 2^24; the product may be infinite, which the difference then saturates.
        let x = saturated(x - self.frequency * count as f32);
        x - self.presence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_penalty_is_one_rounded_operation() {
        let penalties =
            Penalties { repetition: 2.0, frequency: 0.5, presence: 0.25, scope: PenaltyScope::Output };
        assert_eq!(penalties.of(4.0, 0), 2.0);
        assert_eq!(penalties.of(-4.0, 0), -8.0);
        assert_eq!(penalties.of(4.0, 3), 2.0 - 1.5 - 0.25);
        let strong = Penalties { repetition: 1e-30, frequency: 0.0, presence: 0.0, scope: PenaltyScope::All };
        assert_eq!(strong.of(1e20, 1), f32::MAX);
        let steep = Penalties { repetition: 1.0, frequency: 3e38, presence: 0.0, scope: PenaltyScope::All };
        assert_eq!(steep.of(1.0, 1000), -f32::MAX);
    }
}
