//! The command of the program `onedraw`.

use serde_json::{Map, Value};

use super::recipe::{Recipe, quoted, settings};

pub(super) fn of(recipe: &Recipe<'_>) -> String {
    let Recipe { text, model, beams, given, .. } = recipe;
    let mut lines = Vec::new();
    if let Some(schema) = &text.schema {
        lines.push(format!("printf %s {} > schema.json", quoted(schema)));
    }
    let mut words = vec!["onedraw generate".to_owned()];
    words.extend(model.map(|name| format!("--model {}", quoted(name))));
    if let Some(beams) = beams {
        words.extend(settings(beams).into_iter().map(|(name, value)| search_flag(name, &value)));
        // All that are found; without this the program shows the best one.
        words.push(format!("--n={}", beams.width));
    }
    // What was given is enough: the program knows the model's own settings.
    let given = given.clone().into_iter().filter(|(name, _)| beams.is_none() || name != "n");
    let (flags, others): (Map<String, Value>, Map<String, Value>) =
        given.partition(|(_, value)| flag_value(value).is_some());
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

/// The flag of a setting of a search.
fn search_flag(name: &str, value: &Value) -> String {
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let flag = match name {
        "width" => "beams",
        "style" => "beam-style",
        other => &other.replace('_', "-"),
    };
    format!("--{flag}={value}")
}

/// The value of a flag; `None` for what is easier to read as JSON.
fn flag_value(value: &Value) -> Option<String> {
    match value {
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::String(_) | Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
