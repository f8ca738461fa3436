//! Events of the decode loop become answers.
//!
//! `piece` puts events in the order of the answer's choices, and keeps back what may still be taken back. A `Teller`
//! writes pieces in the form of an interface (`completion`, `chat`, `response`, with `logprobs`), one by one in a
//! `stream`, or all at once as a `whole`. Answers of the laboratory are `lines`.

mod chat;
mod completion;
mod lines;
mod logprobs;
mod piece;
mod response;
mod stream;
mod whole;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::model::Model;
use crate::request::{Asked, Interface};

pub(crate) use lines::lines;
pub(crate) use logprobs::spelled;
pub(crate) use piece::{Piece, Pieces};
pub(crate) use stream::stream;
pub(crate) use whole::whole;

/// What all parts of an answer say.
pub(crate) struct Teller {
    pub interface: Interface,
    pub model: Arc<Model>,
    pub asked: Asked,
    /// The name of the answer.
    id: String,
    /// Seconds since 1970 began.
    created: u64,
    fingerprint: String,
}

/// How many tokens an answer has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub prompt: usize,
    pub output: usize,
}

impl Teller {
    pub(crate) fn new(interface: Interface, model: Arc<Model>, asked: Asked) -> Result<Self, Failure> {
        let prefix = match interface {
            Interface::Completions => "cmpl",
            Interface::Chat => "chatcmpl",
            Interface::Responses => "resp",
        };
        let (id, fingerprint) = (named(prefix)?, model.fingerprint());
        Ok(Self { interface, model, asked, id, created: now(), fingerprint })
    }

    /// How many texts the answer has.
    pub(crate) fn choices(&self) -> usize {
        self.asked.prompts.len() * self.asked.params.n as usize
    }

    /// How many tokens an answer has whose texts have so many.
    pub(crate) fn usage(&self, output: usize) -> Usage {
        Usage { prompt: self.asked.prompts.iter().map(|prompt| prompt.tokens.len()).sum(), output }
    }

    /// What is around the choices of `/v1/completions` and `/v1/chat/completions`.
    fn around(&self, object: &str, choices: Vec<Value>) -> Value {
        json!({
            "id": self.id,
            "object": object,
            "created": self.created,
            "model": self.model.name,
            "system_fingerprint": self.fingerprint,
            "seed": self.asked.params.seed,
            "choices": choices,
        })
    }

    /// Adds to a choice what was asked for and OpenAI does not have.
    fn extend(&self, choice: &mut Value, piece: &Piece) {
        if let Some(end) = &piece.end {
            choice["stop_reason"] = end.cause(&self.asked.params);
        }
        if self.asked.tells_ids {
            choice["token_ids"] = piece.tokens.iter().map(|sampled| sampled.token).collect();
        }
        if self.asked.params.probability {
            choice["probabilities"] = piece.tokens.iter().map(|sampled| json!(sampled.probability)).collect();
        }
        if self.asked.params.kept != onedraw::KeptMode::None {
            choice["kept"] = piece.tokens.iter().map(|sampled| json!(sampled.kept)).collect();
        }
        if let Some(logprobs) = piece.prompt_logprobs.as_ref().filter(|_| !self.asked.echoes) {
            choice["prompt_logprobs"] = logprobs::of_prompt(logprobs);
        }
    }
}

impl Usage {
    fn of_completion(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.output,
            "total_tokens": self.prompt + self.output,
        })
    }
}

/// A name that nothing else has.
pub(crate) fn named(prefix: &str) -> Result<String, Failure> {
    let random = getrandom::u64().map_err(|error| Failure::broken(&format!("no random name: {error}")))?;
    Ok(format!("{prefix}-{random:016x}"))
}

pub(crate) fn now() -> u64 {
    // A clock that stands before 1970 was never set.
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
