//! `/v1/chat/completions`.

use super::completion::streaming;
use super::fields::{Fields, wrong};
use super::messages::messages;
use super::params::{Length, Parameters};
use super::{Asked, Interface, Reader};
use crate::failure::Failure;

/// The fields that are read here.
const KNOWN: [&str; 10] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "top_logprobs",
    "max_completion_tokens",
    "response_format",
    "structured_outputs",
    "preset",
    "return_token_ids",
];

impl Reader {
    pub(super) fn chat(&self, body: &[u8]) -> Result<Asked, Failure> {
        let mut fields = Fields::read(body)?;
        fields.model(&self.model)?;
        fields.treat(Interface::Chat)?;
        let given = fields.take("messages");
        let prompt = self.chat_prompt(&messages("messages", given)?)?;
        let (streams, tells_usage) = streaming(&mut fields)?;
        let tells_ids = fields.flag("return_token_ids")?;
        let format = fields.object("response_format")?;
        let form = self.form(&mut fields, "response_format", format)?;
        fields.rename("max_completion_tokens", "max_tokens")?;
        let listed = fields.whole("top_logprobs")?;
        match (fields.flag("logprobs")?, listed) {
            (true, listed) => fields.set_for("top_logprobs", "logprobs", listed.unwrap_or(0)),
            (false, None) => {}
            (false, Some(_)) => return Err(wrong("top_logprobs", "given with logprobs: true")),
        }
        let Parameters { params, says_length } =
            self.params(fields, Length::Context, prompt.tokens.len(), &KNOWN)?;
        self.check_size(&params, 1)?;
        let form = form.map(|form| form.ended_by(&params.eos_token_id));
        let (prompts, repeated) = (vec![prompt], serde_json::Map::new());
        Ok(Asked {
            prompts,
            params,
            says_length,
            form,
            streams,
            tells_usage,
            echoes: false,
            tells_ids,
            repeated,
        })
    }
}
