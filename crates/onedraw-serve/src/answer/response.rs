//! Answers of `/v1/responses`.

use onedraw::Sampled;
use serde_json::{Value, json};

use super::{Piece, Teller, Usage, logprobs, now};
use crate::failure::Failure;

/// The one message of a response, as far as it was told.
#[derive(Default)]
pub(super) struct Message {
    text: String,
    logprobs: Vec<Value>,
    /// The number of the next event.
    number: u64,
}

impl Teller {
    fn message_id(&self) -> String {
        self.id.replacen("resp", "msg", 1)
    }

    fn entries(&self, tokens: &[Sampled]) -> Vec<Value> {
        match self.asked.params.logprobs {
            Some(listed) => logprobs::of_chat(&self.model.tokenizer, tokens, listed),
            None => Vec::new(),
        }
    }

    fn part(text: &str, logprobs: &[Value]) -> Value {
        json!({"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs})
    }

    fn item(&self, status: &str, content: Vec<Value>) -> Value {
        let id = self.message_id();
        json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": content})
    }

    fn of_status(&self, status: &str, output: Vec<Value>) -> Value {
        let params = &self.asked.params;
        let mut response = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "model": self.model.name,
            "system_fingerprint": self.fingerprint,
            "seed": params.seed,
            "output": output,
            "error": null,
            "incomplete_details": null,
            "usage": null,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "tools": [],
            "tool_choice": "auto",
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "store": false,
            "truncation": "disabled",
            "background": false,
        });
        for (name, value) in &self.asked.repeated {
            response[name] = value.clone();
        }
        response
    }

    fn ended(&self, word: &str, text: &str, logprobs: &[Value], usage: Usage) -> Value {
        let status = if word == "length" { "incomplete" } else { "completed" };
        let item = self.item(status, vec![Self::part(text, logprobs)]);
        let mut response = self.of_status(status, vec![item]);
        if word == "length" {
            response["incomplete_details"] = json!({"reason": "max_output_tokens"});
        } else {
            response["completed_at"] = now().into();
        }
        response["usage"] = json!({
            "input_tokens": usage.prompt,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt + usage.output,
        });
        response
    }

    pub(super) fn response(&self, text: &Piece, usage: Usage) -> Value {
        let word = text.end.map_or("length", |end| end.word());
        self.ended(word, &text.text, &self.entries(&text.tokens), usage)
    }

    /// The events of a piece. `message` is what was told before, and becomes what was told.
    pub(super) fn response_events(&self, piece: &Piece, message: &mut Message, usage: Usage) -> Vec<Value> {
        let (id, place) = (self.message_id(), 0);
        let mut events = Vec::new();
        if piece.is_first {
            events
                .push(json!({"type": "response.created", "response": self.of_status("in_progress", vec![])}));
            events.push(
                json!({"type": "response.in_progress", "response": self.of_status("in_progress", vec![])}),
            );
            let item = self.item("in_progress", vec![]);
            events.push(json!({"type": "response.output_item.added", "output_index": place, "item": item}));
            events.push(json!({
                "type": "response.content_part.added",
                "item_id": id, "output_index": place, "content_index": 0, "part": Self::part("", &[]),
            }));
        }
        let logprobs = self.entries(&piece.tokens);
        if !piece.text.is_empty() || !logprobs.is_empty() {
            events.push(json!({
                "type": "response.output_text.delta",
                "item_id": id, "output_index": place, "content_index": 0,
                "delta": piece.text, "logprobs": logprobs,
            }));
        }
        message.text += &piece.text;
        message.logprobs.extend(logprobs);
        if let Some(end) = piece.end {
            let (text, logprobs) = (&message.text, &message.logprobs);
            let response = self.ended(end.word(), text, logprobs, usage);
            events.push(json!({
                "type": "response.output_text.done",
                "item_id": id, "output_index": place, "content_index": 0, "text": text, "logprobs": logprobs,
            }));
            events.push(json!({
                "type": "response.content_part.done",
                "item_id": id, "output_index": place, "content_index": 0, "part": Self::part(text, logprobs),
            }));
            let item = response["output"][0].clone();
            events.push(json!({"type": "response.output_item.done", "output_index": place, "item": item}));
            let kind = format!("response.{}", response["status"].as_str().unwrap_or("completed"));
            events.push(json!({"type": kind, "response": response}));
        }
        for event in &mut events {
            event["sequence_number"] = message.number.into();
            message.number += 1;
        }
        events
    }

    /// The event of a failure.
    pub(super) fn response_failed(&self, failure: &Failure, message: &Message) -> Value {
        json!({
            "type": "error",
            "sequence_number": message.number,
            "code": failure.code,
            "message": failure.message,
            "param": failure.param,
        })
    }
}
