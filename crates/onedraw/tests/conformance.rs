//! The engine compared with what other systems answered for the same logits and parameters.
//!
//! Each test states how many cases it ran, so that a mistake in selecting them cannot leave it empty.

use std::collections::BTreeMap;

use onedraw::{Distribution, Sampler, SamplingParams};
use onedraw_testkit::conformance::{self, Case};

fn distribution(name: &str, logits: &[f32], params: SamplingParams) -> Distribution {
    Sampler::new(params)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
        .distribution(logits)
        .unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Compares every case and returns how many there were.
fn compare(cases: &[Case], tolerance: f64) -> usize {
    for case in cases {
        let params = case.sampling_params().unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let answer = distribution(&case.name, &case.logits, params);
        if let Err(difference) = case.check(&answer.tokens, &answer.probabilities, tolerance) {
            panic!("{}: {difference}\n{}", case.name, case.params);
        }
    }
    cases.len()
}

#[test]
fn vllm_distributions() {
    assert_eq!(compare(&conformance::vllm(), 2e-6), 160);
}

#[test]
fn vllm_raw_logprobs() {
    let mut compared = 0;
    for case in conformance::vllm() {
        let mut params = case.sampling_params().unwrap_or_else(|error| panic!("{}: {error}", case.name));
        params.logprobs = Some(-1);
        params.seed = Some(0);
        let sampled = Sampler::new(params)
            .unwrap_or_else(|error| panic!("{}: {error}", case.name))
            .sample(&case.logits[..])
            .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        let logprobs: BTreeMap<u32, f64> =
            sampled.logprobs.iter().map(|entry| (entry.token, entry.logprob)).collect();
        let unmasked = case.logits.iter().filter(|logit| logit.is_finite()).count();
        assert_eq!(logprobs.len(), unmasked, "{}: -1 asks for every token that has a logprob", case.name);
        let raw = case.raw_logprobs.as_ref().expect("vLLM's cases have raw logprobs");
        for &(token, want) in raw {
            let got = logprobs[&token];
            let is_near = (got - want).abs() <= 2e-6 * want.abs().max(1.0);
            assert!(is_near, "{}: token {token} has the logprob {got}, vLLM gave {want}", case.name);
            compared += 1;
        }
        // The drawn token is in the support, and its own logprob is the one in the list.
        assert!(raw.iter().any(|&(token, _)| token == sampled.token), "{}: {}", case.name, sampled.token);
        assert_eq!(sampled.logprob, Some(logprobs[&sampled.token]), "{}", case.name);
    }
    assert_eq!(compared, 2525);
}

#[test]
fn hugging_face_distributions() {
    assert_eq!(compare(&conformance::hugging_face(), 2e-6), 106);
}

#[test]
fn llama_cpp_distributions() {
    assert_eq!(compare(&conformance::llama_cpp(), 1e-5), 36);
}

#[test]
fn llama_cpp_queues() {
    let conformance::Queues { logits, queues } = conformance::llama_cpp_queues();
    assert_eq!(queues.len(), 15);
    for queue in queues {
        let left = distribution(&queue.order, &logits, queue.params).tokens;
        let ends = (left.len(), left[0], left[left.len() - 1]);
        assert_eq!(ends, (queue.size, queue.first, queue.last), "{}", queue.order);
    }
}
