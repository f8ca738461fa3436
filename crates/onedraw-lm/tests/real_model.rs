//! A real model beside what transformers makes of it: SmolLM2, as models/smollm2 makes its folder. Its weights are not part of the repository,
//! so this only runs where `ONEDRAW_MODEL` names that folder.

use std::path::Path;

use onedraw_lm::{LanguageModel, Llama, Run};
use serde::Deserialize;

/// tests/real_model.json
#[derive(Deserialize)]
struct Expected {
    prompt: Vec<u32>,
    /// The best tokens after the prompt, the best first.
    top: Vec<u32>,
    /// Their logits.
    logits: Vec<f32>,
    /// What follows the prompt at temperature 0.
    greedy: Vec<u32>,
}

/// Tokens from the highest logit down, the lower id first among equals.
fn ranked(logits: &[f32]) -> Vec<u32> {
    let mut tokens: Vec<u32> = (0..logits.len() as u32).collect();
    tokens.sort_by(|&a, &b| logits[b as usize].total_cmp(&logits[a as usize]));
    tokens
}

#[test]
fn smollm2_is_that_of_transformers() {
    let Some(folder) = std::env::var_os("ONEDRAW_MODEL") else {
        println!("skipped: ONEDRAW_MODEL names no folder (models/smollm2/README.md says how to make it)");
        return;
    };
    let expected: Expected = serde_json::from_str(include_str!("real_model.json")).unwrap();
    assert_eq!((expected.top.len(), expected.logits.len(), expected.greedy.len()), (10, 10, 32));
    let model = Llama::open(Path::new(&folder)).unwrap();
    let mut sequence = model.start();
    let mut append =
        |tokens: &[u32]| model.forward(&mut [Run::line(&mut sequence, tokens)]).unwrap().remove(0).logits;

    let mut logits = append(&expected.prompt);
    assert_eq!(&ranked(&logits)[..10], expected.top);
    let found = expected.top.iter().map(|&token| logits[token as usize]);
    let largest = found.zip(&expected.logits).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("the ten best logits differ by {largest:.1e} at most");
    assert!(largest < 1e-2, "{largest}");

    let mut greedy = Vec::new();
    for _ in 0..32 {
        greedy.push(ranked(&logits)[0]);
        logits = append(&greedy[greedy.len() - 1..]);
    }
    assert_eq!(greedy, expected.greedy);
}
