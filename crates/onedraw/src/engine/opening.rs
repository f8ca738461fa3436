//! The opening of a draw over ranks: what every rank says before it knows anything about the others.
//!
//! What is said follows from the chain, which every rank has:
//!
//! - The race, where its temperature is known and no stage before it changes the row.
//! - The best tokens, where a truncation cuts by rank or by logit, and where logprobs are reported.
//! - Masses, where the first truncation that looks at masses does so; most precisely where a top-p cuts, if
//!   it is the first truncation.
//! - Where a min-p is among the truncations whose cut is found before the race, neither the race nor the
//!   masses go further than what it would keep of the part alone.

use crate::logits::query::Open;
use crate::numeric::temperature::Temperature;
use crate::params::GREEDY_BELOW;
use crate::plan::{Operation, Segment};
use crate::stages::temperature::Heat;
use crate::stages::truncate::{Prefix, Truncation};

/// What to ask at the opening of a draw. `is_reported`: logprobs are wanted.
pub(crate) fn opening(segments: &[Segment], is_greedy: bool, is_reported: bool) -> Open {
    let best = if is_reported { Open::MAX_BEST } else { 0 };
    let mut open = Open { best, race: None, masses: None, reach: f64::NEG_INFINITY, focus: 0 };
    if is_greedy {
        return open;
    }
    let mut temperature = Temperature::ONE;
    let (mut is_first, mut is_cut_before_race) = (true, true);
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
                if let (Prefix::TopP(top_p), true) = (prefix, is_first) {
                    open.focus = top_p.share().numerator();
                }
                is_cut_before_race &= prefix.is_cut_before_race();
                if let (Prefix::MinP(min_p), true) = (prefix, is_cut_before_race) {
                    open.reach = open.reach.max(min_p.threshold(temperature));
                }
                is_first = false;
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
    use crate::numeric::math::ln;
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
        let nothing = Open { best: 0, race: None, masses: None, reach: f64::NEG_INFINITY, focus: 0 };
        let half = 1 << 52;
        let raced = |best, temperature| Open { best, race: Some(temperature), ..nothing };
        let weighed = |masses, focus| Open { masses: Some(masses), focus, ..raced(50, cold) };
        let reach = |min_p: f64, temperature: f64| temperature * ln(min_p);
        let expected = [
            (r#"{"temperature": 0}"#, nothing),
            (r#"{"temperature": 0, "logprobs": 1, "top_p": 0.5}"#, Open { best: 50, ..nothing }),
            (r#"{"temperature": 0.5, "logit_bias": {"3": 1}}"#, raced(0, cold)),
            (r#"{"temperature": 0.5, "min_p": 0.1}"#, Open { reach: reach(0.1, 0.5), ..raced(50, cold) }),
            (r#"{"temperature": 0.5, "top_p": 0.5}"#, weighed(cold, half)),
            (r#"{"temperature": 0.5, "top_k": 9, "top_p": 0.5}"#, weighed(cold, 0)),
            (
                r#"{"temperature": 0.5, "min_p": 0.1, "top_p": 0.5}"#,
                Open { reach: reach(0.1, 0.5), ..weighed(cold, 0) },
            ),
            // Here the race runs before min-p is asked.
            (
                r#"{"temperature": 0.5, "top_p": 0.5, "min_p": 0.1, "order": "top_p,min_p,temperature"}"#,
                weighed(one, half),
            ),
            (
                r#"{"temperature": 0.5, "min_p": 0.1, "top_k": 9, "order": "top_k,min_p,temperature"}"#,
                Open { reach: reach(0.1, 1.0), ..raced(50, cold) },
            ),
            // Edits after a truncation: the race is that of a later segment.
            (
                r#"{"top_k": 5, "logit_bias": {"3": 1}, "order": "top_k,logit_bias"}"#,
                Open { best: 50, ..nothing },
            ),
            (r#"{"typical_p": 0.5}"#, nothing),
            (r#"{"dynatemp_range": 0.5, "top_p": 0.5}"#, nothing),
            (r#"{"epsilon_cutoff": 0.01}"#, Open { masses: Some(one), ..raced(50, one) }),
        ];
        for (json, open) in expected {
            assert_eq!(of(json), open, "{json}");
        }
    }
}
