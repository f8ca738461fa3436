//! Requests with mixed parameters. A seed, a client and a number name a request, so that a run can be repeated.

use std::time::Duration;

use hyper::body::Bytes;
use onedraw_testkit::rows::SplitMix64;
use serde_json::{Map, Value, json};

use crate::client::Leave;

/// Beginnings of stories. With the longest text each fits into the embedded model's 512 tokens.
const BEGINNINGS: [&str; 12] = [
    "Once upon a time",
    "One day, a little girl named Lily",
    "The dragon looked at the",
    "Tom and his dog Max went to the park.",
    "A",
    "\"Where are you?\" asked the old owl.\n",
    "In a small house near the sea lived a cat. The cat was called Zoë, and she liked naïve mice",
    "It was raining.\nIt was raining all day.\nIt was raining",
    "The king said: 1, 2, 3,",
    "Sam had a red ball. He threw the red ball up high. The red ball came down. Sam ran to get the red ball, but a \
     big bird took it and flew away over the trees to the hill where the sun goes down. Sam was sad. He asked his \
     mom what he could do, and his mom said that they could go and look for the bird together. So they",
    "Ben was happy because",
    "At night, the stars",
];

/// What is said in chats.
const MESSAGES: [&str; 6] = [
    "Tell me a story about a cat.",
    "What did the frog say to the boy?",
    "Once upon a time there was a bear. What did the bear do?",
    "Hi!",
    "Tell me more.",
    "Why is the sky blue, said the little girl, and why is the grass green?",
];

/// Strings that end a text, some of them often, some never.
const STOPS: [&str; 8] = [".", "\n", " Lily", "!\"", " the", "happy", "the end", "once upon"];

/// Words that a text must do without, by either of two parameters.
const BANNED: [&str; 5] = ["Lily", " mom", "happy", "She was", " day,"];

/// The interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    Completions,
    Chat,
    Responses,
}

impl Path {
    pub fn text(self) -> &'static str {
        match self {
            Self::Completions => "/v1/completions",
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
        }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: Path,
    body: Map<String, Value>,
    /// How many texts the answer must have.
    pub choices: usize,
    pub streams: bool,
    /// Whether the stream must end with the numbers of tokens.
    pub tells_usage: bool,
    /// Whether the client leaves the answer.
    pub leave: Option<Leave>,
}

impl Asked {
    /// A completion of which nothing else is asked.
    pub fn completion(body: Value, choices: usize, streams: bool) -> Self {
        let body = if let Value::Object(body) = body { body } else { Map::new() };
        Self { path: Path::Completions, body, choices, streams, tells_usage: streams, leave: None }
    }

    /// The same request in the other way, and to the end: a stream as a whole, a whole answer as a stream.
    pub fn otherwise(&self) -> Self {
        let streams = !self.streams;
        Self { streams, tells_usage: streams && self.path != Path::Responses, leave: None, ..self.clone() }
    }

    pub fn body(&self) -> Bytes {
        let mut body = self.body.clone();
        if self.streams {
            body.insert("stream".to_owned(), true.into());
        }
        if self.tells_usage {
            body.insert("stream_options".to_owned(), json!({"include_usage": true}));
        }
        Value::Object(body).to_string().into()
    }
}

/// The requests of one client.
pub struct Requests {
    random: SplitMix64,
}

impl Requests {
    pub fn new(seed: u64, client: usize) -> Self {
        let mut seeds = SplitMix64::new(seed);
        (0..client).for_each(|_| _ = seeds.next_u64());
        Self { random: SplitMix64::new(seeds.next_u64()) }
    }

    fn chance(&mut self, share: f64) -> bool {
        self.random.uniform() < share
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.random.uniform()
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.random.below(items.len())]
    }

    /// The next request.
    pub fn next(&mut self) -> Asked {
        let path = match self.random.below(20) {
            0..12 => Path::Completions,
            12..17 => Path::Chat,
            _ => Path::Responses,
        };
        let mut body = Map::new();
        let prompts = self.prompt(path, &mut body);
        let n = if path == Path::Responses || self.chance(0.6) { 1 } else { 1 + self.random.below(4) };
        if n > 1 {
            put(&mut body, "n", n);
        }
        let shift = self.random.below(64);
        put(&mut body, "seed", self.random.next_u64() >> shift);
        // Short texts are more frequent than long ones.
        let share = self.random.uniform();
        let length = 1 + (400.0 * share * share) as usize;
        put(&mut body, if path == Path::Responses { "max_output_tokens" } else { "max_tokens" }, length);
        self.truncations(&mut body);
        self.edits(&mut body);
        let is_formed = self.chance(0.1);
        if is_formed {
            self.form(path, &mut body);
        } else {
            self.ends(length, &mut body);
        }
        self.reports(path, &mut body);
        let streams = self.chance(0.6);
        let tells_usage = streams && path != Path::Responses && self.chance(0.5);
        let leave = self.chance(0.1).then(|| match streams && self.chance(0.8) {
            true => Leave::Parts(self.random.below(40)),
            false => Leave::After(Duration::from_millis(self.random.below(400) as u64)),
        });
        Asked { path, body, choices: prompts * n, streams, tells_usage, leave }
    }

    /// Gives the number of prompts.
    fn prompt(&mut self, path: Path, body: &mut Map<String, Value>) -> usize {
        let message = |role: &str, text: &str| json!({"role": role, "content": text});
        match path {
            Path::Completions if self.chance(0.05) => {
                let prompts = [self.one_of(&BEGINNINGS), self.one_of(&BEGINNINGS)];
                put(body, "prompt", prompts.to_vec());
                return 2;
            }
            Path::Completions => put(body, "prompt", self.one_of(&BEGINNINGS)),
            Path::Chat => {
                let mut messages = vec![message("user", self.one_of(&MESSAGES))];
                if self.chance(0.3) {
                    messages.insert(0, message("system", "You tell short stories."));
                }
                if self.chance(0.3) {
                    messages.push(message("assistant", self.one_of(&BEGINNINGS)));
                    messages.push(message("user", self.one_of(&MESSAGES)));
                }
                put(body, "messages", messages);
            }
            Path::Responses => {
                put(body, "input", self.one_of(&MESSAGES));
                if self.chance(0.3) {
                    put(body, "instructions", "You tell short stories.");
                }
            }
        }
        1
    }

    /// Which tokens are kept.
    fn truncations(&mut self, body: &mut Map<String, Value>) {
        if self.chance(0.7) {
            let temperature = self.between(0.0, 1.8);
            put(body, "temperature", temperature);
        }
        match self.random.below(9) {
            0 => {}
            1 => put(body, "preset", self.one_of(&["creative", "precise", "balanced", "deterministic"])),
            2 => put(body, "top_p", self.between(0.3, 1.0)),
            3 => {
                put(body, "top_p", 1.0);
                put(body, "top_k", 0);
                put(body, "min_p", self.between(0.0, 0.2));
            }
            4 => {
                put(body, "xtc_probability", self.between(0.2, 1.0));
                put(body, "xtc_threshold", self.between(0.05, 0.3));
            }
            5 => {
                // It takes the place of all other truncations, which the model's own settings turn on.
                put(body, "top_p", 1.0);
                put(body, "top_k", 0);
                put(body, "mirostat", 1 + self.random.below(2));
                put(body, "mirostat_tau", self.between(2.0, 6.0));
            }
            6 => put(body, "typical_p", self.between(0.3, 0.99)),
            7 => put(body, "top_n_sigma", self.between(0.5, 3.0)),
            _ => {
                put(body, "dynatemp_range", self.between(0.0, 0.5));
                put(body, "smoothing_factor", self.between(0.0, 0.5));
            }
        }
    }

    /// Which logits are changed.
    fn edits(&mut self, body: &mut Map<String, Value>) {
        if self.chance(0.15) {
            put(body, "repetition_penalty", self.between(1.0, 1.5));
        }
        if self.chance(0.15) {
            put(body, "frequency_penalty", self.between(-0.5, 1.5));
            put(body, "presence_penalty", self.between(-0.5, 1.5));
        }
        if self.chance(0.1) {
            put(body, "penalty_window", 8 + self.random.below(64));
        }
        if self.chance(0.15) {
            put(body, "dry_multiplier", self.between(0.2, 2.0));
            put(body, "dry_allowed_length", 1 + self.random.below(4));
        }
        if self.chance(0.05) {
            put(body, "no_repeat_ngram_size", 2 + self.random.below(4));
        }
        if self.chance(0.1) {
            /// Tokens of the embedded model.
            const VOCABULARY: usize = 4096;
            let biases = 1 + self.random.below(8);
            let mut bias = Map::new();
            for _ in 0..biases {
                put(&mut bias, &self.random.below(VOCABULARY).to_string(), self.between(-8.0, 4.0));
            }
            put(body, "logit_bias", bias);
        }
    }

    /// What a text must match.
    fn form(&mut self, path: Path, body: &mut Map<String, Value>) {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 30},
                "age": {"type": "integer", "minimum": 0, "maximum": 120},
                "colour": {"enum": ["red", "green", "blue"]},
            },
            "required": ["name", "age", "colour"],
            "additionalProperties": false,
        });
        let other = match self.random.below(6) {
            0 | 1 => {
                match path {
                    Path::Responses => {
                        let format = json!({"type": "json_schema", "name": "person", "schema": schema});
                        put(body, "text", json!({"format": format}));
                    }
                    _ => {
                        let named = json!({"name": "person", "schema": schema, "strict": true});
                        put(body, "response_format", json!({"type": "json_schema", "json_schema": named}));
                    }
                }
                return;
            }
            2 => json!({"regex": "(The|A) [a-z]{2,8} (was|is) [a-z]{2,8}(, [a-z]{2,8}){0,3}\\."}),
            3 => json!({"choice": ["the cat", "the dog", "a bird in the tree", "nobody"]}),
            4 => json!({"json": {"type": "array", "items": {"type": "integer"}, "maxItems": 8}}),
            _ => json!({"grammar": "start: WORD (\" \" WORD)* \".\"\nWORD: /[a-z]{1,9}/"}),
        };
        put(body, "structured_outputs", other);
    }

    /// Where a text ends, and what it does without.
    fn ends(&mut self, length: usize, body: &mut Map<String, Value>) {
        match self.random.below(8) {
            0 => put(body, "stop", self.one_of(&STOPS)),
            1 => {
                put(body, "stop", vec![self.one_of(&STOPS), self.one_of(&STOPS)]);
                put(body, "include_stop_str_in_output", self.chance(0.5));
            }
            _ => {}
        }
        if self.chance(0.05) {
            put(body, "min_tokens", self.random.below(length + 1));
        }
        if self.chance(0.1) {
            put(body, "ignore_eos", true);
        }
        if self.chance(0.05) {
            put(body, "banned_strings", vec![self.one_of(&BANNED)]);
        }
        if self.chance(0.05) {
            put(body, "bad_words", vec![self.one_of(&BANNED)]);
        }
    }

    /// What the answer says beside the text.
    fn reports(&mut self, path: Path, body: &mut Map<String, Value>) {
        if self.chance(0.15) {
            let listed = self.random.below(6);
            match path {
                Path::Completions => put(body, "logprobs", listed),
                Path::Chat => {
                    put(body, "logprobs", true);
                    put(body, "top_logprobs", listed);
                }
                Path::Responses => put(body, "top_logprobs", listed),
            }
        }
        if path == Path::Responses {
            return;
        }
        if path == Path::Completions && self.chance(0.08) {
            put(body, "echo", true);
        }
        if self.chance(0.2) {
            put(body, "return_token_ids", true);
        }
        // These two keep no prefix of the order, which a summary needs.
        let has_prefix = ["typical_p", "xtc_probability"].iter().all(|name| !body.contains_key(*name));
        if self.chance(0.04) && has_prefix {
            put(body, "kept", "summary");
        }
        if self.chance(0.04) {
            put(body, "prompt_logprobs", self.random.below(3));
        }
    }
}

fn put(body: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    body.insert(name.to_owned(), value.into());
}
