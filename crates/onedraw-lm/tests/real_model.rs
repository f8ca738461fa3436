//! A real model beside what transformers makes of it: SmolLM2, as models/smollm2 makes its folder. Its
//! weights are not part of the repository, so this only runs where `ONEDRAW_MODEL` names that folder.

use std::io::Write;
use std::path::PathBuf;

use onedraw::SamplingParams;
use onedraw_lm::{ChatTemplate, Generator, LanguageModel, Llama, Message, Run, Tokenizer};
use serde::Deserialize;

/// tests/real_model.json
#[derive(Deserialize)]
struct Expected {
    /// A user's message, and the text that answers it at temperature 0.
    question: String,
    answer: String,
    /// The message as the model's template writes it.
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

/// The folder, if there is one. The line that says there is none is not captured with the test's output.
fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("ONEDRAW_MODEL").map(PathBuf::from);
    if folder.is_none() {
        let line = "skipped: ONEDRAW_MODEL names no folder (models/smollm2/README.md says how to make it)";
        let mut stderr = std::io::stderr();
        writeln!(stderr, "{line}").unwrap();
    }
    folder
}

fn expected() -> Expected {
    serde_json::from_str(include_str!("real_model.json")).unwrap()
}

/// From the question to the answer: template, tokenizer, model and decode loop.
#[test]
fn smollm2_answers() {
    let Some(folder) = folder() else { return };
    let Expected { question, answer, prompt, .. } = expected();
    let tokenizer = Tokenizer::open(&folder).unwrap();
    let template = ChatTemplate::open(&folder).unwrap().expect("a chat template");
    let chat = template.render(&[Message::new("user", question)], true).unwrap();
    assert_eq!(tokenizer.encode_plain(&chat).unwrap(), prompt);
    assert!(answer.contains("The capital of France is Paris."));
    let model = Llama::open(&folder).unwrap();
    let params = SamplingParams::builder().temperature(0.0).max_tokens(32u32).build().unwrap();
    let mut generator = Generator::new(&model, &tokenizer);
    generator.add(&prompt, params).unwrap();
    assert_eq!(generator.finish().unwrap()[0].text, answer);
}

#[test]
fn smollm2_is_that_of_transformers() {
    let Some(folder) = folder() else { return };
    let expected = expected();
    assert_eq!((expected.top.len(), expected.logits.len(), expected.greedy.len()), (10, 10, 32));
    let model = Llama::open(&folder).unwrap();
    let mut sequence = model.start();
    let mut append =
        |tokens: &[u32]| model.forward(&mut [Run::line(&mut sequence, tokens)]).unwrap().remove(0).logits;

    let mut logits = append(&expected.prompt);
    assert_eq!(&ranked(&logits)[..10], expected.top);
    let found = expected.top.iter().map(|&token| logits[token as usize]);
    let largest = found.zip(&expected.logits).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    println!("the ten best logits differ by {largest:.1e} at most");
    assert!(largest < 1e-3, "{largest}");

    let mut greedy = Vec::new();
    for _ in 0..32 {
        greedy.push(ranked(&logits)[0]);
        logits = append(&greedy[greedy.len() - 1..]);
    }
    assert_eq!(greedy, expected.greedy);
}
