//! A request to `onedraw serve`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::recipe::{Recipe, quoted, settings};

pub(super) fn of(recipe: &Recipe<'_>) -> String {
    let text = recipe.text;
    if let Some(beams) = recipe.beams {
        // OpenAI's routes have no search.
        let question = json!({
            "prompt": text.words,
            "params": recipe.given,
            "beams": settings(beams).into_iter().collect::<BTreeMap<_, _>>(),
            "schema": text.schema,
        });
        return request("/lab/beams", &question);
    }
    let mut body = recipe.given.clone();
    body.insert("prompt".to_owned(), text.words.clone().into());
    // The server's own default is shorter than that of the program.
    body.insert("max_tokens".to_owned(), text.params.max_tokens.into());
    if let Some(schema) = &text.schema {
        body.insert("structured_outputs".to_owned(), json!({"json": schema}));
    }
    if text.chosen.is_empty() {
        return request("/v1/completions", &body.into());
    }
    // Only the laboratory takes the tokens of branches.
    let forced = text.chosen.iter().map(|(position, token)| json!({"position": position, "token": token}));
    let question = json!({
        "prompt": text.words,
        "params": recipe.given,
        "forced": forced.collect::<Vec<_>>(),
        "schema": text.schema,
    });
    request("/lab/write", &question)
}

fn request(path: &str, body: &Value) -> String {
    let body = quoted(&body.to_string());
    format!("curl http://127.0.0.1:8080{path} -H 'content-type: application/json' -d {body}")
}
