//! Strategies for valid parameters: every stage set or not, in named, shuffled and arbitrary orders.

mod extended;
mod token;

use std::collections::BTreeMap;

use onedraw::params::MAX_TEMPERATURE;
use onedraw::{Order, PenaltyScope, SamplingParams, Stage};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::rows::any_row;
use extended::any_extended;
use token::any_token;

/// So often an order may name temperature: 1e6 and 1e-5, the largest and the smallest that divide, to this
/// power are within the 1e30 and 1e-30 that all together may divide by.
const MOST_TEMPERATURES: usize = 4;

/// Valid parameters over a vocabulary of `vocabulary` tokens (at least 1): every id is a token, and an order
/// that is given names the stage of every parameter that is set. The seed is always set, so a case can be
/// repeated.
pub fn any_params(vocabulary: usize) -> impl Strategy<Value = SamplingParams> {
    (
        (any_temperature(), any_top_k(vocabulary), any_top_p(), any_min_p()),
        any_penalties(),
        any_masks(vocabulary),
        any_extended(vocabulary),
        (any_history(vocabulary), any_history(vocabulary)),
        (any::<u64>(), any_order()),
    )
        .prop_map(|(truncation, penalties, masks, extended, (prompt, output), (seed, order))| {
            let mut params = SamplingParams {
                max_tokens: 1000,
                seed: Some(seed),
                ..extended.over(&[&prompt[..], &output[..]].concat())
            };
            (params.prompt_token_ids, params.output_token_ids) = (prompt, output);
            (params.temperature, params.top_k, params.top_p, params.min_p) = truncation;
            params.dynatemp_range = params.dynatemp_range.min(MAX_TEMPERATURE - params.temperature);
            penalties.write(&mut params);
            masks.write(&mut params);
            if let Some(order) = order {
                // The other way round, adding the missing stages to the order, would never try short orders.
                for stage in Stage::ALL.into_iter().filter(|stage| !order.names(stage)) {
                    unset(&mut params, stage);
                }
                params.order = Some(order);
            }
            if params.mirostat > 0 && params.order.as_ref().is_none_or(|order| *order == Order::vllm()) {
                // There mirostat stands alone.
                use Stage::*;
                for truncation in [MinP, TopK, TopP, Typical, TopNSigma, Epsilon, Eta, TopA, Xtc] {
                    unset(&mut params, truncation);
                }
            }
            params
        })
}

/// A row and parameters for it.
pub fn any_case(max_vocabulary: usize) -> impl Strategy<Value = (Vec<f32>, SamplingParams)> {
    any_row(max_vocabulary).prop_flat_map(|row| {
        let params = any_params(row.len());
        (Just(row), params)
    })
}

/// Tokens of many kinds, or few kinds in a long row, which then repeats itself.
fn any_history(vocabulary: usize) -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![vec(any_token(vocabulary), 0..12), vec(0..vocabulary.min(3) as u32, 0..20)]
}

fn any_temperature() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => Just(1.0),
        1 => Just(0.0),
        1 => select(vec![9e-6, 1e-5, 1e-3]),
        1 => Just(1e6),
        6 => 0.05..5.0,
    ]
}

fn any_top_k(vocabulary: usize) -> impl Strategy<Value = i64> {
    let vocabulary = vocabulary as i64;
    prop_oneof![
        3 => select(vec![0, -1]),
        1 => Just(1),
        3 => 1..=20i64,
        2 => 1..=vocabulary,
        1 => select(vec![vocabulary, vocabulary + 1, 1_000_000, i64::MAX]),
    ]
}

fn any_top_p() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => Just(1.0),
        1 => select(vec![f64::MIN_POSITIVE, 1e-9, 1.0 - f64::EPSILON]),
        4 => select(vec![0.5, 0.9, 0.999]),
        3 => 0.001..1.0,
    ]
}

fn any_min_p() -> impl Strategy<Value = f64> {
    prop_oneof![
        5 => Just(0.0),
        1 => select(vec![1e-300, 1e-12, 0.5, 1.0]),
        3 => 0.0001..1.0,
    ]
}

#[derive(Clone, Debug)]
struct Penalties {
    repetition: f64,
    frequency: f64,
    presence: f64,
    window: u32,
    scope: PenaltyScope,
}

impl Penalties {
    fn write(self, params: &mut SamplingParams) {
        params.repetition_penalty = self.repetition;
        params.frequency_penalty = self.frequency;
        params.presence_penalty = self.presence;
        params.penalty_window = self.window;
        params.penalty_scope = self.scope;
    }
}

fn any_penalties() -> impl Strategy<Value = Penalties> {
    let repetition = prop_oneof![4 => Just(1.0), 1 => select(vec![1e-30, 3e38]), 5 => 0.3..3.0];
    let additive = || prop_oneof![4 => Just(0.0), 1 => select(vec![-3e38, 3e38]), 5 => -3.0..3.0];
    let scope = select(vec![PenaltyScope::Output, PenaltyScope::All]);
    (repetition, additive(), additive(), prop_oneof![Just(0), 1..20u32], scope).prop_map(
        |(repetition, frequency, presence, window, scope)| Penalties {
            repetition,
            frequency,
            presence,
            window,
            scope,
        },
    )
}

#[derive(Clone, Debug)]
struct Masks {
    bias: BTreeMap<u32, f64>,
    allowed: Option<Vec<u32>>,
    bad_words: Vec<BadWord>,
    banned_strings: Vec<String>,
    min_tokens: u32,
    eos: Vec<u32>,
    stop: Vec<u32>,
}

/// `ids` as they are, or their last one after the end of the output, where it must be banned.
#[derive(Clone, Debug)]
struct BadWord {
    ids: Vec<u32>,
    continues_output: bool,
}

impl BadWord {
    fn over(self, output: &[u32]) -> Vec<u32> {
        let tail = self.ids.len() - 1;
        if !self.continues_output || tail > output.len() {
            return self.ids;
        }
        let mut word = output[output.len() - tail..].to_vec();
        word.push(self.ids[tail]);
        word
    }
}

impl Masks {
    fn write(self, params: &mut SamplingParams) {
        params.logit_bias = self.bias;
        params.allowed_token_ids = self.allowed;
        params.bad_words_ids =
            self.bad_words.into_iter().map(|word| word.over(&params.output_token_ids)).collect();
        params.banned_strings = self.banned_strings;
        params.min_tokens = self.min_tokens;
        params.eos_token_id = self.eos;
        params.stop_token_ids = self.stop;
    }
}

fn any_masks(vocabulary: usize) -> impl Strategy<Value = Masks> {
    let token = move || any_token(vocabulary);
    let bias = prop_oneof![1 => Just(0.0), 1 => select(vec![-3e38, 3e38, -1e-40]), 6 => -10.0..10.0];
    let bad_word = (vec(token(), 1..=3), any::<bool>())
        .prop_map(|(ids, continues_output)| BadWord { ids, continues_output });
    (
        prop_oneof![Just(BTreeMap::new()), btree_map(token(), bias, 0..6)],
        option::weighted(0.3, vec(token(), 1..=vocabulary.min(40))),
        prop_oneof![2 => Just(Vec::new()), 1 => vec(bad_word, 0..4)],
        prop_oneof![19 => Just(Vec::new()), 1 => Just(vec!["banned".to_owned()])],
        prop_oneof![2 => Just(0), 1 => 0..16u32],
        vec(token(), 0..3),
        vec(token(), 0..3),
    )
        .prop_map(|(bias, allowed, bad_words, banned_strings, min_tokens, eos, stop)| Masks {
            bias,
            allowed,
            bad_words,
            banned_strings,
            min_tokens,
            eos,
            stop,
        })
}

/// None, a named order, all stages shuffled, or any list of stages, with repeats.
fn any_order() -> impl Strategy<Value = Option<Order>> {
    let any_list = vec(select(Stage::ALL.to_vec()), 0..24).prop_map(|mut stages| {
        let mut temperatures = 0;
        stages.retain(|stage| {
            temperatures += usize::from(*stage == Stage::Temperature);
            *stage != Stage::Temperature || temperatures <= MOST_TEMPERATURES
        });
        Some(Order::of(stages))
    });
    prop_oneof![
        5 => Just(None),
        3 => select(vec![Order::vllm(), Order::huggingface(), Order::llama_cpp()]).prop_map(Some),
        3 => Just(Stage::ALL.to_vec()).prop_shuffle().prop_map(|stages| Some(Order::of(stages))),
        3 => any_list,
    ]
}

/// Back to the defaults for what `stage` reads.
fn unset(params: &mut SamplingParams, stage: Stage) {
    let default = SamplingParams::default();
    macro_rules! unset {
        ($($stage:ident: $($field:ident),+;)+) => {
            match stage {
                $(Stage::$stage => { $(params.$field = default.$field;)+ })+
                other => panic!("no parameter is known for the stage {}", other.name()),
            }
        };
    }
    unset! {
        Allowed: allowed_token_ids;
        BadWords: bad_words_ids;
        MinTokens: min_tokens;
        LogitBias: logit_bias;
        Penalties: repetition_penalty, frequency_penalty, presence_penalty, penalty_window, penalty_scope;
        Dry: dry_multiplier, dry_base, dry_allowed_length, dry_penalty_last_n, dry_sequence_breakers;
        NoRepeatNgram: no_repeat_ngram_size;
        Smoothing: smoothing_factor, smoothing_curve;
        Temperature: temperature, dynatemp_range, dynatemp_exponent;
        MinP: min_p;
        TopK: top_k;
        TopP: top_p;
        Typical: typical_p;
        TopNSigma: top_n_sigma;
        Epsilon: epsilon_cutoff;
        Eta: eta_cutoff;
        TopA: top_a;
        Xtc: xtc_probability, xtc_threshold, xtc_protected_token_ids;
        Mirostat: mirostat, mirostat_tau, mirostat_eta, mirostat_mu;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::strategy::ValueTree;

    proptest! {
        #[test]
        fn parameters_are_valid((row, params) in any_case(200)) {
            prop_assert_eq!(params.validate(), Ok(()));
            let mut ids: Vec<u32> = params.logit_bias.keys().copied().collect();
            ids.extend(params.allowed_token_ids.iter().flatten());
            ids.extend(params.bad_words_ids.iter().flatten());
            ids.extend(&params.eos_token_id);
            ids.extend(&params.stop_token_ids);
            ids.extend(&params.prompt_token_ids);
            ids.extend(&params.output_token_ids);
            ids.extend(&params.xtc_protected_token_ids);
            ids.extend(params.dry_sequence_breakers.iter().flatten());
            prop_assert!(ids.iter().all(|&id| (id as usize) < row.len()));
        }
    }

    #[test]
    fn each_sampler_is_set_now_and_then() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let mut set: BTreeMap<&str, u32> = BTreeMap::new();
        for _ in 0..4000 {
            let params = any_params(300).new_tree(&mut runner).expect("parameters").current();
            let history = [&params.prompt_token_ids[..], &params.output_token_ids[..]].concat();
            let occurs = |breaker: &Vec<u32>| history.windows(breaker.len()).any(|part| part == breaker);
            for (name, is_set) in [
                ("typical", params.typical_p < 1.0),
                ("top_n_sigma", params.top_n_sigma > 0.0),
                ("epsilon", params.epsilon_cutoff > 0.0),
                ("eta", params.eta_cutoff > 0.0),
                ("top_a", params.top_a > 0.0),
                ("xtc", params.xtc_probability > 0.0),
                ("mirostat 1", params.mirostat == 1),
                ("mirostat 2", params.mirostat == 2),
                ("dynatemp", params.dynatemp_range > 0.0),
                ("smoothing", params.smoothing_factor > 0.0),
                ("dry", params.dry_multiplier > 0.0),
                ("a breaker that occurs", params.dry_sequence_breakers.iter().any(occurs)),
                ("no_repeat_ngram", params.no_repeat_ngram_size > 0),
            ] {
                *set.entry(name).or_default() += u32::from(is_set);
            }
        }
        let is_fair = |&count: &u32| (100..=2400).contains(&count);
        assert!(set.values().all(is_fair), "{set:?}");
    }

    #[test]
    fn a_bad_word_can_continue_the_output() {
        let word = |continues_output| BadWord { ids: vec![1, 2, 3], continues_output };
        assert_eq!(word(true).over(&[7, 8, 9]), [8, 9, 3]);
        assert_eq!(word(false).over(&[7, 8, 9]), [1, 2, 3]);
        assert_eq!(word(true).over(&[7]), [1, 2, 3]);
    }
}
