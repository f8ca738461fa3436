//! Bodies become jobs.
//!
//! `fields` reads a body and knows which of OpenAI's fields have no effect or are refused; `params` makes sampling
//! parameters of what is left; `form` reads what a text must match; `prompt` cuts prompts into tokens; `messages` reads
//! chats. Each interface (`completion`, `chat`, `response`) puts these together, and `tools` has the small ones.

mod chat;
mod completion;
pub(crate) mod fields;
mod form;
mod messages;
mod params;
mod prompt;
mod response;
mod tools;

use std::sync::Arc;

use onedraw::SamplingParams;

use crate::failure::Failure;
use crate::model::Model;
use crate::settings::Limits;

pub(crate) use form::Form;
pub(crate) use prompt::Prompt;
pub(crate) use tools::detokenized;

/// One of the interfaces that write texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// `/v1/completions`
    Completions,
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/responses`
    Responses,
}

/// What a body asks for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub prompts: Vec<Prompt>,
    pub params: SamplingParams,
    /// Whether the request says how long a text may be.
    pub says_length: bool,
    /// What each text must match.
    pub form: Option<Form>,
    /// Whether the answer comes as it is written.
    pub streams: bool,
    /// Whether a stream ends with the numbers of tokens.
    pub tells_usage: bool,
    /// Whether an answer has the prompt before the text.
    pub echoes: bool,
    /// Whether an answer has the tokens' ids.
    pub tells_ids: bool,
    /// Fields that an answer of `/v1/responses` repeats.
    pub repeated: serde_json::Map<String, serde_json::Value>,
}

/// Reads the bodies of requests to one model.
#[derive(Clone)]
pub struct Reader {
    pub(crate) model: Arc<Model>,
    pub(crate) limits: Arc<Limits>,
}

impl Reader {
    /// A reader for requests to this model.
    pub fn new(model: Arc<Model>, limits: Limits) -> Self {
        Self { model, limits: Arc::new(limits) }
    }

    /// Reads a body as far as that is possible without writing a text.
    pub fn check(&self, interface: Interface, body: &[u8]) -> Result<(), Failure> {
        self.read(interface, body).map(drop)
    }

    pub(crate) fn read(&self, interface: Interface, body: &[u8]) -> Result<Asked, Failure> {
        match interface {
            Interface::Completions => self.completion(body),
            Interface::Chat => self.chat(body),
            Interface::Responses => self.response(body),
        }
    }
}
