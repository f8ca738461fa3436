//! The folders beside this file.

use std::fmt::Display;
use std::path::PathBuf;

use onedraw_lm::llama::Memory;
use onedraw_lm::{Answer, Asks, LanguageModel, Llama, Run, Wanted};
use safetensors::SafeTensors;

/// A model and what transformers says of it.
pub struct Folder {
    pub name: String,
    pub path: PathBuf,
    pub prompt: Vec<u32>,
    /// Of every position of the prompt.
    pub logits: Vec<f32>,
    /// The tokens that follow the prompt at temperature 0.
    pub greedy: Vec<u32>,
}

/// All of them but for the embedded model.
pub fn all() -> Vec<Folder> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(here()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.join("config.json").exists());
    paths.sort();
    // None may be lost in silence.
    assert_eq!(paths.len(), 9);
    paths.into_iter().map(Folder::read).collect()
}

/// The embedded model, whose folder is elsewhere.
pub fn stories() -> Folder {
    let path = here().join("../../../../models/stories");
    Folder { path, ..Folder::read(here().join("stories")) }
}

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/transformers")
}

impl Folder {
    fn read(path: PathBuf) -> Self {
        let bytes = std::fs::read(path.join("expected.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let tokens = |name| bytemuck::pod_collect_to_vec(tensors.tensor(name).unwrap().data());
        Self {
            name: path.file_name().unwrap().to_str().unwrap().to_owned(),
            prompt: tokens("prompt"),
            logits: bytemuck::pod_collect_to_vec(tensors.tensor("logits").unwrap().data()),
            greedy: tokens("greedy"),
            path,
        }
    }

    pub fn model(&self) -> Llama {
        Llama::open(&self.path).unwrap()
    }

    /// The prompt and what follows it.
    pub fn text(&self) -> Vec<u32> {
        [&self.prompt[..], &self.greedy].concat()
    }
}

/// Asks for the logits of all tokens.
pub const ALL: Asks<'static> = Asks { logits: Wanted::All, exit: None, states: &[], frequent: false };

/// Appends tokens and gives what was asked of them.
pub fn ask(model: &Llama, sequence: &mut Memory, tokens: &[u32], asks: Asks<'_>) -> Answer {
    let answers = model.forward(&mut [Run { sequence, tokens, parents: None, known: None, asks }]).unwrap();
    answers.into_iter().next().unwrap()
}

/// Appends tokens and gives the logits of all of them.
pub fn append(model: &Llama, sequence: &mut Memory, tokens: &[u32]) -> Vec<f32> {
    ask(model, sequence, tokens, ALL).logits
}

/// The logits of every position of a text, run at once.
pub fn line(model: &Llama, text: &[u32]) -> Vec<f32> {
    append(model, &mut model.start(), text)
}

/// A text that differs from the given one almost everywhere.
pub fn other(text: &[u32]) -> Vec<u32> {
    text.iter().rev().map(|token| (token * 7 + 3) % 131).collect()
}

/// Asserts that numbers are the same bits.
pub fn assert_same(what: impl Display, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}: how many numbers");
    assert!(!expected.is_empty() && expected.iter().all(|number| number.is_finite()), "{what}: no numbers");
    if let Some(i) = (0..found.len()).find(|&i| found[i].to_bits() != expected[i].to_bits()) {
        panic!("{what}: number {i} is {:e}, expected {:e}", found[i], expected[i]);
    }
}
