//! How long masks take: the vocabulary, a schema, and each mask of texts drawn under it, with 4,096, 50,000
//! and 200,000 tokens.
//!
//! `cargo bench -p onedraw-grammar --bench mask_time`
//!
//! The small vocabulary is the embedded model's. The larger ones go on with joined pairs of its tokens in a
//! fixed order, so they are as ragged as those of large models, but not the same. A row of logits is made
//! between two masks, so memory is as cold as a model leaves it. The longest masks are the first of each kind
//! in a text, which fill the tables of the lexer.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use onedraw::{Constraint, Sampler, SamplingParams};
use onedraw_grammar::{Grammar, Vocabulary};
use onedraw_lm::{Tokenizer, stories};

const SCHEMAS: [(&str, &str); 3] = [
    (
        "five fields",
        r#"{"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 40},
            "colour": {"enum": ["red", "green", "blue", "bright yellow"]},
            "age": {"type": "integer", "minimum": 0, "maximum": 150},
            "zip": {"type": "string", "pattern": "^[0-9]{5}(-[0-9]{4})?$"},
            "happy": {"type": "boolean"}
          }, "required": ["name", "colour", "age", "zip", "happy"], "additionalProperties": false}"#,
    ),
    (
        "list of people",
        r##"{"type": "array", "minItems": 3, "maxItems": 8, "items": {"$ref": "#/$defs/person"}, "$defs": {"person":
            {"type": "object", "properties": {"name": {"type": "string"}, "email": {"type": "string", "pattern": "^[a-z.]+@[a-z]+\\.[a-z]{2,3}$"},
             "friends": {"type": "array", "items": {"type": "string"}}}, "required": ["name"], "additionalProperties": false}}}"##,
    ),
    ("any object", r#"{"type": "object"}"#),
];

/// Tokens of a text, at most.
const LONGEST: usize = 250;
const TEXTS: u64 = 12;

/// The tokenizer's tokens, and pairs of them up to a number.
fn tokens(tokenizer: &Tokenizer, count: usize) -> Vec<Vec<u8>> {
    let mut tokens: Vec<Vec<u8>> =
        (0..tokenizer.len() as u32).map(|token| tokenizer.bytes(token).to_vec()).collect();
    let mut seen: BTreeSet<Vec<u8>> = tokens.iter().cloned().collect();
    let own = tokens.len() as u64;
    // Steps that visit every pair once, the first of each being a short word more often than not.
    let (mut pair, stride) = (1_u64, 6_700_417_u64);
    while tokens.len() < count {
        pair = (pair + stride) % (own * own);
        let (first, second) = ((pair / own) as usize, (pair % own) as usize);
        let joined = [tokens[first].as_slice(), tokens[second].as_slice()].concat();
        if joined.len() <= 24 && seen.insert(joined.clone()) {
            tokens.push(joined);
        }
    }
    tokens
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len() - 1);
    sorted[at].as_secs_f64() * 1e6
}

fn main() -> Result<(), Box<dyn Error>> {
    let tokenizer = Arc::new(stories::tokenizer()?);
    println!(
        "| tokens | vocabulary ms | schema | compile ms | start us | fork us | accept us | masks | mask us, p50 | p90 | p99 | max |"
    );
    println!("|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    for count in [4096, 50_000, 200_000] {
        let tokens = tokens(&tokenizer, count);
        let cutter = Arc::clone(&tokenizer);
        let begin = Instant::now();
        let vocabulary = Vocabulary::builder(&tokens)
            .eos([0])
            .cut_by(move |text| cutter.encode_plain(text).ok())
            .build()?;
        let built = begin.elapsed();
        for (name, schema) in SCHEMAS {
            let mut compiled: Vec<Duration> = Vec::new();
            let mut grammar = None;
            for _ in 0..9 {
                let begin = Instant::now();
                grammar = Some(Grammar::json_schema(&vocabulary, schema)?);
                compiled.push(begin.elapsed());
            }
            let grammar = grammar.ok_or("no grammar")?;
            let (mut masks, mut starts, mut forks, mut accepts) =
                (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for seed in 0..TEXTS {
                let mut sampler =
                    Sampler::new(SamplingParams::builder().temperature(1.0).seed(seed).build()?)?;
                let begin = Instant::now();
                let mut matcher = grammar.start();
                starts.push(begin.elapsed());
                for step in 0..LONGEST as u64 {
                    let begin = Instant::now();
                    let mask = matcher.mask()?;
                    masks.push(begin.elapsed());
                    // Any row will do; what closes is liked a little, so that texts go on to the next part.
                    let logits: Vec<f32> = (0..)
                        .zip(&tokens)
                        .map(|(token, bytes)| noise(seed, step, token) + liking(bytes, count))
                        .collect();
                    let token = sampler.sample_masked(&logits, mask)?.token;
                    let begin = Instant::now();
                    matcher.accept(token)?;
                    accepts.push(begin.elapsed());
                    if vocabulary.is_eos(token) {
                        break;
                    }
                    if step % 16 == 0 {
                        let begin = Instant::now();
                        let fork = matcher.fork();
                        forks.push(begin.elapsed());
                        drop(fork);
                    }
                }
            }
            [&mut masks, &mut starts, &mut forks, &mut accepts, &mut compiled]
                .into_iter()
                .for_each(|times| times.sort());
            println!(
                "| {count} | {:.0} | {name} | {:.2} | {:.0} | {:.0} | {:.1} | {} | {:.1} | {:.1} | {:.1} | {:.0} |",
                built.as_secs_f64() * 1e3,
                percentile(&compiled, 50) / 1e3,
                percentile(&starts, 50),
                percentile(&forks, 50),
                percentile(&accepts, 50),
                masks.len(),
                percentile(&masks, 50),
                percentile(&masks, 90),
                percentile(&masks, 99),
                percentile(&masks, 100),
            );
        }
    }
    Ok(())
}

fn liking(bytes: &[u8], count: usize) -> f32 {
    let closes = bytes.is_empty() || bytes.iter().any(|byte| b"\"}]".contains(byte));
    if closes { 2.0 + (count as f32 / 4096.0).sqrt() / 4.0 } else { 0.0 }
}

/// Between -2 and 2.
fn noise(seed: u64, step: u64, token: u64) -> f32 {
    let mut x = (seed << 40 ^ step << 20 ^ token).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (x >> 40) as f32 / (1 << 22) as f32 - 2.0
}
