//! Prompts, as text or as tokens.

use onedraw_lm::{LanguageModel, Message};
use serde_json::Value;

use super::Reader;
use super::fields::wrong;
use crate::failure::Failure;

/// A prompt, cut into tokens.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub tokens: Vec<u32>,
    /// What it looks like.
    pub text: String,
}

impl Reader {
    /// One prompt or several: a string, strings, tokens, or lists of tokens.
    pub(super) fn prompts(&self, name: &str, given: Option<Value>) -> Result<Vec<Prompt>, Failure> {
        let form = "a string, a list of strings, a list of token ids, or a list of such lists";
        let prompts: Vec<Prompt> = match given {
            None => return Err(Failure::field(name, format!("{name}: is required"))),
            Some(Value::String(text)) => vec![self.text(name, text)?],
            Some(Value::Array(items)) if !items.is_empty() && items.iter().all(Value::is_number) => {
                vec![self.ids(name, &items)?]
            }
            Some(Value::Array(items)) if !items.is_empty() => {
                // More than may wait could never be taken.
                let most = self.limits.prompts.min(self.limits.waiting);
                if items.len() > most {
                    return Err(Failure::field(name, format!("{name}: this server takes at most {most}")));
                }
                let prompt = |item| match item {
                    Value::String(text) => self.text(name, text),
                    Value::Array(items) => self.ids(name, &items),
                    _ => Err(wrong(name, form)),
                };
                items.into_iter().map(prompt).collect::<Result<_, _>>()?
            }
            Some(_) => return Err(wrong(name, form)),
        };
        Ok(prompts)
    }

    /// A chat, written as the model's template says.
    pub(super) fn chat_prompt(&self, messages: &[Message]) -> Result<Prompt, Failure> {
        let name = "messages";
        let none =
            || Failure::request(format!("{} has no chat template; use /v1/completions", self.model.name));
        let template = self.model.template.as_ref().ok_or_else(none)?;
        let refused = |error: onedraw_lm::ModelError| Failure::field(name, format!("{name}: {error}"));
        let text = template.render(messages, true).map_err(refused)?;
        let tokens = self.model.tokenizer.encode_plain(&text).map_err(refused)?;
        self.fitting(name, Prompt { tokens, text })
    }

    fn text(&self, name: &str, text: String) -> Result<Prompt, Failure> {
        let refused = |error| Failure::field(name, format!("{name}: {error}"));
        let tokens = self.model.tokenizer.encode(&text).map_err(refused)?;
        self.fitting(name, Prompt { tokens, text })
    }

    fn ids(&self, name: &str, items: &[Value]) -> Result<Prompt, Failure> {
        let vocabulary = self.model.llama.vocabulary();
        let id = |item: &Value| {
            let id = item.as_u64().and_then(|id| u32::try_from(id).ok());
            let id = id.filter(|&id| (id as usize) < vocabulary);
            id.ok_or_else(|| wrong(name, &format!("of token ids below {vocabulary}")))
        };
        let tokens = items.iter().map(id).collect::<Result<Vec<u32>, Failure>>()?;
        let text = self.model.tokenizer.text(&tokens);
        self.fitting(name, Prompt { tokens, text })
    }

    fn fitting(&self, name: &str, prompt: Prompt) -> Result<Prompt, Failure> {
        let (tokens, context) = (prompt.tokens.len(), self.model.context());
        let most = self.limits.prompt.min(context);
        match tokens {
            0 => Err(Failure::field(name, format!("{name}: has no token"))),
            _ if tokens > most => {
                let message = format!("{name}: has {tokens} tokens; this server takes at most {most}");
                Err(Failure { code: Some("context_length_exceeded"), ..Failure::field(name, message) })
            }
            _ => Ok(prompt),
        }
    }
}
