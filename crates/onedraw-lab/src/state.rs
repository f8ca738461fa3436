//! What a text depends on beside the model: the body of `write`, and the state that a link has.

use std::collections::BTreeMap;

use onedraw::seed;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::fields::Fields;
use crate::subject::Subject;
use crate::text::Text;

/// It is read field by field, and becomes a text once a subject has checked it.
pub(crate) struct State {
    prompt: String,
    params: Map<String, Value>,
    order: Option<Vec<String>>,
    forced: Vec<Forced>,
    pub draft: Option<String>,
    schema: Option<String>,
    /// Another state, to stand beside this one in a link.
    beside: Option<Box<State>>,
}

/// A token that is given instead of drawn.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Forced {
    position: usize,
    token: u32,
}

impl State {
    /// Reads all fields. Whether a model can write such a text is another question.
    pub(crate) fn read(mut fields: Fields) -> Result<Self, Failure> {
        let beside: Option<Map<String, Value>> = fields.optional("beside", "an object")?;
        let read = Self {
            prompt: fields.required("prompt", "a text")?,
            params: fields.optional("params", "an object")?.unwrap_or_default(),
            order: fields.optional("order", "a list of names of stages")?,
            forced: fields
                .optional("forced", r#"a list of tokens such as {"position": 3, "token": 500}"#)?
                .unwrap_or_default(),
            draft: fields.optional("draft", "the name of a drafter")?,
            schema: fields.optional("schema", "a JSON schema as a text")?,
            beside: beside.map(|fields| Self::read(Fields(fields)).map(Box::new)).transpose()?,
        };
        fields.end()?;
        match read.beside.as_ref().is_some_and(|beside| beside.beside.is_some()) {
            true => Err(Failure::field("question", "beside", "two texts stand side by side, not three")),
            false => Ok(read),
        }
    }

    /// The text that the state is of, without another beside it.
    pub(crate) fn text(self, subject: &Subject) -> Result<Text, Failure> {
        match self.beside {
            None => self.of(subject),
            Some(_) => Err(Failure::field("question", "beside", "belongs into a link only")),
        }
    }

    /// Checks the state of a link, and the one beside it.
    pub(crate) fn check(mut self, subject: &Subject) -> Result<(), Failure> {
        if let Some(beside) = self.beside.take() {
            beside.of(subject)?;
        }
        self.of(subject).map(drop)
    }

    fn of(self, subject: &Subject) -> Result<Text, Failure> {
        let Self { prompt: words, params: mut given, order, forced, draft, schema, .. } = self;
        let prompt = subject.cut(&words)?;
        if let Some(order) = order {
            given.insert("order".to_owned(), order.into());
        }
        if let Some(Value::String(digits)) = given.get("seed") {
            given.insert("seed".to_owned(), seed::parse(digits)?.into());
        }
        let params = subject.params(&given, prompt.len())?;
        if let Some(name) = draft.as_ref().filter(|name| !subject.offers(name)) {
            return Err(Failure::field("question", "draft", subject.no_drafter(name)));
        }
        let mut chosen = BTreeMap::new();
        for Forced { position, token } in forced {
            if token as usize >= subject.vocabulary {
                let message = format!("token {token} is outside the vocabulary of {}", subject.vocabulary);
                return Err(Failure::field("question", "forced", message));
            }
            if chosen.insert(position, token).is_some() {
                let message = format!("position {position} has two tokens");
                return Err(Failure::field("question", "forced", message));
            }
        }
        if let Some(bytes) = schema.as_ref().map(String::len).filter(|&bytes| bytes > subject.bounds.schema) {
            let message = format!("{bytes} bytes are more than the {} allowed here", subject.bounds.schema);
            return Err(Failure::field("schema", "schema", message));
        }
        Ok(Text { words, prompt, params, given, chosen, draft, schema })
    }
}
