//! `/tokenize`, `/detokenize` and `/v1/explain`.

use onedraw::SamplingParams;
use serde_json::Value;

use super::fields::{Fields, wrong};
use super::messages::messages;
use super::params::Length;
use super::{Prompt, Reader};
use crate::failure::Failure;

/// How many tokens an explanation names at each stage, unless the request says.
const LISTED: u64 = 10;

/// How many it may name.
const MOST_LISTED: u64 = 1000;

/// A text to cut into tokens.
pub(crate) struct Tokenized {
    pub tokens: Vec<u32>,
    /// Whether the answer has the text of each.
    pub tells_pieces: bool,
}

/// A draw to explain.
pub(crate) struct Explained {
    pub prompt: Prompt,
    pub params: SamplingParams,
    pub listed: usize,
}

impl Reader {
    pub(crate) fn tokenize(&self, body: &[u8]) -> Result<Tokenized, Failure> {
        let mut fields = Fields::read(body)?;
        fields.model(&self.model)?;
        let tells_pieces = fields.flag("return_token_strs")?;
        let adds_special = match fields.has("add_special_tokens") {
            true => fields.flag("add_special_tokens")?,
            false => true,
        };
        let tokenizer = &self.model.tokenizer;
        let tokens = match (fields.text("prompt")?, fields.take("messages")) {
            (Some(text), None) => {
                let cut = if adds_special { tokenizer.encode(&text) } else { tokenizer.encode_plain(&text) };
                cut.map_err(|error| Failure::field("prompt", format!("prompt: {error}")))?
            }
            (None, given @ Some(_)) => self.chat_prompt(&messages("messages", given)?)?.tokens,
            _ => return Err(Failure::field("prompt", "prompt: is required, or messages in its place")),
        };
        fields.finish(&["model", "prompt", "messages", "add_special_tokens", "return_token_strs"])?;
        Ok(Tokenized { tokens, tells_pieces })
    }

    pub(crate) fn explained(&self, body: &[u8]) -> Result<Explained, Failure> {
        let known = ["model", "prompt", "messages", "listed", "preset"];
        let mut fields = Fields::read(body)?;
        fields.model(&self.model)?;
        let prompt = match (fields.take("prompt"), fields.take("messages")) {
            (None, given @ Some(_)) => self.chat_prompt(&messages("messages", given)?)?,
            (given, None) => {
                let mut prompts = self.prompts("prompt", given)?;
                match (prompts.pop(), prompts.is_empty()) {
                    (Some(prompt), true) => prompt,
                    _ => return Err(wrong("prompt", "a single one")),
                }
            }
            _ => return Err(Failure::field("messages", "messages: there is a prompt too")),
        };
        let listed = fields.whole("listed")?.unwrap_or(LISTED);
        if listed > MOST_LISTED {
            return Err(Failure::field("listed", format!("listed: this server names at most {MOST_LISTED}")));
        }
        let params = self.params(fields, Length::Context, prompt.tokens.len(), &known)?.params;
        Ok(Explained { prompt, params, listed: listed as usize })
    }
}

/// The ids of a body of `/detokenize`.
pub(crate) fn detokenized(reader: &Reader, body: &[u8]) -> Result<Vec<u32>, Failure> {
    let mut fields = Fields::read(body)?;
    fields.model(&reader.model)?;
    let Some(Value::Array(items)) = fields.take("tokens") else {
        return Err(wrong("tokens", "a list of token ids"));
    };
    fields.finish(&["model", "tokens"])?;
    let most = reader.model.tokenizer.len() as u64;
    let id = |item: &Value| item.as_u64().filter(|&id| id < most).map(|id| id as u32);
    let ids = items
        .iter()
        .map(|item| id(item).ok_or_else(|| wrong("tokens", &format!("of ids below {most}, not {item}"))));
    ids.collect()
}
