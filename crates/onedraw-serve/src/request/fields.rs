//! The fields of a body, and those of OpenAI's that mean nothing here.

use axum::http::StatusCode;
use onedraw::suggest::{Suggestion, nearest, suggestion};
use serde_json::{Map, Value};

use super::Interface::{self, Chat, Completions, Responses};
use crate::failure::Failure;
use crate::model::Model;

/// What becomes of a field that is OpenAI's and no parameter of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It is accepted and has no effect, because no text depends on it.
    NoEffect,
    /// It is refused unless it is null, because it could not be honoured.
    Refused,
    /// It is accepted with one of these values, in JSON, which ask for nothing; others are refused.
    Only(&'static [&'static str]),
}

use Treatment::{NoEffect, Only, Refused};

/// Fields of OpenAI's that mean nothing here: where, and what becomes of them.
pub const TREATED: &[(&str, &[Interface], Treatment)] = &[
    ("user", ALL, NoEffect),
    ("metadata", ALL, NoEffect),
    ("store", ALL, NoEffect),
    ("service_tier", ALL, NoEffect),
    ("safety_identifier", ALL, NoEffect),
    ("prompt_cache_key", ALL, NoEffect),
    ("prompt_cache_retention", ALL, NoEffect),
    ("parallel_tool_calls", &[Chat, Responses], NoEffect),
    ("prediction", &[Chat], NoEffect),
    ("max_tool_calls", &[Responses], NoEffect),
    ("suffix", &[Completions], Only(&["\"\""])),
    ("best_of", &[Completions], Only(&["1"])),
    ("audio", &[Chat], Refused),
    ("web_search_options", &[Chat], Refused),
    ("verbosity", &[Chat], Only(&["\"medium\""])),
    ("moderation", &[Chat, Responses], Refused),
    ("previous_response_id", &[Responses], Refused),
    ("conversation", &[Responses], Refused),
    ("prompt", &[Responses], Refused),
    ("context_management", &[Responses], Refused),
    ("tools", &[Chat, Responses], Only(&["[]"])),
    ("functions", &[Chat], Only(&["[]"])),
    ("tool_choice", &[Chat, Responses], Only(&["\"none\"", "\"auto\""])),
    ("function_call", &[Chat], Only(&["\"none\"", "\"auto\""])),
    ("modalities", &[Chat], Only(&["[\"text\"]"])),
    ("reasoning_effort", &[Chat], Only(&["\"none\""])),
    ("reasoning", &[Responses], Only(&["{}"])),
    ("background", &[Responses], Only(&["false"])),
    ("truncation", &[Responses], Only(&["\"disabled\""])),
];

const ALL: &[Interface] = &[Completions, Chat, Responses];

/// The fields of a body, or of an object in it, that were not taken yet. Those that are null count as absent.
pub(crate) struct Fields {
    map: Map<String, Value>,
    /// What stands before the names in errors: the name of the object, and a dot.
    prefix: &'static str,
    /// Fields that have another name here than in the body: that name, and ours.
    renamed: Vec<(&'static str, &'static str)>,
}

impl Fields {
    /// Reads a body: one JSON object, in which no key is there twice.
    pub(crate) fn read(body: &[u8]) -> Result<Self, Failure> {
        let text = str::from_utf8(body).map_err(|cause| Failure::request(format!("the body: {cause}")))?;
        let malformed = |error: &dyn std::fmt::Display| Failure::request(format!("the body {error}"));
        onedraw::json::parse(text).map_err(|error| malformed(&error.message()))?;
        // Once more, because the order in which a schema has its properties is lost in the first.
        match serde_json::from_str(text).map_err(|error| malformed(&error))? {
            Value::Object(map) => Ok(Self::of("", map)),
            _ => Err(Failure::request("the body must be a JSON object")),
        }
    }

    /// The fields of an object within a body. In errors `prefix` stands before their names.
    pub(crate) fn of(prefix: &'static str, mut map: Map<String, Value>) -> Self {
        map.retain(|_, value| !value.is_null());
        Self { map, prefix, renamed: Vec::new() }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.map.get(name)
    }

    /// Takes out the fields that mean nothing on this interface.
    pub(crate) fn treat(&mut self, interface: Interface) -> Result<(), Failure> {
        for (name, _, treatment) in TREATED.iter().filter(|(_, where_, _)| where_.contains(&interface)) {
            let Some(mut value) = self.take(name) else { continue };
            if let Value::Object(inner) = &mut value {
                inner.retain(|_, value| !value.is_null());
            }
            let written = value.to_string();
            match treatment {
                NoEffect => {}
                Only(values) if values.contains(&written.as_str()) => {}
                Only(values) => {
                    let message = format!("{name}: is not supported, but for {}", values.join(" or "));
                    return Err(Failure::field(*name, message));
                }
                Refused => return Err(Failure::field(*name, format!("{name}: is not supported"))),
            }
        }
        Ok(())
    }

    /// Checks the name of the model, which may be left out.
    pub(crate) fn model(&mut self, model: &Model) -> Result<(), Failure> {
        match self.text("model")? {
            Some(name) if name != model.name => Err(no_model(&name, &model.name)),
            _ => Ok(()),
        }
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.map.contains_key(name)
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.map.insert(name.to_owned(), value.into());
    }

    pub(crate) fn flag(&mut self, name: &str) -> Result<bool, Failure> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(flag),
            Some(_) => Err(wrong(&self.named(name), "true or false")),
        }
    }

    pub(crate) fn text(&mut self, name: &str) -> Result<Option<String>, Failure> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(&self.named(name), "a string")),
        }
    }

    pub(crate) fn object(&mut self, name: &str) -> Result<Option<Map<String, Value>>, Failure> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Object(map)) => Ok(Some(map)),
            Some(_) => Err(wrong(&self.named(name), "an object")),
        }
    }

    pub(crate) fn whole(&mut self, name: &str) -> Result<Option<u64>, Failure> {
        let value = self.take(name);
        let number = |value: Value| value.as_u64().ok_or_else(|| wrong(&self.named(name), "a whole number"));
        value.map(number).transpose()
    }

    /// Renames a field. An error if there are both, with different values.
    pub(crate) fn rename(&mut self, from: &'static str, to: &'static str) -> Result<(), Failure> {
        let Some(value) = self.take(from) else { return Ok(()) };
        match self.map.get(to) {
            Some(other) if *other != value => {
                Err(Failure::field(from, format!("{from}: is not {to}, which is given too")))
            }
            _ => {
                self.set_for(from, to, value);
                Ok(())
            }
        }
    }

    /// Sets what the field `from` of the body asks for, under our name.
    pub(crate) fn set_for(&mut self, from: &'static str, to: &'static str, value: impl Into<Value>) {
        self.renamed.push((from, to));
        self.set(to, value);
    }

    /// What is left must be parameters. The names that some of them have in the body are told too.
    pub(crate) fn rest(self) -> (Map<String, Value>, Renamed) {
        (self.map, Renamed(self.renamed))
    }

    /// An error if something is left.
    pub(crate) fn finish(self, known: &[&'static str]) -> Result<(), Failure> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => {
                let Failure { status, message, code, .. } = unknown(name, known);
                let (message, param) = (format!("{}{message}", self.prefix), Some(self.named(name)));
                Err(Failure { status, message, param, code })
            }
        }
    }

    fn named(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// The names that fields have in a body, and ours.
pub(crate) struct Renamed(Vec<(&'static str, &'static str)>);

impl Renamed {
    /// The same failure with the name that the field has in the body.
    pub(crate) fn told(&self, failure: Failure) -> Failure {
        let Failure { status, message, param, code } = failure;
        let found = self.0.iter().find(|(_, ours)| param.as_deref() == Some(*ours));
        let Some((from, ours)) = found else { return Failure { status, message, param, code } };
        let message = message.strip_prefix(ours).map_or(message.clone(), |rest| format!("{from}{rest}"));
        Failure { status, message, param: Some((*from).to_owned()), code }
    }
}

/// A field that has another type than it must.
pub(crate) fn wrong(name: &str, expected: &str) -> Failure {
    Failure::field(name, format!("{name}: must be {expected}"))
}

/// A field that nobody knows.
pub(crate) fn unknown(name: &str, known: &[&'static str]) -> Failure {
    let meant = nearest(name, known.iter().map(|known| (*known, *known)));
    let meant = meant.map(|meant| format!(" (`{meant}`?)"));
    let instead = || match suggestion(name)? {
        Suggestion::Parameter(other) => Some(format!(" (`{other}`?)")),
        Suggestion::Instead(words) => Some(format!(": {words}")),
    };
    let hint = meant.or_else(instead).unwrap_or_default();
    Failure::field(name, format!("{name}: is not a known field{hint}"))
}

/// A model that is not served.
pub(crate) fn no_model(name: &str, served: &str) -> Failure {
    let message = format!("the model `{name}` is not served here; `{served}` is");
    let failure = Failure::of(StatusCode::NOT_FOUND, Some("model_not_found"), message);
    Failure { param: Some("model".to_owned()), ..failure }
}
