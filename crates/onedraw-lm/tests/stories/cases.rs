//! What the embedded model writes: prompts, parameters and what must come of them.

use std::collections::BTreeMap;

use onedraw::SamplingParams;
use onedraw_lm::{Generated, Generator, Llama, Tokenizer, stories};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A prompt and parameters.
pub const CASES: [(&str, &str); 9] = [
    ("Once upon a time", r#"{"seed": 1, "temperature": 0.7, "top_k": 50, "top_p": 0.9, "max_tokens": 300}"#),
    (
        "Once upon a time",
        r#"{"seed": 18446744073709551615, "temperature": 0.7, "top_k": 50, "top_p": 0.9, "max_tokens": 300}"#,
    ),
    ("Once upon a time", r#"{"seed": 1, "temperature": 0, "max_tokens": 100}"#),
    (
        "Tom and his dog",
        r#"{"seed": 2, "temperature": 1.2, "top_k": 100, "top_p": 0.95, "repetition_penalty": 1.1, "max_tokens": 100, "n": 3}"#,
    ),
    ("", r#"{"seed": 3, "max_tokens": 60}"#),
    (
        "One day, a little girl named Sue went to the",
        r#"{"seed": 4, "min_p": 0.05, "xtc_probability": 0.5, "max_tokens": 80}"#,
    ),
    ("\"Look at the moon!\" said", r#"{"seed": 5, "mirostat": 2, "mirostat_tau": 3, "max_tokens": 80}"#),
    (
        "The cat sat on the mat. The cat",
        r#"{"seed": 6, "dry_multiplier": 0.8, "typical_p": 0.9, "stop": [".\n", "!"], "max_tokens": 80}"#,
    ),
    (
        "Once upon a time, in a small village,",
        r#"{"seed": 7, "banned_strings": [" little", " big", "named"], "top_p": 0.95, "max_tokens": 80}"#,
    ),
];

/// One text, as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Story {
    pub prompt: String,
    /// As they stand in the case, sorted by name.
    pub params: BTreeMap<String, Value>,
    pub text: String,
    pub tokens: Vec<u32>,
    pub finish: String,
}

/// The parameters of a case, with the model's own end of a text.
pub fn params(json: &str) -> SamplingParams {
    let mut params = SamplingParams::from_json(json).expect(json);
    params.eos_token_id = stories::generation_config().expect("a generation config").eos_token_ids;
    params
}

pub fn story((prompt, json): (&str, &str), text: &Generated) -> Story {
    Story {
        prompt: prompt.to_owned(),
        params: serde_json::from_str(json).expect(json),
        text: text.text.clone(),
        tokens: text.tokens.iter().map(|sampled| sampled.token).collect(),
        finish: serde_json::to_value(text.finish).expect("a reason").as_str().expect("a name").to_owned(),
    }
}

/// The texts of a case, alone.
pub fn write(model: &Llama, tokenizer: &Tokenizer, (prompt, json): (&str, &str)) -> Vec<Story> {
    let mut generator = Generator::new(model, tokenizer);
    generator.add(&tokenizer.encode(prompt).expect(prompt), params(json)).expect(json);
    generator.finish().expect(json).iter().map(|text| story((prompt, json), text)).collect()
}
