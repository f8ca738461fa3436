//! Guesses under a schema: the grammar goes along the guesses and comes back, and texts, tokens and logprobs
//! are those of plain decoding.

use onedraw::{SamplingParams, presets};
use onedraw_grammar::Grammar;
use onedraw_lm::speculate::Speculation;
use onedraw_lm::{Generated, Generator, Llama};

use crate::drafters::{KINDS, Models, fixed};
use crate::vocabularies;

const PET: &str = include_str!("../../../examples/pet.json");

/// Three texts side by side: two that keep to a schema, with settings of their own, and one that is free.
fn texts(mut generator: Generator<'_, Llama>, models: &Models, seed: u64) -> Vec<Generated> {
    let grammar = Grammar::compact_json_schema(&vocabularies::stories(), PET).expect("a schema");
    let with = |params: SamplingParams, seed: u64| SamplingParams {
        seed: Some(seed),
        max_tokens: 90,
        eos_token_id: vec![0],
        logprobs: Some(2),
        ..params
    };
    let prompt = |text: &str| models.tokenizer.encode(text).expect("tokens");
    let penalized = SamplingParams { repetition_penalty: 1.1, presence_penalty: 0.3, ..presets::creative() };
    generator
        .add_constrained(&prompt("My pet: "), with(presets::balanced(), seed), &grammar.start())
        .expect("a request");
    generator
        .add_constrained(&prompt("Her dog is "), with(penalized, seed + 1), &grammar.start())
        .expect("a request");
    generator.add(&prompt("One day"), with(presets::balanced(), seed + 2)).expect("a request");
    generator.finish().expect("texts")
}

#[test]
fn guesses_under_a_schema_change_nothing() {
    let models = Models::new();
    let shapes = [fixed(1, 4), fixed(3, 2), Speculation::default()];
    let mut tokens = 0;
    for (i, kind) in KINDS.into_iter().enumerate() {
        let seed = 100 * i as u64;
        let plain = texts(Generator::new(&models.target, &models.tokenizer), &models, seed);
        for text in &plain[..2] {
            let value: serde_json::Value = serde_json::from_str(&text.text).expect("a whole value");
            assert!(value["age"].as_u64().is_some_and(|age| (1..=20).contains(&age)), "{value}");
        }
        for speculation in shapes {
            let generator = Generator::new(&models.target, &models.tokenizer);
            let guessing = texts(kind.of(&models, generator, speculation), &models, seed);
            for (guessing, plain) in guessing.iter().zip(&plain) {
                assert_eq!(guessing.text, plain.text, "{kind:?}, {speculation:?}");
                assert_eq!(guessing.tokens, plain.tokens, "{kind:?}, {speculation:?}");
                assert_eq!(guessing.finish, plain.finish, "{kind:?}, {speculation:?}");
                tokens += plain.tokens.len();
            }
        }
    }
    assert!(tokens > 2000, "{tokens}");
}
