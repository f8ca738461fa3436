//! The rows of the grid: what texts are drawn by, and after which prompts. `bench/grid/rows.json` has them, and the
//! programs beside it read the same file.

use std::path::Path;

use onedraw::SamplingParams;
use onedraw_grammar::Grammar;
use onedraw_lm::{Generated, Generator, Llama};
use serde::Deserialize;

use crate::drafters::Models;
use crate::vocabularies;

/// The whole file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// How many tokens a text has at most, where its row does not say.
    length: u32,
    batches: Vec<Vec<Prompt>>,
    /// Rows that other systems are asked for too.
    rows: Vec<Line>,
    /// Rows with parameters that they lack.
    more: Vec<Line>,
}

/// A row as it is in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    name: String,
    params: serde_json::Value,
    schema: Option<String>,
    length: Option<u32>,
    text_of: Option<String>,
}

/// What a text follows, and its seed. It is the same seed in every row, so that rows differ by their settings alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    prompt: String,
    seed: u64,
}

/// One kind of settings.
pub struct Row {
    pub name: String,
    params: SamplingParams,
    grammar: Option<Grammar>,
    /// How many tokens its texts have at most.
    length: u32,
    /// The row whose texts these settings rightly leave as they are.
    pub text_of: Option<String>,
}

/// Reads the rows, and the prompts whose texts are written side by side.
pub fn read() -> (Vec<Row>, Vec<Vec<Prompt>>) {
    let text = include_str!("../../../../bench/grid/rows.json");
    let File { length, batches, rows, more } = serde_json::from_str(text).expect("rows");
    let row = |Line { name, params, schema, length: own, text_of }| Row {
        params: SamplingParams::from_value(params).expect(&name),
        grammar: schema.as_deref().map(grammar),
        length: own.unwrap_or(length),
        name,
        text_of,
    };
    (rows.into_iter().chain(more).map(row).collect(), batches)
}

impl Row {
    /// Whether a grammar leaves few tokens to guess, or text is taken back with guesses that held.
    pub fn is_bound(&self) -> bool {
        self.grammar.is_some() || !self.params.banned_strings.is_empty()
    }

    /// Writes its texts after these prompts, of at most so many tokens. Returns them with the generator, which knows
    /// what was guessed.
    pub fn write<'a>(
        &self,
        models: &Models,
        mut generator: Generator<'a, Llama>,
        prompts: &[Prompt],
        most: u32,
    ) -> (Vec<Generated>, Generator<'a, Llama>) {
        let constraint = self.grammar.as_ref().map(Grammar::start);
        for Prompt { prompt, seed } in prompts {
            let prompt = models.tokenizer.encode(prompt).expect("tokens");
            let params = SamplingParams {
                seed: Some(*seed),
                max_tokens: self.length.min(most),
                eos_token_id: vec![0],
                ..self.params.clone()
            };
            match &constraint {
                Some(constraint) => generator.add_constrained(&prompt, params, constraint),
                None => generator.add(&prompt, params),
            }
            .expect(&self.name);
        }
        let texts = generator.finish().expect(&self.name);
        assert!(texts.iter().all(|text| text.error.is_none()), "{}: {texts:?}", self.name);
        (texts, generator)
    }
}

/// The grammar of a schema that is named by its place in the repository.
fn grammar(schema: &str) -> Grammar {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(schema);
    let schema = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    Grammar::compact_json_schema(&vocabularies::stories(), &schema).expect("a schema")
}
