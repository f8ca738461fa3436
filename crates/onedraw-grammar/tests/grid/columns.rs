//! The columns of the grid: who guesses, and in which trees.

use std::collections::BTreeSet;

use onedraw_lm::speculate::{Guessed, Speculation};
use onedraw_lm::{Generated, Generator};
use sha2::{Digest, Sha256};

use super::rows::{Prompt, Row};
use crate::drafters::{Kind, Models, shapes};

/// How much of the product is made.
#[derive(Clone, Copy)]
pub enum Extent {
    /// All shapes and all batches in every cell, whole texts.
    Whole,
    /// One shape and one batch in every cell, so that every drafter meets all of each; short texts.
    Selection,
}

impl Extent {
    /// How many tokens a text has at most.
    pub fn most(self) -> u32 {
        match self {
            Self::Whole => u32::MAX,
            Self::Selection => 16,
        }
    }

    /// The shapes and the batches of a cell.
    fn of_cell(self, row: usize, column: usize, batches: usize) -> (Vec<Speculation>, Vec<usize>) {
        match self {
            Self::Whole => (shapes().to_vec(), (0..batches).collect()),
            // Six shapes and three batches: without the quotient every shape would always meet the same batch.
            Self::Selection => {
                let place = row + column;
                (vec![shapes()[place % shapes().len()]], vec![(place + row / shapes().len()) % batches])
            }
        }
    }
}

/// A row and a drafter.
pub struct Cell {
    /// What plain decoding wrote for the same batches.
    pub plain: String,
    /// What was written, for each shape.
    pub written: Vec<String>,
    /// How many texts that were, and how many tokens.
    pub texts: usize,
    pub tokens: usize,
    pub counts: Counts,
}

impl Cell {
    /// The hashes of all shapes, each once.
    pub fn hashes(&self) -> BTreeSet<&str> {
        self.written.iter().map(String::as_str).collect()
    }

    /// Whether every shape wrote what plain decoding did.
    pub fn holds(&self) -> bool {
        self.hashes() == BTreeSet::from([self.plain.as_str()])
    }
}

/// What became of guesses.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Guesses that were verified.
    pub guesses: usize,
    /// How often one of the guesses at a place had to be the next token, and how often it was.
    pub judged: usize,
    pub held: usize,
    /// Passes with guesses, and what they gave.
    pub passes: usize,
    pub tokens: usize,
}

impl Counts {
    pub fn add(&mut self, other: Self) {
        self.guesses += other.guesses;
        self.judged += other.judged;
        self.held += other.held;
        self.passes += other.passes;
        self.tokens += other.tokens;
    }

    fn of(guessed: &Guessed) -> Self {
        Self {
            guesses: guessed.guesses,
            judged: guessed.depths.iter().map(|depth| depth.0).sum(),
            held: guessed.depths.iter().map(|depth| depth.1).sum(),
            passes: guessed.passes,
            tokens: guessed.tokens,
        }
    }
}

/// What plain decoding writes for a row, batch by batch.
pub fn plain(models: &Models, row: &Row, batches: &[Vec<Prompt>], extent: Extent) -> Vec<Vec<Generated>> {
    let write = |prompts: &Vec<Prompt>| {
        let generator = Generator::new(&models.target, &models.tokenizer);
        row.write(models, generator, prompts, extent.most()).0
    };
    batches.iter().map(write).collect()
}

/// Writes a cell: of a row with its number and its texts without guesses, and a drafter with its number.
pub fn cell(
    models: &Models,
    prompts: &[Vec<Prompt>],
    (number, row, plain): (usize, &Row, &[Vec<Generated>]),
    (column, kind): (usize, Kind),
    extent: Extent,
) -> Cell {
    let (shapes, batches) = extent.of_cell(number, column, prompts.len());
    let plain: Vec<_> = batches.iter().map(|&batch| plain[batch].clone()).collect();
    let mut cell =
        Cell { plain: hash(&plain), written: Vec::new(), texts: 0, tokens: 0, counts: Counts::default() };
    for shape in shapes {
        let mut written = Vec::new();
        for &batch in &batches {
            let generator = kind.of(models, Generator::new(&models.target, &models.tokenizer), shape);
            let (texts, generator) = row.write(models, generator, &prompts[batch], extent.most());
            cell.texts += texts.len();
            cell.tokens += texts.iter().map(|text| text.tokens.len()).sum::<usize>();
            cell.counts.add(Counts::of(generator.guessed().expect("guesses")));
            written.push(texts);
        }
        cell.written.push(hash(&written));
    }
    cell
}

/// The first five bytes of SHA-256 over texts, reasons of their ends, and tokens with seeds, positions, logprobs, ranks
/// and mirostat's state, as JSON. Numbers are written with as many digits as tell their bits.
pub fn hash(batches: &[Vec<Generated>]) -> String {
    let text = |text: &Generated| serde_json::json!([text.text, text.finish, text.tokens]);
    let texts: Vec<_> = batches.iter().flatten().map(text).collect();
    let json = serde_json::to_string(&texts).expect("JSON");
    let bytes = Sha256::digest(json.as_bytes());
    bytes.iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}
