//! The command of the program `onedraw`.

use serde_json::{Map, Value};

use super::recipe::{Recipe, quoted};

pub(super) fn of(recipe: &Recipe<'_>) -> String {
    let Recipe { text, model, given, .. } = recipe;
    let mut lines = Vec::new();
    if let Some(schema) = &text.schema {
        lines.push(format!("printf %s {} > schema.json", quoted(schema)));
    }
    let mut words = vec!["onedraw generate".to_owned()];
    words.extend(model.map(|name| format!("--model {}", quoted(name))));
    // What was given is enough: the program knows the model's own settings.
    let (flags, others): (Map<String, Value>, Map<String, Value>) =
        given.clone().into_iter().partition(|(_, value)| flag_value(value).is_some());
    for (name, value) in &flags {
        words.extend(flag_value(value).map(|value| format!("--{}={value}", name.replace('_', "-"))));
    }
    if !others.is_empty() {
        words.push(format!("--params {}", quoted(&Value::from(others).to_string())));
    }
    words.extend(text.schema.as_ref().map(|_| "--json-schema schema.json".to_owned()));
    words.push(format!("-- {}", quoted(&text.words)));
    lines.push(words.join(" "));
    lines.join("\n")
}

/// The value of a flag; `None` for what is easier to read as JSON.
fn flag_value(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::String(_) | Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
