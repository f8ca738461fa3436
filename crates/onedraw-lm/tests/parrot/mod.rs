//! A language model without weights: what follows depends on the last four tokens.

use onedraw_lm::{Answer, LanguageModel, ModelError, Run, Sequence, Tokenizer};

/// Every byte is a token; token 256 ends a text.
pub fn tokenizer() -> Tokenizer {
    // The letters that stand for bytes in byte-level tokenizers: printable ones for themselves, the others
    // from U+0100 on.
    let is_plain = |byte: u32| matches!(byte, 33..=126 | 161..=172 | 174..=255);
    let mut next = 256;
    let mut vocabulary = serde_json::Map::new();
    for byte in 0..256u32 {
        let letter = if is_plain(byte) {
            byte
        } else {
            next += 1;
            next - 1
        };
        let letter = char::from_u32(letter).expect("a letter").to_string();
        vocabulary.insert(letter, byte.into());
    }
    let json = serde_json::json!({
        "added_tokens": [{"id": 256, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    });
    Tokenizer::embedded("parrot", json.to_string().as_bytes()).expect("a tokenizer")
}

pub struct Parrot {
    context: usize,
}

/// All tokens.
#[derive(Clone)]
pub struct Line {
    tokens: Vec<u32>,
}

impl Sequence for Line {
    fn len(&self) -> usize {
        self.tokens.len()
    }

    fn cut(&mut self, length: usize) {
        self.tokens.truncate(length);
    }

    fn keep(&mut self, _: &[usize]) -> Result<(), ModelError> {
        Err(ModelError::Request("a parrot takes no trees".to_owned()))
    }
}

impl Parrot {
    pub fn new(context: usize) -> Self {
        Self { context }
    }

    /// The logits after some tokens.
    pub fn row(&self, tokens: &[u32]) -> Vec<f32> {
        let last = &tokens[tokens.len().saturating_sub(4)..];
        let seed = last.iter().fold(14_695_981_039_346_656_037u64, |hash, &token| {
            (hash ^ u64::from(token)).wrapping_mul(1_099_511_628_211)
        });
        onedraw_testkit::rows::gaussian(seed, self.vocabulary(), 2.0)
    }
}

impl LanguageModel for Parrot {
    type Sequence = Line;

    fn vocabulary(&self) -> usize {
        257
    }

    fn context(&self) -> usize {
        self.context
    }

    fn start(&self) -> Line {
        Line { tokens: Vec::new() }
    }

    fn forward(&self, runs: &mut [Run<'_, Line>]) -> Result<Vec<Answer>, ModelError> {
        let answer = |run: &mut Run<'_, Line>| {
            let line = &mut run.sequence.tokens;
            let mut answer = Answer::default();
            for (i, &token) in run.tokens.iter().enumerate() {
                line.push(token);
                assert!(line.len() <= self.context, "no more than the context");
                if i + run.asks.logits.rows(run.tokens.len()) >= run.tokens.len() {
                    answer.logits.extend(self.row(line));
                }
            }
            answer
        };
        Ok(runs.iter_mut().map(answer).collect())
    }
}
