//! Random schemas, texts drawn under their masks, and what an independent validator says of them.

use onedraw::{Constraint, Sampler, SamplingParams};
use onedraw_grammar::Grammar;
use serde_json::Value;

use crate::chance::Chance;
use crate::schema_maker;
use crate::vocabularies;

const SCHEMAS: u64 = 300;
/// What is longer counts as not ended.
const LONGEST: usize = 300;

/// Draws a text from logits that say little, but like what closes and ends.
fn draw(grammar: &Grammar, seed: u64, temperature: f64) -> Option<String> {
    let tokenizer = vocabularies::tokenizer();
    let params = SamplingParams::builder().temperature(temperature).seed(seed).build().unwrap();
    let mut sampler = Sampler::new(params).unwrap();
    let mut chance = Chance::new(seed);
    let mut matcher = grammar.start();
    for _ in 0..LONGEST {
        let mut logits = chance.logits(tokenizer.len());
        for (token, logit) in (0..).zip(&mut logits) {
            let bytes = tokenizer.bytes(token);
            if bytes.is_empty() || bytes.iter().any(|byte| b"\"}]".contains(byte)) {
                *logit += 3.0;
            }
        }
        let token = sampler.sample_masked(&logits, matcher.mask().unwrap()).unwrap().token;
        matcher.accept(token).unwrap();
        if token == 0 {
            let bytes: Vec<u8> =
                matcher.tokens().iter().flat_map(|&token| tokenizer.bytes(token)).copied().collect();
            return Some(String::from_utf8(bytes).expect("a text is UTF-8"));
        }
    }
    None
}

#[test]
fn texts_keep_to_random_schemas() {
    let vocabulary = vocabularies::stories();
    let (mut ended, mut drawn, mut characters) = (0, 0, 0);
    for seed in 0..SCHEMAS {
        let schema = schema_maker::schema(&mut Chance::new(seed));
        let validator = jsonschema::validator_for(&schema).unwrap();
        let written = schema.to_string();
        let grammars = [
            Grammar::json_schema(&vocabulary, &written),
            Grammar::compact_json_schema(&vocabulary, &written),
        ];
        for (grammar, temperature) in grammars.into_iter().zip([1.0, 1.5]) {
            let grammar = grammar.unwrap_or_else(|error| panic!("schema {seed}: {error}: {written}"));
            drawn += 1;
            let Some(text) = draw(&grammar, seed, temperature) else { continue };
            ended += 1;
            characters += text.chars().count();
            let value: Value =
                serde_json::from_str(&text).unwrap_or_else(|error| panic!("schema {seed}: {error}: {text}"));
            if let Err(error) = validator.validate(&value) {
                panic!("schema {seed}: {error}: {text} under {written}");
            }
        }
    }
    assert_eq!(drawn, 2 * SCHEMAS);
    assert!(ended * 100 >= drawn * 80, "{ended} of {drawn} ended");
    // Long enough to have held something.
    assert!(characters as u64 > 30 * ended, "{characters} in {ended}");
    println!("{ended} of {drawn} texts ended by themselves, with {characters} characters");
}
