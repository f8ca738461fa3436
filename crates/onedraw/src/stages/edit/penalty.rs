//! Repetition, frequency and presence penalty, in this order, over the tokens of the window.
//!
//! Repetition counts prompt and output and works once for each distinct token: it divides a positive logit
//! and multiplies another. Frequency and presence count the output, or the prompt too.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16};

use crate::kernels::passes::vectorized;
use crate::logits::edited::EditedRow;
use crate::params::{PenaltyScope, SamplingParams};
use crate::stages::edit::context::Context;
use crate::state::history::Seen;

/// Checked penalties, of which at least one does something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Penalties {
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

    /// The repetition penalty; 1 does nothing.
    pub fn repetition(&self) -> f32 {
        self.repetition
    }

    /// The frequency penalty; 0 does nothing.
    pub fn frequency(&self) -> f32 {
        self.frequency
    }

    /// The presence penalty; 0 does nothing.
    pub fn presence(&self) -> f32 {
        self.presence
    }

    /// What frequency and presence penalty count.
    pub fn scope(&self) -> PenaltyScope {
        self.scope
    }

    pub(crate) fn apply(&self, row: &mut EditedRow<'_>, context: &Context<'_>) {
        vectorized!(row.passes, simd => for seen in context.history.seen().chunks(16) {
            let (mut logits, mut counts) = ([f32::NEG_INFINITY; 16], [0.0; 16]);
            for (i, seen) in seen.iter().enumerate() {
                logits[i] = row.logit(seen.token).unwrap_or(f32::NEG_INFINITY);
                // Exact up to 2^24.
                counts[i] = self.count(seen) as f32;
            }
            let penalised = self.of(f32x16::load_array(simd, logits), f32x16::load_array(simd, counts));
            for (i, seen) in seen.iter().enumerate() {
                row.replace(seen.token, logits[i], penalised[i]);
            }
        });
    }

    /// How often frequency and presence saw a token.
    #[inline(always)]
    fn count(&self, seen: &Seen) -> u32 {
        match self.scope {
            PenaltyScope::Output => seen.in_output,
            PenaltyScope::All => seen.in_prompt + seen.in_output,
        }
    }

    /// The logits of tokens of the window that frequency and presence saw so often.
    #[inline(always)]
    fn of<S: Simd>(&self, x: f32x16<S>, counts: f32x16<S>) -> f32x16<S> {
        let x = saturated(x.simd_gt(0.0).select(x / self.repetition, x * self.repetition));
        // The product may be infinite, which the difference then saturates.
        let seen = saturated(saturated(x - counts * self.frequency) - self.presence);
        counts.simd_gt(0.0).select(seen, x)
    }
}

#[inline(always)]
fn saturated<S: Simd>(x: f32x16<S>) -> f32x16<S> {
    x.max(-f32::MAX).min(f32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::lanes::baseline;

    #[test]
    fn each_penalty_is_one_rounded_operation() {
        let of = |penalties: Penalties, x: f32, count: u32| {
            let splat = |x| f32x16::splat(baseline(), x);
            penalties.of(splat(x), splat(count as f32))[0]
        };
        let penalties =
            Penalties { repetition: 2.0, frequency: 0.5, presence: 0.25, scope: PenaltyScope::Output };
        assert_eq!(of(penalties, 4.0, 0), 2.0);
        assert_eq!(of(penalties, -4.0, 0), -8.0);
        assert_eq!(of(penalties, 4.0, 3), 2.0 - 1.5 - 0.25);
        let strong = Penalties { repetition: 1e-30, frequency: 0.0, presence: 0.0, scope: PenaltyScope::All };
        assert_eq!(of(strong, 1e20, 1), f32::MAX);
        let steep = Penalties { repetition: 1.0, frequency: 3e38, presence: 0.0, scope: PenaltyScope::All };
        assert_eq!(of(steep, 1.0, 1000), -f32::MAX);
    }
}
