//! Values computed by hand.

mod dynatemp;
mod edits;
mod truncations;

use super::*;
use crate::parameters::any_case;
use onedraw::{Order, PenaltyScope, RowError, Stage};
use proptest::prelude::*;

fn params(json: &str) -> SamplingParams {
    SamplingParams::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

/// Logits whose softmax is `probabilities`, up to rounding to f32.
fn logits(probabilities: &[f64]) -> Vec<f32> {
    probabilities.iter().map(|p| p.ln() as f32).collect()
}

/// Fails unless exactly these tokens with these probabilities are expected, without doubt.
#[track_caller]
fn assert_certain(logits: &[f32], json: &str, tokens: &[u32], probabilities: &[f64]) {
    let expected = distribution(logits, &params(json)).expect("the row has a distribution");
    assert!(!expected.uncertain, "{json}: {expected:?}");
    if let Err(difference) = check(&expected, tokens, probabilities, 1e-7) {
        panic!("{json}: {difference}");
    }
}

#[test]
fn plain_softmax_is_in_order() {
    assert_certain(&logits(&[0.2, 0.5, 0.3]), "{}", &[1, 2, 0], &[0.5, 0.3, 0.2]);
    assert_certain(&[0.0; 4], "{}", &[0, 1, 2, 3], &[0.25; 4]);
    assert_certain(&[-0.0, 0.0, -0.0], "{}", &[0, 1, 2], &[1.0 / 3.0; 3]);
    assert_certain(&[f32::NEG_INFINITY, 7.0], "{}", &[1], &[1.0]);
    // Far below the best: no mass, but in the support.
    assert_certain(&[3e38, -3e38], "{}", &[0, 1], &[1.0, 0.0]);
}

#[test]
fn truncations() {
    let row = logits(&[0.5, 0.3, 0.2]);
    assert_certain(&row, r#"{"top_k": 2}"#, &[0, 1], &[0.625, 0.375]);
    assert_certain(&row, r#"{"top_k": 9}"#, &[0, 1, 2], &[0.5, 0.3, 0.2]);
    assert_certain(&row, r#"{"top_k": -1}"#, &[0, 1, 2], &[0.5, 0.3, 0.2]);
    assert_certain(&row, r#"{"top_p": 0.49}"#, &[0], &[1.0]);
    assert_certain(&row, r#"{"top_p": 0.51}"#, &[0, 1], &[0.625, 0.375]);
    assert_certain(&row, r#"{"top_p": 0.81}"#, &[0, 1, 2], &[0.5, 0.3, 0.2]);
    assert_certain(&row, r#"{"top_p": 1e-9}"#, &[0], &[1.0]);
    assert_certain(&row, r#"{"min_p": 0.59}"#, &[0, 1], &[0.625, 0.375]);
    assert_certain(&row, r#"{"min_p": 0.61}"#, &[0], &[1.0]);
    assert_certain(&row, r#"{"min_p": 1.0}"#, &[0], &[1.0]);
    assert_certain(&[1.0, 2.0, 2.0], r#"{"min_p": 1.0}"#, &[1, 2], &[0.5, 0.5]);
    assert_certain(&[1.0, 2.0, 2.0], r#"{"top_k": 1}"#, &[1], &[1.0]);
    // top-p looks at what top-k left: 0.625 of it is before token 1.
    assert_certain(&row, r#"{"top_k": 2, "top_p": 0.6}"#, &[0], &[1.0]);
    assert_certain(
        &row,
        r#"{"top_k": 2, "top_p": 0.6, "order": ["top_p", "top_k"]}"#,
        &[0, 1],
        &[0.625, 0.375],
    );
    assert_certain(
        &logits(&[0.15, 0.3, 0.3, 0.25]),
        r#"{"top_p": 0.8}"#,
        &[1, 2, 3],
        &[6. / 17., 6. / 17., 5. / 17.],
    );
    assert_certain(
        &logits(&[0.9, 0.0274, 0.047, 0.0274]),
        r#"{"min_p": 0.05}"#,
        &[0, 2],
        &[0.9 / 0.947, 0.047 / 0.947],
    );
}

#[test]
fn a_border_is_uncertain_and_both_answers_are_taken() {
    // The mass before token 1 is 0.5 up to rounding.
    let expected = distribution(&logits(&[0.5, 0.3, 0.2]), &params(r#"{"top_p": 0.5}"#)).unwrap();
    assert!(expected.uncertain);
    assert_eq!(expected.alternatives.len(), 1);
    assert_eq!(check(&expected, &[0], &[1.0], 1e-6), Ok(()));
    assert_eq!(check(&expected, &[0, 1], &[0.625, 0.375], 1e-6), Ok(()));
    let message = check(&expected, &[0, 1, 2], &[0.5, 0.3, 0.2], 1e-6).unwrap_err();
    assert!(message.starts_with("the support differs, 3 tokens instead of"), "{message}");
    // Equal weights: the sums are exact, the mass before token 2 is not below a half, and the plain answer
    // says so.
    let expected = distribution(&[1.0; 4], &params(r#"{"top_p": 0.5}"#)).unwrap();
    assert_eq!(expected.tokens, [0, 1]);
    // min-p near its threshold.
    let row = [0.0, 0.5f64.ln() as f32];
    let min_p = f64::from(row[1]).exp();
    let near = SamplingParams { min_p: min_p * (1.0 + 1e-12), ..SamplingParams::default() };
    assert!(distribution(&row, &near).unwrap().uncertain);
    let off = SamplingParams { min_p: min_p * (1.0 + 1e-6), ..SamplingParams::default() };
    assert!(!distribution(&row, &off).unwrap().uncertain);
    // A border that the rest of the chain makes harmless is no doubt about the answer.
    assert_certain(&logits(&[0.5, 0.3, 0.2]), r#"{"top_p": 0.5, "temperature": 0}"#, &[0], &[1.0]);
}

#[test]
fn many_borderline_tokens_leave_slack() {
    // A thousand tokens with 1e-9 of the mass each, just where p lies.
    let mut row = vec![-20.7f32; 1000];
    row[0] = 0.0;
    let expected = distribution(&row, &params(r#"{"top_p": 0.9999995}"#)).unwrap();
    assert!(expected.uncertain && expected.slack > 0.0 && expected.slack < 1.0);
    let longest = expected.alternatives.iter().map(|other| other.tokens.len()).max().unwrap();
    assert_eq!(longest, 1000);
    let part = |n: usize| (expected.tokens[..n].to_vec(), vec![1.0; 1].into_iter().chain(vec![1e-9; n - 1]));
    let (tokens, probabilities) = part(expected.tokens.len() - 3);
    assert_eq!(check(&expected, &tokens, &probabilities.collect::<Vec<_>>(), 1e-6), Ok(()));
    let message = check(&expected, &[0, 500], &[1.0, 0.0], 1e-6).unwrap_err();
    assert!(message.contains("it is no part of any of these 3 answers"), "{message}");
}

#[test]
fn temperature() {
    let row = [3.0, 2.0, 1.0];
    // 1 / (1 + e^-2): the two best at temperature one half.
    let best = 0.8807970779778823;
    assert_certain(&row[..2], r#"{"temperature": 0.5}"#, &[0, 1], &[best, 1.0 - best]);
    // llama.cpp's order keeps {0, 1}, because the nucleus is taken before the temperature.
    assert_certain(&row, r#"{"temperature": 0.5, "top_p": 0.8}"#, &[0], &[1.0]);
    assert_certain(
        &row,
        r#"{"temperature": 0.5, "top_p": 0.8, "order": "llama.cpp"}"#,
        &[0, 1],
        &[best, 1.0 - best],
    );
    // min-p as well: 0.3 / 0.5 is below 0.7, its square root is not.
    let few = logits(&[0.5, 0.3, 0.2]);
    let second = 1.0 / (1.0 + (5.0f64 / 3.0).sqrt());
    assert_certain(&few, r#"{"temperature": 2, "min_p": 0.7}"#, &[0, 1], &[1.0 - second, second]);
    assert_certain(&few, r#"{"temperature": 2, "min_p": 0.7, "order": "llama.cpp"}"#, &[0], &[1.0]);
    // Named twice it divides twice.
    let twice = r#"{"temperature": 0.7071067811865476, "order": ["temperature", "temperature"]}"#;
    assert_certain(&row[..2], twice, &[0, 1], &[best, 1.0 - best]);
    assert_certain(&row, r#"{"temperature": 0}"#, &[0], &[1.0]);
    assert_certain(&[1.0, 5.0, 5.0], r#"{"temperature": 9.9e-6}"#, &[1], &[1.0]);
    // Not greedy: a tie stays a tie.
    assert_certain(&[1.0, 5.0, 5.0], r#"{"temperature": 1e-5, "top_k": 2}"#, &[1, 2], &[0.5, 0.5]);
}

#[test]
fn an_edit_after_the_temperature_works_on_scaled_logits() {
    // 2, 1 become 1, 0.5, and the bias makes them 1, 1.5.
    let json = r#"{"temperature": 2, "logit_bias": {"1": 1}, "order": ["temperature", "logit_bias"]}"#;
    let best = 1.0 / (1.0 + (-0.5f64).exp());
    assert_certain(&[2.0, 1.0], json, &[1, 0], &[best, 1.0 - best]);
    // The same in front: 2, 2 at temperature 2.
    let json = r#"{"temperature": 2, "logit_bias": {"1": 1}}"#;
    assert_certain(&[2.0, 1.0], json, &[0, 1], &[0.5, 0.5]);
    // What a truncation removed does not come back.
    let json = r#"{"top_k": 1, "logit_bias": {"1": 9}, "order": ["top_k", "logit_bias"]}"#;
    assert_certain(&[2.0, 1.0], json, &[0], &[1.0]);
    // Scaled in f64 and rounded once: 1e9 / 0.7 is 1428571392 there, and 1428571520 by the f32 nearest to 1 /
    // 0.7.
    let json =
        r#"{"temperature": 0.7, "logit_bias": {"1": 1428571392}, "order": ["temperature", "logit_bias"]}"#;
    assert_certain(&[1e9, 0.0], json, &[0, 1], &[0.5, 0.5]);
    // A stage with a task scales even where its task is done; a stage without one does not. In f32 1e-45 / 2
    // is 0.
    let json = r#"{"temperature": 2, "min_tokens": 1, "eos_token_id": [9], "order": ["temperature", "min_tokens"],
        "output_token_ids": [0]}"#;
    assert_certain(&[0.0, 1e-45], json, &[0, 1], &[0.5, 0.5]);
    let json = r#"{"temperature": 2, "min_tokens": 1, "order": ["temperature", "min_tokens"]}"#;
    assert_certain(&[0.0, 1e-45], json, &[1, 0], &[0.5, 0.5]);
    // Scaling saturates: both become the largest f32, and the lower id comes first.
    let json = r#"{"temperature": 0.1, "logit_bias": {"2": 0}, "order": ["temperature", "logit_bias"]}"#;
    assert_certain(&[2e38, 3e38, 0.0], json, &[0, 1, 2], &[0.5, 0.5, 0.0]);
}

#[test]
fn penalties() {
    let row = [-0.1f32, 0.1, 0.4, 0.0];
    let shown = |json: &str| {
        let mut got = distribution(&row, &params(json)).unwrap();
        let reference = got.probabilities[got.tokens.iter().position(|&token| token == 3).unwrap()];
        let mut logits = [0.0; 4];
        for (token, p) in got.tokens.drain(..).zip(got.probabilities) {
            logits[token as usize] = (p / reference).ln();
        }
        logits
    };
    let near = |got: [f64; 4], want: [f64; 4]| {
        for (got, want) in got.into_iter().zip(want) {
            assert!((got - want).abs() < 1e-7, "{got} is not {want}");
        }
    };
    let repetition = r#"{"repetition_penalty": 2, "prompt_token_ids": [0, 1], "output_token_ids": [2, 2]}"#;
    near(shown(repetition), [-0.2, 0.05, 0.2, 0.0]);
    let windowed = r#"{"repetition_penalty": 2, "prompt_token_ids": [0, 1], "output_token_ids": [2, 2],
        "penalty_window": 3}"#;
    near(shown(windowed), [-0.1, 0.05, 0.2, 0.0]);
    let counted = r#"{"frequency_penalty": 0.5, "presence_penalty": 0.25, "prompt_token_ids": [0, 2],
        "output_token_ids": [2, 1, 2]}"#;
    near(shown(counted), [-0.1, -0.65, -0.85, 0.0]);
    let all = r#"{"frequency_penalty": 0.5, "presence_penalty": 0.25, "prompt_token_ids": [0, 2],
        "output_token_ids": [2, 1, 2], "penalty_scope": "all"}"#;
    near(shown(all), [-0.85, -0.65, -1.35, 0.0]);
    let both = SamplingParams { penalty_window: 4, penalty_scope: PenaltyScope::All, ..params(all) };
    near(shown(&serde_json::to_string(&both).unwrap()), [-0.1, -0.65, -1.35, 0.0]);
    // First repetition, then the others: 0.4 / 2 − 0.5 − 0.25.
    let order = r#"{"repetition_penalty": 2, "frequency_penalty": 0.5, "presence_penalty": 0.25,
        "output_token_ids": [2]}"#;
    near(shown(order), [-0.1, 0.1, -0.55, 0.0]);
}

#[test]
fn edits_saturate_and_masks_mask() {
    let minus = f32::NEG_INFINITY;
    assert_certain(
        &[3e38, 0.0, 3.4e38],
        r#"{"logit_bias": {"0": 3e38, "1": -3e38}}"#,
        &[0, 2, 1],
        &[1.0, 0.0, 0.0],
    );
    assert_certain(&[3e38, f32::MAX], r#"{"logit_bias": {"0": 3e38}}"#, &[0, 1], &[0.5, 0.5]);
    assert_certain(&[minus, 1.0], r#"{"logit_bias": {"0": 100}}"#, &[1], &[1.0]);
    let history = r#"{"frequency_penalty": 3e38, "output_token_ids": [0, 0, 0]}"#;
    assert_certain(&[1.0, f32::MIN], history, &[0, 1], &[0.5, 0.5]);
    assert_certain(
        &[1.0, 2.0, 2.0],
        r#"{"allowed_token_ids": [0, 2]}"#,
        &[2, 0],
        &[0.7310585786, 0.2689414214],
    );
    let words =
        r#"{"bad_words_ids": [[1], [4], [1, 0], [0, 1, 2], [1, 3, 1, 3]], "output_token_ids": [0, 1, 3, 1]}"#;
    assert_certain(&[0.0; 6], words, &[2, 5], &[0.5, 0.5]);
    // Only the output counts, not the prompt before it.
    let words = r#"{"bad_words_ids": [[1, 2, 0]], "prompt_token_ids": [1], "output_token_ids": [2]}"#;
    assert_certain(&[0.0; 2], words, &[0, 1], &[0.5, 0.5]);
    let wait = r#"{"min_tokens": 2, "eos_token_id": 0, "stop_token_ids": [3], "output_token_ids": [1]}"#;
    assert_certain(&[0.0; 4], wait, &[1, 2], &[0.5, 0.5]);
    let waited = r#"{"min_tokens": 1, "eos_token_id": 0, "stop_token_ids": [3], "output_token_ids": [1]}"#;
    assert_certain(&[0.0; 2], waited, &[0, 1], &[0.5, 0.5]);
}

#[test]
fn failures() {
    let (nan, plus, minus) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
    let of = |row: &[f32], json: &str| distribution(row, &params(json)).unwrap_err();
    assert_eq!(of(&[], "{}"), Failure::Empty);
    assert_eq!(of(&[0.0, nan, plus], "{}"), Failure::Nan(1));
    assert_eq!(of(&[0.0, plus, nan], r#"{"allowed_token_ids": [0]}"#), Failure::Infinite(1));
    assert_eq!(of(&[minus, nan], "{}"), Failure::Nan(1));
    assert_eq!(of(&[minus; 3], r#"{"bad_words_ids": [[0]]}"#), Failure::NothingLeft(None));
    assert_eq!(
        of(&[0.0, minus], r#"{"allowed_token_ids": [1]}"#),
        Failure::NothingLeft(Some(Stage::Allowed))
    );
    let both = r#"{"allowed_token_ids": [1], "bad_words_ids": [[1]]}"#;
    assert_eq!(of(&[0.0, 0.0], both), Failure::NothingLeft(Some(Stage::BadWords)));
    let reversed = SamplingParams { order: Some(Order::huggingface()), ..params(both) };
    assert_eq!(distribution(&[0.0, 0.0], &reversed), Err(Failure::NothingLeft(Some(Stage::Allowed))));
    assert_eq!(Failure::of(&RowError::NanLogit { token: 3 }), Some(Failure::Nan(3)));
    assert_eq!(Failure::of(&RowError::MaskWithoutStage), None);
}

#[test]
fn check_says_what_differs() {
    let expected = distribution(&logits(&[0.5, 0.3, 0.2]), &params("{}")).unwrap();
    let says = |tokens: &[u32], probabilities: &[f64], message: &str| {
        let error = check(&expected, tokens, probabilities, 1e-6).unwrap_err();
        assert!(error.starts_with(message), "{error}");
        assert!(error.ends_with("; no decision was near a border"), "{error}");
    };
    says(&[0, 1], &[0.6, 0.4], "the support differs, 2 tokens instead of 3: missing 2 (probability ");
    says(
        &[0, 1, 2, 3],
        &[0.5, 0.3, 0.2, 0.0],
        "the support differs, 4 tokens instead of 3: missing none; too many 3 ",
    );
    says(&[0, 2, 1], &[0.5, 0.2, 0.3], "the order is wrong: place 1 holds token 2, not 1");
    says(&[0, 1, 2], &[0.5, 0.30001, 0.19999], "the probability of token 1 is 3.0001e-1, not ");
    says(&[0, 1, 2], &[f64::NAN, 0.3, 0.2], "the probability of token 0 is NaN, not ");
    says(&[0, 1, 1], &[0.5, 0.3, 0.2], "token 1 stands twice");
    says(&[0, 1, 2], &[0.5, 0.5], "3 tokens have 2 probabilities");
}

#[test]
fn verify_knows_failures_too() {
    let row = logits(&[0.5, 0.3, 0.2]);
    let verified = |json: &str, answer| verify(&row, &params(json), answer, 1e-6);
    let nothing = || Err(Failure::NothingLeft(Some(Stage::BadWords)));
    assert_eq!(verified("{}", Ok((&[0, 1, 2], &[0.5, 0.3, 0.2]))), Ok(()));
    assert!(verified("{}", Ok((&[0, 1], &[0.6, 0.4]))).unwrap_err().starts_with("the support differs"));
    assert_eq!(
        verified("{}", nothing()).unwrap_err(),
        "it failed with NothingLeft(Some(BadWords)), where 3 tokens are left"
    );
    // What is left after top-p is banned: nothing at 0.4, token 1 at 0.6, and at 0.5 it may be either.
    let json =
        |p: f64| format!(r#"{{"top_p": {p}, "bad_words_ids": [[0]], "order": ["top_p", "bad_words"]}}"#);
    assert_eq!(verified(&json(0.4), nothing()), Ok(()));
    assert!(verified(&json(0.6), nothing()).is_err());
    assert_eq!(verified(&json(0.5), nothing()), Ok(()));
    assert!(
        verified(&json(0.4), Ok((&[1], &[1.0])))
            .unwrap_err()
            .starts_with("it gave a distribution, where NothingLeft")
    );
    assert_eq!(verified(&json(0.6), Ok((&[1], &[1.0]))), Ok(()));
    assert_eq!(verified(&json(0.5), Ok((&[1], &[1.0]))), Ok(()));
    assert!(verified(&json(0.5), Ok((&[2], &[1.0]))).is_err());
    assert!(verified(&json(0.5), Err(Failure::NothingLeft(None))).is_err());
    assert_eq!(verify(&[], &params("{}"), Err(Failure::Empty), 1e-6), Ok(()));
    assert_eq!(
        verify(&[f32::NAN], &params("{}"), Err(Failure::Empty), 1e-6).unwrap_err(),
        "it failed with Empty, not with Nan(0)"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_case_has_a_distribution_or_a_reason((row, params) in any_case(200)) {
        match distribution(&row, &params) {
            Err(failure) => prop_assert!(matches!(failure, Failure::NothingLeft(Some(_))), "{:?}", failure),
            Ok(expected) => {
                prop_assert!((expected.probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                prop_assert!(expected.probabilities.is_sorted_by(|a, b| a >= b));
                prop_assert_eq!(check(&expected, &expected.tokens, &expected.probabilities, 0.0), Ok(()));
                for other in &expected.alternatives {
                    prop_assert_eq!(check(&expected, &other.tokens, &other.probabilities, 0.0), Ok(()));
                }
            }
        }
    }
}
