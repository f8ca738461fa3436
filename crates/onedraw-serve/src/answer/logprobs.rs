//! Logprobs, in the forms of the interfaces.

use onedraw::{PromptLogprobs, Report, Sampled, TokenLogprob};
use onedraw_lm::Tokenizer;
use serde_json::{Map, Value, json};

use super::piece::letters;

/// A token as text. One that is no whole characters is written with its bytes, as OpenAI does.
pub(crate) fn spelled(tokenizer: &Tokenizer, token: u32) -> String {
    let bytes = tokenizer.bytes(token);
    match str::from_utf8(bytes) {
        Ok(_) => tokenizer.piece(token),
        Err(_) => {
            let escaped: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            format!("bytes:{escaped}")
        }
    }
}

/// The entries of `/v1/chat/completions` and `/v1/responses`.
pub(super) fn of_chat(tokenizer: &Tokenizer, written: &[Sampled], listed: i64) -> Vec<Value> {
    let named = |token: u32, logprob: Option<f64>| {
        let bytes = (!tokenizer.is_special(token)).then(|| tokenizer.bytes(token));
        json!({"token": spelled(tokenizer, token), "logprob": logprob, "bytes": bytes})
    };
    let entry = |sampled: &Sampled| {
        let Sampled { token, logprob, .. } = *sampled;
        let mut entry = named(token, logprob);
        let best = best(&sampled.logprobs, listed);
        entry["top_logprobs"] = best.iter().map(|other| named(other.token, Some(other.logprob))).collect();
        entry
    };
    written.iter().map(entry).collect()
}

/// The best tokens in their order; the drawn token is among them only if it is one of these.
fn best(logprobs: &[TokenLogprob], listed: i64) -> Vec<TokenLogprob> {
    let mut best: Vec<TokenLogprob> =
        logprobs.iter().filter(|other| listed < 0 || i64::from(other.rank) <= listed).copied().collect();
    best.sort_unstable_by_key(|other| other.rank);
    best
}

/// The lists of `/v1/completions`.
pub(super) struct Lists<'a> {
    tokenizer: &'a Tokenizer,
    /// How many letters stand before the next token.
    letters: usize,
    tokens: Vec<String>,
    logprobs: Vec<Option<f64>>,
    best: Vec<Value>,
    offsets: Vec<usize>,
}

impl<'a> Lists<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer, letters: usize) -> Self {
        let (tokens, logprobs, best, offsets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { tokenizer, letters, tokens, logprobs, best, offsets }
    }

    /// The tokens of a prompt, of which the first has no logprob: nothing predicts it.
    pub(super) fn prompt(&mut self, tokens: &[u32], found: Option<&PromptLogprobs>) {
        self.letters = 0;
        for (place, &token) in tokens.iter().enumerate() {
            let report = found.and_then(|found| found.get(place)?.as_ref().ok()?.as_ref());
            self.push(token, report.map(|report| report.logprob), report.map(|report| &report.logprobs[..]));
        }
    }

    pub(super) fn written(&mut self, written: &[Sampled]) {
        for sampled in written {
            self.push(sampled.token, sampled.logprob, sampled.logprob.map(|_| &sampled.logprobs[..]));
        }
    }

    fn push(&mut self, token: u32, logprob: Option<f64>, listed: Option<&[TokenLogprob]>) {
        self.tokens.push(spelled(self.tokenizer, token));
        self.logprobs.push(logprob);
        // Of two tokens with the same text the better one stays.
        let mut best = Map::new();
        for other in listed.into_iter().flatten() {
            best.entry(spelled(self.tokenizer, other.token)).or_insert_with(|| other.logprob.into());
        }
        self.best.push(if listed.is_some() { Value::Object(best) } else { Value::Null });
        self.offsets.push(self.letters);
        self.letters += letters(self.tokenizer.bytes(token));
    }

    pub(super) fn into_value(self) -> Value {
        json!({
            "tokens": self.tokens,
            "token_logprobs": self.logprobs,
            "top_logprobs": self.best,
            "text_offset": self.offsets,
        })
    }
}

/// The logprobs of a prompt as the program writes them: null for the first token.
pub(super) fn of_prompt(found: &PromptLogprobs) -> Value {
    let entry = |report: &Result<Option<Report>, onedraw::RowError>| match report {
        Ok(None) => Value::Null,
        Ok(Some(Report { token, logprob, rank, logprobs, .. })) => {
            json!({"token": token, "logprob": logprob, "rank": rank, "logprobs": logprobs})
        }
        Err(error) => json!({"error": error.to_string()}),
    };
    found.iter().map(entry).collect()
}
