//! Strategies for the samplers beyond temperature, top-k, top-p and min-p.

use onedraw::SamplingParams;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::token::any_token;

/// Parameters of which no others are set, but for DRY's breakers, which want a history.
#[derive(Clone, Debug)]
pub(super) struct Extended {
    params: SamplingParams,
    breakers: Vec<Breaker>,
}

impl Extended {
    pub fn over(self, history: &[u32]) -> SamplingParams {
        let dry_sequence_breakers = self.breakers.into_iter().map(|breaker| breaker.over(history)).collect();
        SamplingParams { dry_sequence_breakers, ..self.params }
    }
}

/// `ids` as they are, or as many tokens of the history, so that they occur there.
#[derive(Clone, Debug)]
struct Breaker {
    ids: Vec<u32>,
    place: Option<Index>,
}

impl Breaker {
    fn over(self, history: &[u32]) -> Vec<u32> {
        let places = (history.len() + 1).saturating_sub(self.ids.len());
        match self.place {
            Some(place) if places > 0 => history[place.index(places)..][..self.ids.len()].to_vec(),
            _ => self.ids,
        }
    }
}

/// Each sampler alone now and then, so that whole chains of others stay meaningful, and sometimes nearly all
/// at once.
pub(super) fn any_extended(vocabulary: usize) -> impl Strategy<Value = Extended> {
    prop_oneof![12 => any_of(vocabulary, 0.12), 1 => any_of(vocabulary, 0.9)]
}

fn any_of(vocabulary: usize, chance: f64) -> impl Strategy<Value = Extended> {
    let shares = (
        any_share(chance, 1.0, vec![f64::MIN_POSITIVE, 1e-9, 1.0 - f64::EPSILON]),
        any_share(chance, 0.0, vec![5e-324, 1e-9, 0.01, 1.0]),
        any_share(chance, 0.0, vec![5e-324, 1e-9, 0.01, 1.0]),
        any_share(chance, 0.0, vec![5e-324, 1e-12, 0.1, 1.0]),
        any_number(chance, 0.0, vec![1e-9, 1.0, 1e6], 0.1..4.0),
    );
    let xtc = (
        any_share(chance, 0.0, vec![1e-9, 1.0, 1.0, 1.0]),
        any_number(0.8, 0.1, vec![0.0, 1e-9, 0.01, 1.0], 0.0..0.5),
        vec(any_token(vocabulary), 0..4),
    );
    let mirostat = (
        option::weighted(chance, 1..=2u8),
        any_number(0.5, 5.0, vec![0.0, 1e-9, 1e6], 0.1..12.0),
        any_number(0.5, 0.1, vec![0.0, 1e6], 0.0..1.0),
        option::weighted(0.5, prop_oneof![1 => select(vec![0.0, -3.0, 1e300]), 3 => 0.0..20.0]),
    );
    let dynatemp = (
        any_number(chance, 0.0, vec![5e-324, 1e-5, 1.0, 9e5], 0.05..3.0),
        any_number(0.5, 1.0, vec![0.0, 1e-3, 1e6], 0.2..4.0),
    );
    let smoothing = (
        any_number(chance, 0.0, vec![5e-324, 1e-3, 1e6], 0.05..2.0),
        any_number(0.5, 1.0, vec![1.0, 3.0], 1.0..3.0),
    );
    let breaker = (vec(any_token(vocabulary), 1..=3), option::weighted(0.7, any::<Index>()));
    let dry = (
        any_number(chance, 0.0, vec![5e-324, 1e-3, 1e6], 0.1..5.0),
        any_number(0.5, 1.75, vec![1.0, 1e6], 1.0..3.0),
        prop_oneof![1 => Just(u32::MAX), 9 => 0..5u32],
        prop_oneof![1 => Just(0), 1 => 1..40u32],
        vec(breaker.prop_map(|(ids, place)| Breaker { ids, place }), 0..3),
    );
    let ngram = option::weighted(chance, prop_oneof![1 => Just(u32::MAX), 9 => 1..5u32]);
    (shares, xtc, mirostat, dynatemp, smoothing, dry, ngram).prop_map(
        |(shares, xtc, mirostat, dynatemp, smoothing, dry, ngram)| {
            let params = SamplingParams {
                typical_p: shares.0,
                epsilon_cutoff: shares.1,
                eta_cutoff: shares.2,
                top_a: shares.3,
                top_n_sigma: shares.4,
                xtc_probability: xtc.0,
                xtc_threshold: xtc.1,
                xtc_protected_token_ids: xtc.2,
                mirostat: mirostat.0.unwrap_or(0),
                mirostat_tau: mirostat.1,
                mirostat_eta: mirostat.2,
                mirostat_mu: mirostat.3,
                dynatemp_range: dynatemp.0,
                dynatemp_exponent: dynatemp.1,
                smoothing_factor: smoothing.0,
                smoothing_curve: smoothing.1,
                dry_multiplier: dry.0,
                dry_base: dry.1,
                dry_allowed_length: dry.2,
                dry_penalty_last_n: dry.3,
                no_repeat_ngram_size: ngram.unwrap_or(0),
                ..SamplingParams::default()
            };
            Extended { params, breakers: dry.4 }
        },
    )
}

/// `off`, or with this chance a border or a plain number.
fn any_number(
    chance: f64,
    off: f64,
    borders: Vec<f64>,
    plain: std::ops::Range<f64>,
) -> impl Strategy<Value = f64> {
    let on = prop_oneof![1 => select(borders), 3 => plain];
    option::weighted(chance, on).prop_map(move |value| value.unwrap_or(off))
}

fn any_share(chance: f64, off: f64, borders: Vec<f64>) -> impl Strategy<Value = f64> {
    any_number(chance, off, borders, 0.001..0.999)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::strategy::ValueTree;

    #[test]
    fn a_breaker_can_be_cut_from_the_history() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let place = any::<Index>().new_tree(&mut runner).expect("an index").current();
        let breaker = |place| Breaker { ids: vec![7, 8], place };
        assert_eq!(breaker(None).over(&[1, 2, 3]), [7, 8]);
        assert_eq!(breaker(Some(place)).over(&[1]), [7, 8]);
        assert!([[1, 2], [2, 3]].contains(&breaker(Some(place)).over(&[1, 2, 3])[..].try_into().unwrap()));
    }
}
