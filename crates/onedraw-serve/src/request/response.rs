//! `/v1/responses`: text in, text out.

use onedraw_lm::Message;
use serde_json::{Map, Value, json};

use super::completion::streaming;
use super::fields::{Fields, wrong};
use super::messages::messages;
use super::params::{Length, Parameters};
use super::{Asked, Interface, Reader};
use crate::failure::Failure;

/// The fields that are read here.
const KNOWN: [&str; 11] = [
    "model",
    "input",
    "instructions",
    "max_output_tokens",
    "stream",
    "stream_options",
    "text",
    "include",
    "top_logprobs",
    "structured_outputs",
    "preset",
];

/// What `include` may ask for that there is.
const LOGPROBS: &str = "message.output_text.logprobs";

impl Reader {
    pub(super) fn response(&self, body: &[u8]) -> Result<Asked, Failure> {
        let mut fields = Fields::read(body)?;
        fields.model(&self.model)?;
        let mut repeated = Map::new();
        for name in ["instructions", "metadata", "max_output_tokens", "user", "text"] {
            repeated.insert(name.to_owned(), fields.get(name).cloned().unwrap_or(Value::Null));
        }
        if repeated["metadata"].is_null() {
            repeated["metadata"] = json!({});
        }
        if repeated["text"].is_null() {
            repeated["text"] = json!({"format": {"type": "text"}});
        }
        fields.treat(Interface::Responses)?;
        let mut chat: Vec<Message> = Vec::new();
        chat.extend(fields.text("instructions")?.map(|text| Message::new("system", text)));
        match fields.take("input") {
            Some(Value::String(text)) => chat.push(Message::new("user", text)),
            given => chat.extend(messages("input", given)?),
        }
        let prompt = self.chat_prompt(&chat)?;
        let (streams, _) = streaming(&mut fields)?;
        let mut format = None;
        if let Some(text) = fields.object("text")? {
            let mut text = Fields::of("text.", text);
            format = text.object("format")?;
            if text.text("verbosity")?.is_some_and(|verbosity| verbosity != "medium") {
                return Err(Failure::field(
                    "text.verbosity",
                    "text.verbosity: is not supported, but for \"medium\"",
                ));
            }
            text.finish(&["format", "verbosity"])?;
        }
        let form = self.form(&mut fields, "text.format", format)?;
        fields.rename("max_output_tokens", "max_tokens")?;
        let listed = fields.whole("top_logprobs")?;
        let wants = wants_logprobs(&mut fields)?;
        if wants || listed.is_some() {
            fields.set_for("top_logprobs", "logprobs", listed.unwrap_or(0));
        }
        if let Some(n) = fields.take("n").filter(|n| *n != json!(1)) {
            return Err(Failure::field("n", format!("n: a response has one text, not {n}")));
        }
        for name in ["kept", "prompt_logprobs", "probability"] {
            if fields.take(name).is_some_and(|value| ![json!("none"), json!(false)].contains(&value)) {
                return Err(Failure::field(
                    name,
                    format!("{name}: is not told here; use /v1/chat/completions"),
                ));
            }
        }
        let Parameters { params, says_length } =
            self.params(fields, Length::Context, prompt.tokens.len(), &KNOWN)?;
        self.check_size(&params, 1)?;
        let form = form.map(|form| form.ended_by(&params.eos_token_id));
        let (prompts, tells_ids) = (vec![prompt], false);
        Ok(Asked {
            prompts,
            params,
            says_length,
            form,
            streams,
            tells_usage: true,
            echoes: false,
            tells_ids,
            repeated,
        })
    }
}

/// Whether `include` asks for logprobs, which is all it may ask for.
fn wants_logprobs(fields: &mut Fields) -> Result<bool, Failure> {
    match fields.take("include") {
        None => Ok(false),
        Some(Value::Array(items)) => match items.iter().find(|item| **item != LOGPROBS) {
            None => Ok(!items.is_empty()),
            Some(_) => Err(wrong("include", &format!("a list with nothing but `{LOGPROBS}`"))),
        },
        Some(_) => Err(wrong("include", "a list")),
    }
}
