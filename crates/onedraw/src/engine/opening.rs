//! The opening of a draw over ranks: what every rank says before it knows anything about the others.
//!
//! Which of it is of use follows from the chain, which every rank has:
//!
//! - The race, where its temperature is known and no stage before it changes the row.
//! - The best tokens, where a truncation cuts by rank or by logit, and where logprobs are reported.
//! - Masses, where the first truncation that looks at masses does so.

use crate::logits::query::Open;
use crate::numeric::temperature::Temperature;
use crate::params::GREEDY_BELOW;
use crate::plan::{Operation, Segment};
use crate::stages::temperature::Heat;
use crate::stages::truncate::{Prefix, Truncation};

/// What to ask at the opening of a draw. `is_reported`: logprobs are wanted.
pub(crate) fn opening(segments: &[Segment], is_greedy: bool, is_reported: bool) -> Open {
    let best = if is_reported { Open::MAX_BEST } else { 0 };
    let mut open = Open { best, race: None, masses: None };
    if is_greedy {
        return open;
    }
    let mut temperature = Temperature::ONE;
    for operation in segments.iter().take(1).flat_map(|segment| &segment.operations) {
        match operation {
            // Greedy after all.
            Operation::Heat(Heat::Fixed(fixed)) if *fixed < GREEDY_BELOW => return open,
            Operation::Heat(Heat::Fixed(fixed)) => temperature = temperature.then(*fixed),
            Operation::Truncate(_, Truncation::Prefix(prefix)) => {
                open.best = Open::MAX_BEST;
                if let Prefix::TopP(_) | Prefix::Cutoff(_) = prefix {
                    open.masses.get_or_insert(temperature);
                }
            }
            // The temperature or the row depends on answers that come later.
            _ => return open,
        }
    }
    if segments.len() == 1 {
        open.race = Some(temperature);
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::SamplingParams;
    use crate::plan::Plan;

    fn of(json: &str) -> Open {
        let params = SamplingParams::from_json(json).expect(json);
        let plan = Plan::new(&params).expect(json);
        opening(plan.segments(false).expect(json), plan.is_greedy(), params.logprobs.is_some())
    }

    #[test]
    fn a_chain_asks_for_what_it_can_use() {
        let (cold, one) = (Temperature::ONE.then(0.5), Temperature::ONE);
        let expected = [
            (r#"{"temperature": 0}"#, (0, None, None)),
            (r#"{"temperature": 0, "logprobs": 1, "top_p": 0.5}"#, (50, None, None)),
            (r#"{"temperature": 0.5, "logit_bias": {"3": 1}}"#, (0, Some(cold), None)),
            (r#"{"temperature": 0.5, "min_p": 0.1}"#, (50, Some(cold), None)),
            (r#"{"temperature": 0.5, "top_k": 9, "top_p": 0.5}"#, (50, Some(cold), Some(cold))),
            (
                r#"{"temperature": 0.5, "top_p": 0.5, "order": "top_p,temperature"}"#,
                (50, Some(cold), Some(one)),
            ),
            // Edits after a truncation: the race is that of a later segment.
            (r#"{"top_k": 5, "logit_bias": {"3": 1}, "order": "top_k,logit_bias"}"#, (50, None, None)),
            (r#"{"typical_p": 0.5}"#, (0, None, None)),
            (r#"{"dynatemp_range": 0.5, "top_p": 0.5}"#, (0, None, None)),
            (r#"{"epsilon_cutoff": 0.01}"#, (50, Some(one), Some(one))),
        ];
        for (json, (best, race, masses)) in expected {
            assert_eq!(of(json), Open { best, race, masses }, "{json}");
        }
    }
}
