//! What a text must match: OpenAI's `response_format`, and `structured_outputs` for the rest.

use onedraw::{ConstraintKind, ConstraintText};
use serde_json::{Map, Value};

use super::Reader;
use super::fields::{Fields, wrong};
use crate::failure::Failure;

/// What a text must match.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    /// The field that says so.
    pub field: &'static str,
    pub text: ConstraintText,
}

/// The kinds of `structured_outputs`, of which there is one at a time.
const KINDS: [&str; 4] = ["json", "regex", "choice", "grammar"];

impl Reader {
    /// Takes what a text must match from the fields. `response_format` is called `name` there.
    pub(super) fn form(
        &self,
        fields: &mut Fields,
        name: &'static str,
        response_format: Option<Map<String, Value>>,
    ) -> Result<Option<Form>, Failure> {
        let one = response_format.map(|format| of_response(name, format)).transpose()?.flatten();
        let other = fields.object("structured_outputs")?.map(of_structured).transpose()?;
        let form = match (one, other) {
            (Some(_), Some(_)) => {
                let message = format!("structured_outputs: {name} is given too");
                return Err(Failure::field("structured_outputs", message));
            }
            (one, other) => one.or(other),
        };
        if let Some(form) = form.as_ref().filter(|form| form.text.text.len() > self.limits.grammar) {
            let (name, bytes, most) = (form.field, form.text.text.len(), self.limits.grammar);
            let message = format!("{name}: has {bytes} bytes; this server takes at most {most}");
            return Err(Failure::field(name, message));
        }
        Ok(form)
    }
}

impl Form {
    fn new(field: &'static str, kind: ConstraintKind, text: String) -> Self {
        Self { field, text: ConstraintText { kind, text, eos_token_ids: Vec::new() } }
    }

    /// The same where these tokens end a text.
    pub(super) fn ended_by(mut self, eos: &[u32]) -> Self {
        self.text.eos_token_ids = eos.to_vec();
        self
    }
}

fn of_response(name: &'static str, mut format: Map<String, Value>) -> Result<Option<Form>, Failure> {
    // As in `onedraw generate`: were white space allowed, a model that has not learned JSON could write it for ever.
    let schema = |schema: &Value| Form::new(name, ConstraintKind::CompactJsonSchema, schema.to_string());
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_object") => Ok(Some(schema(&serde_json::json!({"type": "object"})))),
        Some("json_schema") => {
            // In /v1/responses the schema stands beside its type, elsewhere in an object of its own.
            let inner = format.remove("json_schema");
            let holder = inner.as_ref().and_then(Value::as_object).unwrap_or(&format);
            match holder.get("schema") {
                Some(found) if found.is_object() || found.is_boolean() => Ok(Some(schema(found))),
                _ => Err(wrong(&format!("{name}.json_schema.schema"), "a JSON schema")),
            }
        }
        _ => Err(wrong(&format!("{name}.type"), "`text`, `json_object` or `json_schema`")),
    }
}

fn of_structured(map: Map<String, Value>) -> Result<Form, Failure> {
    let field = "structured_outputs";
    let mut given = map.into_iter().filter(|(_, value)| !value.is_null());
    let (Some((kind, value)), None) = (given.next(), given.next()) else {
        return Err(wrong(field, &format!("an object with one of {}", KINDS.join(", "))));
    };
    let name = format!("{field}.{kind}");
    let (kind, text) = match (kind.as_str(), value) {
        ("json", Value::String(schema)) => (ConstraintKind::CompactJsonSchema, schema),
        ("json", schema) => (ConstraintKind::CompactJsonSchema, schema.to_string()),
        ("regex", Value::String(expression)) => (ConstraintKind::Regex, expression),
        ("choice", Value::Array(choices)) if choices.iter().all(Value::is_string) => {
            (ConstraintKind::Choices, Value::Array(choices).to_string())
        }
        ("grammar", Value::String(grammar)) => (ConstraintKind::Grammar, grammar),
        ("regex" | "grammar", _) => return Err(wrong(&name, "a string")),
        ("choice", _) => return Err(wrong(&name, "a list of strings")),
        _ => return Err(wrong(field, &format!("an object with one of {}", KINDS.join(", ")))),
    };
    Ok(Form::new(field, kind, text))
}
