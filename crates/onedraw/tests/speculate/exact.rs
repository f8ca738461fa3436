//! Exact mode: the text is that of plain decoding, bit for bit, whatever the drafter guesses.

use onedraw::speculate::{Draft, DraftTree, Verify};
use onedraw::{Batch, LogprobsMode, SamplingParams};
use onedraw_testkit::rows::SplitMix64;

use super::toy::{Rules, Toy, plain, speculate};

const LENGTH: usize = 24;

fn parameters() -> Vec<SamplingParams> {
    let base = SamplingParams { seed: Some(5), max_tokens: 100, ..SamplingParams::default() };
    vec![
        base.clone(),
        SamplingParams { temperature: 0.0, logprobs: Some(1), ..base.clone() },
        SamplingParams {
            repetition_penalty: 1.4,
            frequency_penalty: 0.3,
            presence_penalty: 0.2,
            bad_words_ids: vec![vec![3], vec![5, 6], vec![10, 11, 12]],
            logprobs: Some(3),
            ..base.clone()
        },
        SamplingParams {
            top_p: 0.8,
            min_p: 0.02,
            top_k: 12,
            temperature: 1.3,
            logprobs: Some(0),
            ..base.clone()
        },
        SamplingParams {
            mirostat: 2,
            mirostat_tau: 3.0,
            logprobs: Some(2),
            logprobs_mode: LogprobsMode::ProcessedLogprobs,
            ..base.clone()
        },
        SamplingParams { xtc_probability: 0.5, xtc_threshold: 0.08, logprobs: Some(1), ..base.clone() },
        SamplingParams { no_repeat_ngram_size: 2, dry_multiplier: 0.8, n: 1, ..base },
    ]
}

/// A random tree over a part of the vocabulary.
fn random_tree(random: &mut SplitMix64, nodes: usize, vocabulary: usize) -> DraftTree {
    let mut tree = DraftTree::new();
    for _ in 0..nodes {
        let parent = random.below(tree.len() + 1).checked_sub(1);
        tree.push(parent, random.below(vocabulary) as u32);
    }
    tree
}

#[test]
fn the_text_is_that_of_plain_decoding() {
    let toy = Toy { seed: 1, vocabulary: 40, sharpness: 2.0 };
    for (number, params) in parameters().into_iter().enumerate() {
        for rules in [None, Some(Rules::new(toy.vocabulary))] {
            let mut batch = Batch::new();
            let id = batch.add(params.clone()).expect("parameters");
            let expected = plain(&toy, &mut batch, id, rules.clone(), LENGTH);
            let text = batch.output(id).expect("a text").to_vec();
            let mut random = SplitMix64::new(number as u64);
            let ahead = |so_far: &[u32], count: usize| {
                text.iter().skip(so_far.len()).take(count).copied().collect::<Vec<u32>>()
            };
            for drafter in 0..6 {
                let id = batch.add(params.clone()).expect("parameters");
                let (drawn, verdicts) =
                    speculate(&toy, &mut batch, id, rules.clone(), LENGTH, Verify::Exact, |_, so_far| {
                        let right = ahead(so_far, 4);
                        match drafter {
                            0 => Draft::default(),
                            1 => Draft::chain(&right),
                            // Guesses that are never right.
                            2 => {
                                Draft::chain(&right.iter().map(|token| (token + 1) % 40).collect::<Vec<_>>())
                            }
                            3 => Draft { tree: random_tree(&mut random, 12, 40), ..Draft::default() },
                            // Guesses that are right, but not among the first.
                            4 => {
                                let mut tree = random_tree(&mut random, 6, 40);
                                let mut node = None;
                                for &token in &right {
                                    node = Some(tree.push(node, token));
                                }
                                Draft::given(tree)
                            }
                            // Ids that no row has.
                            _ => Draft::chain(&[right.first().copied().unwrap_or(0), 4_000_000_000]),
                        }
                    });
                let of_plain = &expected[..drawn.len()];
                assert_eq!(drawn, of_plain, "parameters {number}, drafter {drafter}");
                assert_eq!(batch.output(id).expect("a text")[..LENGTH], text[..LENGTH]);
                let accepted: usize = verdicts.iter().map(|verdict| verdict.path.len()).sum();
                match drafter {
                    0 | 2 => assert_eq!(accepted, 0),
                    1 | 4 if rules.is_none() => assert!(accepted >= LENGTH * 7 / 10, "{accepted}"),
                    _ => {}
                }
            }
        }
    }
}

/// In every mode, the result is the same on any number of threads and shards.
#[test]
fn the_verdict_is_the_same_over_any_threads_and_shards() {
    let (toy, drafter) =
        (Toy { seed: 3, vocabulary: 300, sharpness: 1.5 }, Toy { seed: 4, vocabulary: 300, sharpness: 1.5 });
    let params = SamplingParams { seed: Some(9), top_p: 0.9, logprobs: Some(1), ..SamplingParams::default() };
    for verify in Verify::ALL {
        let mut texts = Vec::new();
        for mut batch in [Batch::new(), Batch::new().threads(2), Batch::new().shards(3)] {
            let id = batch.add(params.clone()).expect("parameters");
            texts.push(speculate(&toy, &mut batch, id, None, 12, verify, |batch, text| {
                super::toy::guessed(batch, id, &drafter, text, &[1, 1])
            }));
        }
        assert_eq!(texts[0], texts[1]);
        assert_eq!(texts[0], texts[2]);
    }
}
