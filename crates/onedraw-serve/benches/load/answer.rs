//! Answers in one form, whether they came as a whole or as a stream, and what must be true of each.

use std::time::Instant;

use serde_json::{Map, Value};

use crate::client::{Arrived, Part};
use crate::request::{Asked, Path};

/// What an answer says.
#[derive(Debug, Default)]
pub struct Answer {
    /// Its name, which no other answer has.
    pub id: String,
    /// Its texts with what was told of each, in the form of whole answers and without nulls.
    pub texts: Vec<Value>,
    /// The tokens of its texts, if it says so.
    pub tokens: Option<u64>,
    /// For each text of a stream, when its parts came.
    pub times: Vec<Vec<Instant>>,
}

/// What is wrong with an answer.
#[derive(Debug)]
pub enum Wrong {
    /// The server says that it cannot answer.
    Failed(String),
    /// Something is missing.
    Lost(String),
    /// Something is there twice, or after its end.
    Doubled(String),
}

use Wrong::{Doubled, Failed, Lost};

/// Reads an answer that the client did not leave.
pub fn read(asked: &Asked, arrived: &Arrived) -> Result<Answer, Wrong> {
    if arrived.status.is_none_or(|status| status != 200) {
        let body: Vec<u8> = arrived.parts.iter().flat_map(|part| part.bytes.to_vec()).collect();
        return Err(Failed(format!("{:?}: {}", arrived.status, String::from_utf8_lossy(&body))));
    }
    match asked.streams {
        true => stream(asked, &arrived.parts, false),
        false => whole(asked, &arrived.parts),
    }
}

/// Reads what came of a stream before the client left.
pub fn read_beginning(asked: &Asked, arrived: &Arrived) -> Result<Answer, Wrong> {
    stream(asked, &arrived.parts, true)
}

fn whole(asked: &Asked, parts: &[Part]) -> Result<Answer, Wrong> {
    let bytes: Vec<u8> = parts.iter().flat_map(|part| part.bytes.to_vec()).collect();
    let body: Value = serde_json::from_slice(&bytes)
        .map_err(|error| Lost(format!("an answer that is no JSON: {error}")))?;
    let id = text(&body["id"]);
    if asked.path == Path::Responses {
        let texts = vec![response_text(&body)?];
        return Ok(Answer { id, texts, tokens: body["usage"]["output_tokens"].as_u64(), times: vec![] });
    }
    let mut texts = vec![Value::Null; asked.choices];
    for choice in body["choices"].as_array().into_iter().flatten() {
        let place = choice["index"].as_u64().unwrap_or(u64::MAX) as usize;
        match texts.get_mut(place) {
            Some(text) if text.is_null() => *text = bare(choice.clone()),
            _ => return Err(Doubled(format!("the choice {place} of {}", asked.choices))),
        }
    }
    if let Some(place) = texts.iter().position(|text| text["finish_reason"].is_null()) {
        return Err(Lost(format!("the choice {place} of {}", asked.choices)));
    }
    Ok(Answer { id, texts, tokens: body["usage"]["completion_tokens"].as_u64(), times: vec![] })
}

/// The one text of a whole response.
fn response_text(body: &Value) -> Result<Value, Wrong> {
    let (items, parts) = (&body["output"], &body["output"][0]["content"]);
    match (items.as_array().map(Vec::len), parts.as_array().map(Vec::len)) {
        (Some(1), Some(1)) => {}
        (Some(items), _) if items > 1 => return Err(Doubled(format!("{items} items"))),
        _ => return Err(Lost(format!("the text of {body}"))),
    }
    let mut found = Map::new();
    for (name, value) in
        [("text", &parts[0]["text"]), ("logprobs", &parts[0]["logprobs"]), ("status", &body["status"])]
    {
        found.insert(name.to_owned(), value.clone());
    }
    Ok(bare(Value::Object(found)))
}

/// An event of a stream, and when its last byte came.
struct Event {
    at: Instant,
    data: String,
}

/// The events of a stream. What comes after the last whole one is left out.
fn events(parts: &[Part]) -> Vec<Event> {
    let (mut events, mut waiting) = (Vec::new(), Vec::new());
    for Part { at, bytes } in parts {
        waiting.extend_from_slice(bytes);
        while let Some(end) = waiting.windows(2).position(|pair| pair == b"\n\n") {
            let event: Vec<u8> = waiting.drain(..end + 2).collect();
            let event = String::from_utf8_lossy(&event);
            let data = event.lines().find_map(|line| line.strip_prefix("data: ")).unwrap_or_default();
            events.push(Event { at: *at, data: data.to_owned() });
        }
    }
    events
}

fn stream(asked: &Asked, parts: &[Part], was_left: bool) -> Result<Answer, Wrong> {
    let mut told = Told {
        answer: Answer {
            texts: vec![Value::Null; asked.choices],
            times: vec![Vec::new(); asked.choices],
            ..Answer::default()
        },
        usages: 0,
        has_ended: false,
        number: 0,
    };
    for event in events(parts) {
        if told.has_ended {
            return Err(Doubled(format!("after the end of a stream: {}", event.data)));
        }
        if event.data == "[DONE]" {
            told.has_ended = true;
            continue;
        }
        let data: Value = serde_json::from_str(&event.data)
            .map_err(|error| Lost(format!("an event that is no JSON: {error}: {}", event.data)))?;
        if data.get("error").is_some_and(|error| !error.is_null()) || data["type"] == "error" {
            return Err(Failed(event.data));
        }
        match asked.path {
            Path::Responses => told.response_event(event.at, data)?,
            _ => told.chunk(event.at, data)?,
        }
    }
    told.check(asked, was_left)?;
    told.answer.texts = told.answer.texts.into_iter().map(bare).collect();
    Ok(told.answer)
}

/// What a stream has told so far.
struct Told {
    answer: Answer,
    usages: usize,
    has_ended: bool,
    /// The number of the next event of a response.
    number: u64,
}

impl Told {
    fn named(&mut self, id: &Value) -> Result<(), Wrong> {
        let id = text(id);
        match &self.answer.id {
            known if known.is_empty() => self.answer.id = id,
            known if *known == id => {}
            known => return Err(Doubled(format!("a stream is named {known} and {id}"))),
        }
        Ok(())
    }

    /// A chunk of a completion or a chat.
    fn chunk(&mut self, at: Instant, mut data: Value) -> Result<(), Wrong> {
        self.named(&data["id"])?;
        if !data["usage"].is_null() {
            self.usages += 1;
            self.answer.tokens = data["usage"]["completion_tokens"].as_u64();
        }
        for mut choice in data["choices"].as_array_mut().map(std::mem::take).into_iter().flatten() {
            let place = choice["index"].as_u64().unwrap_or(u64::MAX) as usize;
            let Some(text) = self.answer.texts.get_mut(place) else {
                return Err(Doubled(format!("a choice {place}")));
            };
            if text["finish_reason"].is_string() {
                return Err(Doubled(format!("after the end of choice {place}: {choice}")));
            }
            if text["message"]["role"].is_string() && !choice["delta"]["role"].is_null() {
                return Err(Doubled(format!("the role of choice {place}")));
            }
            if let Some(delta) = choice.as_object_mut().and_then(|choice| choice.remove("delta")) {
                choice["message"] = delta;
            }
            join(text, choice);
            self.answer.times[place].push(at);
        }
        Ok(())
    }

    /// An event of a response.
    fn response_event(&mut self, at: Instant, mut data: Value) -> Result<(), Wrong> {
        if data["sequence_number"].as_u64() != Some(self.number) {
            let wrong = format!("the event {} where {} is due", data["sequence_number"], self.number);
            return Err(if data["sequence_number"].as_u64() < Some(self.number) {
                Doubled(wrong)
            } else {
                Lost(wrong)
            });
        }
        self.number += 1;
        let kind = text(&data["type"]);
        match kind.as_str() {
            "response.created" => self.named(&data["response"]["id"]),
            "response.output_text.delta" => {
                let mut part = Map::new();
                part.insert("text".to_owned(), data["delta"].take());
                part.insert("logprobs".to_owned(), data["logprobs"].take());
                join(&mut self.answer.texts[0], Value::Object(part));
                self.answer.times[0].push(at);
                Ok(())
            }
            "response.output_text.done" => {
                let joined = self.answer.texts[0]["text"].as_str().unwrap_or_default();
                match data["text"].as_str() {
                    Some(text) if text == joined => Ok(()),
                    _ => Err(Lost(format!("{joined:?} was told of {}", data["text"]))),
                }
            }
            "response.completed" | "response.incomplete" => {
                self.has_ended = true;
                let last = response_text(&data["response"])?;
                let text = &mut self.answer.texts[0];
                if text.is_null() {
                    *text = serde_json::json!({"text": "", "logprobs": []});
                }
                text["status"] = data["response"]["status"].clone();
                if bare(text.clone()) != last {
                    return Err(Lost(format!("{text} was told of {last}")));
                }
                self.answer.tokens = data["response"]["usage"]["output_tokens"].as_u64();
                self.named(&data["response"]["id"])
            }
            _ => Ok(()),
        }
    }

    /// What must be true at the end.
    fn check(&self, asked: &Asked, was_left: bool) -> Result<(), Wrong> {
        let most = usize::from(asked.tells_usage);
        if self.usages > most {
            return Err(Doubled(format!("{} numbers of tokens", self.usages)));
        }
        if was_left {
            return Ok(());
        }
        if !self.has_ended {
            return Err(Lost("the end of a stream".to_owned()));
        }
        if self.usages < most {
            return Err(Lost("the number of tokens".to_owned()));
        }
        let end = if asked.path == Path::Responses { "status" } else { "finish_reason" };
        match self.answer.texts.iter().position(|text| !text[end].is_string()) {
            Some(place) => Err(Lost(format!("the end of choice {place}"))),
            None => Ok(()),
        }
    }
}

/// Puts a part behind what was told before: strings and lists grow, and what is told once is told once.
fn join(whole: &mut Value, part: Value) {
    match (whole, part) {
        (Value::String(whole), Value::String(part)) => whole.push_str(&part),
        (Value::Array(whole), Value::Array(part)) => whole.extend(part),
        (Value::Object(whole), Value::Object(part)) => {
            for (name, value) in part {
                match whole.get_mut(&name) {
                    Some(known) => join(known, value),
                    None => _ = whole.insert(name, value),
                }
            }
        }
        (whole, part) if whole.is_null() => *whole = part,
        _ => {}
    }
}

/// The same without fields that are null, which say nothing.
fn bare(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, bare(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(bare).collect()),
        other => other,
    }
}

/// Whether a text, as far as it was told, is the beginning of the whole one.
pub fn is_beginning(part: &Value, whole: &Value) -> bool {
    match (part, whole) {
        (Value::Null, _) => true,
        (Value::String(part), Value::String(whole)) => whole.starts_with(part),
        (Value::Array(part), Value::Array(whole)) => whole.starts_with(part),
        (Value::Object(part), Value::Object(whole)) => {
            part.iter().all(|(name, value)| whole.get(name).is_some_and(|known| is_beginning(value, known)))
        }
        _ => part == whole,
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
