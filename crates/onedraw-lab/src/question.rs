//! Bodies become questions that can be answered: JSON is read, prompts are cut, parameters are merged and checked.

use std::collections::BTreeMap;

use onedraw::beam::{BeamParams, BeamStyle};
use onedraw::{ConstraintKind, ConstraintText};
use onedraw_lm::settings;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::fields::Fields;
use crate::line::Line;
use crate::subject::Subject;
use crate::text::Text;
use crate::{about, code, link};

/// The names of the questions.
pub(crate) const NAMES: [&str; 7] = ["about", "write", "look", "beams", "code", "share", "open"];

/// The most tokens that a look names at each stage, for those that left and for those that stayed.
const MOST_LISTED: usize = 1000;

/// The tokens that a look names if the question does not say how many.
const LISTED: usize = 12;

/// A question that can be answered.
pub struct Question(pub(crate) Kind);

pub(crate) enum Kind {
    Write(Text),
    Look(Look),
    Beams(Search),
    /// What needs no model.
    Told(Line),
}

/// A draw to look at.
pub(crate) struct Look {
    pub text: Text,
    /// The tokens of the text before it.
    pub before: Vec<u32>,
    /// How many tokens to name at each stage.
    pub listed: usize,
}

/// A beam search.
pub(crate) struct Search {
    pub text: Text,
    pub beams: BeamParams,
}

/// The body of `write`, and the state that a link has.
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
}

impl Subject {
    /// Reads the body of a question of this name. It cuts the prompt into tokens, so it takes time in proportion to the
    /// body; it makes no pass of a model.
    pub fn read(&self, name: &str, body: &[u8]) -> Result<Question, Failure> {
        if !NAMES.contains(&name) {
            let message = format!("`{name}` is not a question; there are {}", NAMES.join(", "));
            return Err(Failure::new("question", message));
        }
        let body = str::from_utf8(body).map_err(|_| Failure::new("question", "the question is not UTF-8"))?;
        let value = onedraw::json::parse(body).map_err(|error| Failure::new("question", error.message()))?;
        let Value::Object(fields) = value else {
            return Err(Failure::new("question", "the question must be a JSON object"));
        };
        let fields = Fields(fields);
        Ok(Question(match name {
            "about" => Kind::Told(about::about(self)),
            "write" => Kind::Write(self.text(fields)?),
            "look" => Kind::Look(self.look(fields)?),
            "beams" => Kind::Beams(self.search(fields)?),
            "code" => Kind::Told(code::of(self, &self.text(fields)?)),
            "share" => Kind::Told(link::share(self, fields)?),
            _ => Kind::Told(link::open(self, fields)?),
        }))
    }

    /// A text, and nothing beside it.
    fn text(&self, fields: Fields) -> Result<Text, Failure> {
        let state = State::read(fields)?;
        match state.beside {
            None => self.of_state(state),
            Some(_) => Err(Failure::field("question", "beside", "belongs into a link only")),
        }
    }

    /// Checks the state of a link, and the one beside it.
    pub(crate) fn check_state(&self, mut state: State) -> Result<(), Failure> {
        if let Some(beside) = state.beside.take() {
            self.of_state(*beside)?;
        }
        self.of_state(state).map(drop)
    }

    fn of_state(&self, state: State) -> Result<Text, Failure> {
        let State { prompt: words, params: mut given, order, forced, draft, schema, .. } = state;
        let prompt = self.cut(&words)?;
        if let Some(order) = order {
            given.insert("order".to_owned(), order.into());
        }
        if let Some(Value::String(digits)) = given.get("seed") {
            given.insert("seed".to_owned(), settings::seed(digits)?.into());
        }
        let params = self.params(&given, prompt.len())?;
        if let Some(name) = draft.as_ref().filter(|name| !self.offers(name)) {
            return Err(Failure::field("question", "draft", self.no_drafter(name)));
        }
        let mut chosen = BTreeMap::new();
        for Forced { position, token } in forced {
            if token as usize >= self.vocabulary {
                let message = format!("token {token} is outside the vocabulary of {}", self.vocabulary);
                return Err(Failure::field("question", "forced", message));
            }
            if chosen.insert(position, token).is_some() {
                let message = format!("position {position} has two tokens");
                return Err(Failure::field("question", "forced", message));
            }
        }
        if let Some(bytes) = schema.as_ref().map(String::len).filter(|&bytes| bytes > self.bounds.schema) {
            let message = format!("{bytes} bytes are more than the {} allowed here", self.bounds.schema);
            return Err(Failure::field("schema", "schema", message));
        }
        Ok(Text { words, prompt, params, given, chosen, draft, schema })
    }

    fn look(&self, mut fields: Fields) -> Result<Look, Failure> {
        let mut before: Vec<u32> = fields.required("tokens", "a list of tokens")?;
        let position: usize = fields.required("position", "a whole number")?;
        let listed = fields.optional("listed", "a whole number")?.unwrap_or(LISTED);
        if listed > MOST_LISTED {
            let message = format!("{listed} are more than the {MOST_LISTED} that are named at most");
            return Err(Failure::field("question", "listed", message));
        }
        let text = self.text(fields)?;
        if before.len() < position {
            let message = format!("there are {}, and position {position} comes after more", before.len());
            return Err(Failure::field("question", "tokens", message));
        }
        before.truncate(position);
        if let Some(token) = before.iter().find(|&&token| token as usize >= self.vocabulary) {
            let message = format!("token {token} is outside the vocabulary of {}", self.vocabulary);
            return Err(Failure::field("question", "tokens", message));
        }
        let length = text.prompt.len() + before.len();
        if length > self.context {
            let message = format!("position {position} is outside the model's context of {}", self.context);
            return Err(Failure::field("question", "position", message));
        }
        Ok(Look { text, before, listed })
    }

    fn search(&self, mut fields: Fields) -> Result<Search, Failure> {
        let mut own = Fields(fields.required("beams", "an object")?);
        let width: usize = own.required("width", "a whole number")?;
        let length_penalty: Option<f64> = own.optional("length_penalty", "a number")?;
        let style: Option<BeamStyle> = own.optional("style", "hf, vllm or gnmt")?;
        own.end()?;
        let text = self.text(fields)?;
        if !text.chosen.is_empty() {
            return Err(Failure::field("question", "forced", "a beam search chooses its own tokens"));
        }
        let plain = BeamParams::default();
        if width > self.bounds.beams {
            let message = format!("{width} beams are more than the {} allowed here", self.bounds.beams);
            return Err(Failure::field("parameter", "beams", message));
        }
        let length_penalty = length_penalty.unwrap_or(plain.length_penalty);
        let style = style.unwrap_or(plain.style);
        Ok(Search { text, beams: BeamParams { width, length_penalty, style, ..plain } })
    }
}

impl Question {
    /// The answer, where it needs no pass of a model.
    pub fn told(&self) -> Option<&Line> {
        match &self.0 {
            Kind::Told(line) => Some(line),
            Kind::Write(_) | Kind::Look(_) | Kind::Beams(_) => None,
        }
    }

    /// What the text must match, to be [compiled](Subject::compile) before the question is answered.
    pub fn form(&self) -> Option<ConstraintText> {
        let text = match &self.0 {
            Kind::Write(text) => text,
            Kind::Look(look) => &look.text,
            Kind::Beams(search) => &search.text,
            Kind::Told(_) => return None,
        };
        // As in `onedraw generate`: were white space allowed, a model that has not learned JSON could write it for ever.
        let kind = ConstraintKind::CompactJsonSchema;
        let eos_token_ids = text.params.eos_token_id.clone();
        text.schema.clone().map(|text| ConstraintText { kind, text, eos_token_ids })
    }
}
