//! The oracle against what other systems answered: it can judge the engine only if it agrees with them.

// As in the library: these tests judge the platform's exp and log, no token depends on them.
#![allow(clippy::disallowed_methods)]

use onedraw_testkit::conformance::{self, Case};
use onedraw_testkit::oracle;

/// Compares every case and returns how many there were.
fn compare(cases: &[Case], tolerance: f64) -> usize {
    for case in cases {
        let params = case.sampling_params().unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let expected = oracle::distribution(&case.logits, &params)
            .unwrap_or_else(|failure| panic!("{}: {failure:?}", case.name));
        if let Err(difference) = case.check(&expected.tokens, &expected.probabilities, tolerance) {
            panic!("{}: {difference}\n{expected:?}", case.name);
        }
        assert!(!expected.uncertain, "{} lies on a border", case.name);
    }
    cases.len()
}

#[test]
fn vllm() {
    assert_eq!(compare(&conformance::vllm(), 2e-6), 160);
}

#[test]
fn vllm_raw_logprobs() {
    // The raw logprobs are those of the row as it came: the softmax without parameters.
    let mut compared = 0;
    for case in conformance::vllm() {
        let raw =
            oracle::distribution(&case.logits, &Default::default()).expect("the row has a distribution");
        for &(token, want) in case.raw_logprobs.as_ref().expect("vLLM's cases have raw logprobs") {
            let place = raw.tokens.iter().position(|&other| other == token).expect("no logit is masked");
            let got = raw.probabilities[place].ln();
            assert!(
                (got - want).abs() <= 2e-6 * want.abs().max(1.0),
                "{}: token {token}: {got}, {want}",
                case.name
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 2525);
}

#[test]
fn hugging_face() {
    assert_eq!(compare(&conformance::hugging_face(), 2e-6), 106);
}

#[test]
fn llama_cpp() {
    assert_eq!(compare(&conformance::llama_cpp(), 1e-5), 36);
}

#[test]
fn llama_cpp_queues() {
    let conformance::Queues { logits, queues } = conformance::llama_cpp_queues();
    assert_eq!(queues.len(), 15);
    for queue in queues {
        let left = oracle::distribution(&logits, &queue.params).expect("the row has a distribution").tokens;
        let ends = (left.len(), left[0], left[left.len() - 1]);
        assert_eq!(ends, (queue.size, queue.first, queue.last), "{}", queue.order);
    }
}
