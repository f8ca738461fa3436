//! Chats.

use onedraw_lm::Message;
use serde_json::{Map, Value};

use super::fields::wrong;
use crate::failure::Failure;

/// The roles of a chat. OpenAI's `developer` is the system's voice under another name.
const ROLES: [(&str, &str); 4] =
    [("system", "system"), ("developer", "system"), ("user", "user"), ("assistant", "assistant")];

/// The kinds of parts that are text.
const TEXTS: [&str; 3] = ["text", "input_text", "output_text"];

/// The messages of a chat. Errors call their list `name`.
pub(super) fn messages(name: &str, given: Option<Value>) -> Result<Vec<Message>, Failure> {
    let list = match given {
        Some(Value::Array(list)) if !list.is_empty() => list,
        None => return Err(Failure::field(name, format!("{name}: is required"))),
        Some(_) => return Err(wrong(name, "a list of messages")),
    };
    list.into_iter().enumerate().map(|(place, item)| message(&format!("{name}[{place}]"), item)).collect()
}

fn message(name: &str, given: Value) -> Result<Message, Failure> {
    let Value::Object(mut fields) = given else { return Err(wrong(name, "an object")) };
    fields.retain(|_, value| !value.is_null());
    let role = fields.remove("role");
    let role = role.as_ref().and_then(Value::as_str).unwrap_or_default();
    let Some((_, role)) = ROLES.iter().find(|(known, _)| *known == role) else {
        let roles: Vec<&str> = ROLES.iter().map(|(known, _)| *known).collect();
        return Err(wrong(&format!("{name}.role"), &format!("one of {}", roles.join(", "))));
    };
    let content = content(&format!("{name}.content"), fields.remove("content"))?;
    refuse_rest(name, fields)?;
    Ok(Message::new(*role, content))
}

/// Text, or a list of parts that are text.
pub(super) fn content(name: &str, given: Option<Value>) -> Result<String, Failure> {
    match given {
        Some(Value::String(text)) => Ok(text),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().enumerate().map(|(place, part)| {
                let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
                let text = part.get("text").and_then(Value::as_str);
                let text = text.filter(|_| TEXTS.contains(&kind));
                let place = format!("{name}[{place}]");
                text.ok_or_else(|| {
                    Failure::field(&place, format!("{place}: only text is supported, not `{kind}`"))
                })
            });
            Ok(texts.collect::<Result<Vec<&str>, Failure>>()?.concat())
        }
        _ => Err(wrong(name, "a string or a list of parts")),
    }
}

/// Other fields of a message: those that ask for nothing are passed over.
fn refuse_rest(name: &str, fields: Map<String, Value>) -> Result<(), Failure> {
    /// What an answer of this server has, and a client may send back.
    const HARMLESS: [&str; 6] = ["name", "id", "status", "type", "annotations", "phase"];
    let is_harmless =
        |field: &str, value: &Value| HARMLESS.contains(&field) || value.as_array().is_some_and(Vec::is_empty);
    match fields.iter().find(|(field, value)| !is_harmless(field, value)) {
        None => Ok(()),
        Some((field, _)) => {
            let field = format!("{name}.{field}");
            Err(Failure::field(&field, format!("{field}: is not supported")))
        }
    }
}
