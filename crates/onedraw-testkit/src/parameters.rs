//! Strategies for valid parameters: every stage set or not, in named, shuffled and arbitrary orders.

use std::collections::BTreeMap;

use onedraw::{Order, PenaltyScope, SamplingParams, Stage};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::rows::any_row;

/// Valid parameters over a vocabulary of `vocabulary` tokens (at least 1): every id is a token, and an order that is
/// given names the stage of every parameter that is set. The seed is always set, so a case can be repeated.
pub fn any_params(vocabulary: usize) -> impl Strategy<Value = SamplingParams> {
    (
        (any_temperature(), any_top_k(vocabulary), any_top_p(), any_min_p()),
        any_penalties(),
        any_masks(vocabulary),
        (vec(any_token(vocabulary), 0..12), vec(any_token(vocabulary), 0..12)),
        (any::<u64>(), any_order()),
    )
        .prop_map(|(truncation, penalties, masks, history, (seed, order))| {
            let mut params = SamplingParams {
                max_tokens: 1000,
                prompt_token_ids: history.0,
                output_token_ids: history.1,
                seed: Some(seed),
                ..SamplingParams::default()
            };
            (params.temperature, params.top_k, params.top_p, params.min_p) = truncation;
            penalties.write(&mut params);
            masks.write(&mut params);
            if let Some(order) = order {
                // The other way round, adding the missing stages to the order, would never try short orders.
                for stage in Stage::ALL.into_iter().filter(|stage| !order.names(stage)) {
                    unset(&mut params, stage);
                }
                params.order = Some(order);
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

/// An id, often one of the first four: histories then hold tokens twice and lists overlap.
fn any_token(vocabulary: usize) -> impl Strategy<Value = u32> {
    let vocabulary = vocabulary as u32;
    prop_oneof![0..vocabulary.min(4), 0..vocabulary]
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
        prop_oneof![2 => Just(0), 1 => 0..16u32],
        vec(token(), 0..3),
        vec(token(), 0..3),
    )
        .prop_map(|(bias, allowed, bad_words, min_tokens, eos, stop)| Masks {
            bias,
            allowed,
            bad_words,
            min_tokens,
            eos,
            stop,
        })
}

/// None, a named order, all stages shuffled, or any list of stages, with repeats.
fn any_order() -> impl Strategy<Value = Option<Order>> {
    prop_oneof![
        5 => Just(None),
        3 => select(vec![Order::vllm(), Order::huggingface(), Order::llama_cpp()]).prop_map(Some),
        3 => Just(Stage::ALL.to_vec()).prop_shuffle().prop_map(|stages| Some(Order::of(stages))),
        3 => vec(select(Stage::ALL.to_vec()), 0..14).prop_map(|stages| Some(Order::of(stages))),
    ]
}

/// Back to the defaults for what `stage` reads.
fn unset(params: &mut SamplingParams, stage: Stage) {
    let default = SamplingParams::default();
    match stage {
        Stage::Allowed => params.allowed_token_ids = None,
        Stage::BadWords => params.bad_words_ids.clear(),
        Stage::MinTokens => params.min_tokens = 0,
        Stage::LogitBias => params.logit_bias.clear(),
        Stage::Penalties => Penalties {
            repetition: default.repetition_penalty,
            frequency: default.frequency_penalty,
            presence: default.presence_penalty,
            window: default.penalty_window,
            scope: default.penalty_scope,
        }
        .write(params),
        Stage::Temperature => params.temperature = default.temperature,
        Stage::MinP => params.min_p = default.min_p,
        Stage::TopK => params.top_k = default.top_k,
        Stage::TopP => params.top_p = default.top_p,
        // A stage that no parameter above sets has nothing to unset.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            prop_assert!(ids.iter().all(|&id| (id as usize) < row.len()));
        }
    }

    #[test]
    fn a_bad_word_can_continue_the_output() {
        let word = |continues_output| BadWord { ids: vec![1, 2, 3], continues_output };
        assert_eq!(word(true).over(&[7, 8, 9]), [8, 9, 3]);
        assert_eq!(word(false).over(&[7, 8, 9]), [1, 2, 3]);
        assert_eq!(word(true).over(&[7]), [1, 2, 3]);
    }
}
