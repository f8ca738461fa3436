//! `code`: a text as a command, as Rust, as Python and as a request, each of which writes it again; or a search, with
//! all the texts that it finds.
//!
//! Every language has a file; each gets the same [`Recipe`].

mod curl;
mod program;
mod python;
mod recipe;
mod rust;

use std::collections::BTreeMap;

use onedraw::SamplingParams;
use onedraw::beam::BeamParams;
use serde_json::{Map, Value, json};

use crate::line::Line;
use crate::subject::Subject;
use crate::text::Text;
use recipe::Recipe;

/// The name of the model that is part of onedraw.
const EMBEDDED: &str = "stories";

/// The answer to `code`: of a text, or of a search with these beams.
pub(crate) fn of(subject: &Subject, text: &Text, beams: Option<&BeamParams>) -> Line {
    let model = (subject.id != EMBEDDED).then_some(subject.id.as_str());
    let recipe =
        Recipe { text, model, beams, given: sorted(text.given.clone()), params: changed(&text.params) };
    json!({
        "program": program::of(&recipe),
        "rust": rust::of(&recipe),
        "python": python::of(&recipe),
        "curl": curl::of(&recipe),
        "notes": notes(&recipe),
    })
}

/// What is left out of the code, and what has to be put in.
fn notes(recipe: &Recipe<'_>) -> Vec<String> {
    let Recipe { text, model, beams, .. } = recipe;
    let mut notes = Vec::new();
    if text.params.seed.is_none() && beams.is_none() {
        notes.push("Without a seed, each run writes another text.".to_owned());
    }
    if let Some(name) = model {
        notes.push(format!("Put the folder of the model {name} in the place of its name."));
    }
    if !text.chosen.is_empty() {
        notes.push(
            "The text has branches. The program and Python cannot give tokens in the middle of a text, so theirs is the \
             text without branches."
                .to_owned(),
        );
    }
    notes
}

/// The parameters that differ from the library's defaults, by name.
pub(crate) fn changed(params: &SamplingParams) -> Map<String, Value> {
    let plain = SamplingParams::default();
    // What the laboratory reports is its own.
    let (logprobs, probability) = (plain.logprobs, plain.probability);
    let params = SamplingParams { logprobs, probability, ..params.clone() };
    let fields = |params: &SamplingParams| match serde_json::to_value(params) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let plain = fields(&plain);
    sorted(fields(&params).into_iter().filter(|(name, value)| plain.get(name) != Some(value)).collect())
}

/// Fields by name, at every depth, so that the text is the same in every build: not all of them keep the order of
/// objects.
fn sorted(fields: Map<String, Value>) -> Map<String, Value> {
    let fields = fields.into_iter().map(|(name, value)| (name, sorted_value(value)));
    fields.collect::<BTreeMap<_, _>>().into_iter().collect()
}

fn sorted_value(value: Value) -> Value {
    match value {
        Value::Object(fields) => sorted(fields).into(),
        Value::Array(items) => items.into_iter().map(sorted_value).collect(),
        other => other,
    }
}
