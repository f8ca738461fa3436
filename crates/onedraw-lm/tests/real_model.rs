//! A real model beside what transformers makes of it: SmolLM2, as models/smollm2 makes its folder. Its
//! weights are not part of the repository, so this only runs where `ONEDRAW_MODEL` names that folder.

use std::io::Write;
use std::path::{Path, PathBuf};

use onedraw::{Kernel, SamplingParams, presets};
use onedraw_lm::speculate::{Guesser, Speculation};
use onedraw_lm::{ChatTemplate, Generator, LanguageModel, Llama, Message, Run, Tokenizer};
use serde::Deserialize;

use crate::checkpoint::Checkpoint;

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

/// What guesses for it, which is part of the repository.
fn guessers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/smollm2")
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

/// Text is the same with its drafter and with its EAGLE head, and most guesses hold at temperature 0.
#[test]
fn smollm2_is_guessed() {
    let Some(folder) = folder() else { return };
    let whole = tempfile::tempdir().unwrap();
    let copy = |from: &Path, name: &str| {
        let to = whole.path().join(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(from.join(name), to).unwrap();
    };
    for name in ["config.json", "model.safetensors", "tokenizer.json"] {
        copy(&folder, name);
    }
    for part in ["drafter", "eagle"] {
        copy(&guessers(), &format!("{part}/config.json"));
        copy(&guessers(), &format!("{part}/model.safetensors"));
    }
    copy(&guessers(), "shortlist.json");
    let tokenizer = Tokenizer::open(whole.path()).unwrap();
    let model = Llama::open(whole.path()).unwrap();
    assert_eq!(model.shortlist().expect("a list").tokens().len(), 8192);
    let fixed = Speculation { width: 2, depth: 3, adapts: false, ..Speculation::default() };
    let guessers = [
        Guesser::own(Some(whole.path()), &model, &tokenizer, Kernel::Auto, 2).unwrap(),
        Guesser::eagle(Some(whole.path()), &model).unwrap(),
    ];
    let prompt = tokenizer.encode("One day a fox came to the river").unwrap();
    for (preset, least) in [(presets::deterministic(), 0.5), (presets::balanced(), 0.3)] {
        let params = SamplingParams { seed: Some(3), max_tokens: 60, ..preset };
        let write = |generator: Generator<'_, Llama>| {
            let mut generator = generator;
            generator.add(&prompt, params.clone()).unwrap();
            let text = generator.finish().unwrap().remove(0).text;
            let (judged, held) = generator.guessed().map_or((1, 1), |guessed| guessed.depths[0]);
            (text, held as f64 / judged as f64)
        };
        let (plain, _) = write(Generator::new(&model, &tokenizer));
        for guesser in &guessers {
            let generator = Generator::new(&model, &tokenizer);
            let (text, held) = write(guesser.beside(generator, &model, fixed).unwrap());
            println!("{held:.2} of the first guesses held");
            assert_eq!(text, plain);
            assert!(held > least, "{held}");
        }
    }
}

/// They are small enough to be part of the repository, and have the model's shape.
#[test]
fn smollm2s_guessers_fit() {
    let drafter = Llama::open(&guessers().join("drafter")).unwrap();
    assert_eq!((drafter.vocabulary(), drafter.layers()), (49_152, 8));
    let head = Checkpoint::read(&guessers().join("eagle/model.safetensors")).header;
    assert_eq!(head["fc.weight"]["shape"], serde_json::json!([576, 2 * 576]));
    assert_eq!(head["layers.1.mlp.gate_proj.weight"]["shape"], serde_json::json!([1024, 576]));
    for name in ["drafter", "eagle"] {
        let size = std::fs::metadata(guessers().join(name).join("model.safetensors")).unwrap().len();
        assert!(size <= 12 << 20, "{name}: {size}");
    }
    let list: Vec<u32> =
        serde_json::from_slice(&std::fs::read(guessers().join("shortlist.json")).unwrap()).unwrap();
    assert_eq!(list.len(), 8192);
    assert!(list.is_sorted_by(|a, b| a < b) && list[8191] < 49_152);
}
