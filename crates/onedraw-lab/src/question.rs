//! Bodies become questions that can be answered: JSON is read, prompts are cut, parameters are merged and checked.

use onedraw::beam::{BeamParams, BeamSearch, BeamStyle};
use onedraw::{ConstraintKind, ConstraintText};
use serde_json::Value;

use crate::failure::Failure;
use crate::fields::Fields;
use crate::line::Line;
use crate::state::State;
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
            "write" => Kind::Write(State::read(fields)?.text(self)?),
            "look" => Kind::Look(self.look(fields)?),
            "beams" => Kind::Beams(self.beams(fields)?),
            "code" => Kind::Told(self.code(fields)?),
            "share" => Kind::Told(link::share(self, fields)?),
            _ => Kind::Told(link::open(self, fields)?),
        }))
    }

    fn look(&self, mut fields: Fields) -> Result<Look, Failure> {
        let mut before: Vec<u32> = fields.required("tokens", "a list of tokens")?;
        let position: usize = fields.required("position", "a whole number")?;
        let listed = fields.optional("listed", "a whole number")?.unwrap_or(LISTED);
        if listed > MOST_LISTED {
            let message = format!("{listed} are more than the {MOST_LISTED} that are named at most");
            return Err(Failure::field("question", "listed", message));
        }
        let text = State::read(fields)?.text(self)?;
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

    fn beams(&self, mut fields: Fields) -> Result<Search, Failure> {
        let own = fields.required("beams", "an object")?;
        self.search(Fields(own), fields)
    }

    /// The code of a text, or of a search where the question has `beams`.
    fn code(&self, mut fields: Fields) -> Result<Line, Failure> {
        let Some(own) = fields.optional("beams", "an object")? else {
            return Ok(code::of(self, &State::read(fields)?.text(self)?, None));
        };
        let Search { text, beams } = self.search(Fields(own), fields)?;
        // What cannot be searched has no code.
        BeamSearch::new(text.params.clone(), beams.clone())?;
        Ok(code::of(self, &text, Some(&beams)))
    }

    /// A search: `own` are the fields of its `beams`, and the others those of its text.
    fn search(&self, mut own: Fields, fields: Fields) -> Result<Search, Failure> {
        let width: usize = own.required("width", "a whole number")?;
        let length_penalty: Option<f64> = own.optional("length_penalty", "a number")?;
        let style: Option<BeamStyle> = own.optional("style", "hf, vllm or gnmt")?;
        own.end()?;
        let mut text = State::read(fields)?.text(self)?;
        if !text.chosen.is_empty() {
            return Err(Failure::field("question", "forced", "a beam search chooses its own tokens"));
        }
        let plain = BeamParams::default();
        if width > self.bounds.beams {
            let message = format!("{width} beams are more than the {} allowed here", self.bounds.beams);
            return Err(Failure::field("parameter", "beams", message));
        }
        // All beams that are left are found texts.
        text.params.n = u32::try_from(width.max(1)).unwrap_or(u32::MAX);
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
