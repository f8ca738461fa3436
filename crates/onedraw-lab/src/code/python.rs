//! A program in Python.

use serde_json::Value;

use super::recipe::{Recipe, settings};

pub(super) fn of(recipe: &Recipe<'_>) -> String {
    let Recipe { text, model, beams, params, .. } = recipe;
    let mut lines = vec!["import onedraw".to_owned(), String::new()];
    let folder = model.map(string).unwrap_or_default();
    lines.push(format!("generator = onedraw.Generator({folder})"));
    lines.push(format!("params = {}", literal(&Value::from(params.clone()))));
    let grammar = match &text.schema {
        None => "",
        Some(schema) => {
            lines.push(format!(
                "grammar = onedraw.Grammar.json_schema(generator.vocabulary(), {})",
                string(schema)
            ));
            ", grammar=grammar"
        }
    };
    let prompt = string(&text.words);
    match beams {
        None => lines.push(format!("print(generator.generate({prompt}, params{grammar}).text)")),
        Some(beams) => {
            let settings =
                settings(beams).into_iter().map(|(name, value)| format!(", {name}={}", literal(&value)));
            let settings: String = settings.collect();
            lines.push(format!("for found in generator.beams({prompt}, params{settings}{grammar}):"));
            lines.push("    print(found.text)".to_owned());
        }
    }
    lines.join("\n") + "\n"
}

/// A value as Python writes it.
fn literal(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => string(text),
        Value::Array(items) => format!("[{}]", items.iter().map(literal).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let field = |(name, value): (&String, &Value)| format!("{}: {}", string(name), literal(value));
            format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A string: Python reads the escapes of JSON, which leaves no control characters.
fn string(text: &str) -> String {
    Value::from(text).to_string()
}
