//! What is reported of an accepted token is what a plain draw of that token reports.

use onedraw::speculate::Verify;
use onedraw::{Batch, LogprobsMode, Sampler, SamplingParams};

use super::toy::{Toy, guessed, speculate};

#[test]
fn accepted_tokens_are_reported_as_drawn_ones() {
    let toy = Toy { seed: 21, vocabulary: 30, sharpness: 1.5 };
    let drafter = Toy { seed: 21, vocabulary: 30, sharpness: 1.2 };
    let base =
        SamplingParams { seed: Some(77), logprobs: Some(2), probability: true, ..SamplingParams::default() };
    let cases = LogprobsMode::ALL.map(|logprobs_mode| SamplingParams {
        logprobs_mode,
        repetition_penalty: 1.3,
        top_p: 0.9,
        ..base.clone()
    });
    let cases = cases.into_iter().chain([
        SamplingParams { mirostat: 2, mirostat_tau: 2.5, ..base.clone() },
        SamplingParams { mirostat: 1, mirostat_tau: 3.0, logprobs: None, ..base.clone() },
        SamplingParams { xtc_probability: 0.6, xtc_threshold: 0.1, ..base.clone() },
        SamplingParams { temperature: 0.7, logprobs: None, ..base },
    ]);
    for params in cases {
        for verify in [Verify::Rejection, Verify::Block, Verify::ALL[3]] {
            let shape: &[usize] = if verify == Verify::Block { &[1, 1, 1] } else { &[2, 2] };
            let mut batch = Batch::new();
            let id = batch.add(params.clone()).expect("parameters");
            let (drawn, verdicts) = speculate(&toy, &mut batch, id, None, 20, verify, |batch, text| {
                guessed(batch, id, &drafter, text, shape)
            });
            let accepted: usize = verdicts.iter().map(|verdict| verdict.path.len()).sum();
            assert!(accepted > 4, "{verify} {accepted}");
            let mut sampler = Sampler::new(params.clone()).expect("parameters");
            for sampled in drawn {
                let row = toy.row(sampler.output());
                let distribution = sampler.distribution(&row).expect("a distribution");
                let place = distribution.tokens.iter().position(|&token| token == sampled.token);
                let place = place.expect("a token that can be drawn");
                // The middle of its share of the mass, where the inverse distribution function gives this
                // token.
                let before: f64 = distribution.probabilities[..place].iter().sum();
                let uniform = before + distribution.probabilities[place] / 2.0;
                let expected = sampler.sample_uniform(&row, uniform).expect("a token");
                assert_eq!(sampled, expected, "{verify}");
            }
            assert_eq!(batch.mirostat_mu(id), sampler.mirostat_mu());
        }
    }
}
