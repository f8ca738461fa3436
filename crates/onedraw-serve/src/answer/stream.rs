//! Answers that come as they are written: server-sent events.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;

use super::response::Message as Told;
use super::{Pieces, Teller};
use crate::engine::Message;
use crate::failure::Failure;
use crate::http::Record;
use crate::request::Interface;

/// Waits until the job has begun, so that a refusal has its own status, and streams from then on.
pub(crate) async fn stream(
    teller: Teller,
    mut messages: UnboundedReceiver<Message>,
    record: Record,
) -> Result<Response, Failure> {
    match messages.recv().await {
        Some(Message::Failed(failure)) => return Err(failure),
        Some(_) => {}
        None => return Err(Failure::gone()),
    }
    let pieces = teller.pieces();
    let events = Events {
        teller,
        messages,
        pieces,
        told: Told::default(),
        ready: VecDeque::new(),
        has_ended: false,
        record,
    };
    let mut response = Response::new(Body::new(events));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// The body of a stream. It asks for messages only when its client reads, and the engine waits for nobody: what a
/// client has not read yet is at most its texts.
struct Events {
    teller: Teller,
    messages: UnboundedReceiver<Message>,
    pieces: Pieces,
    /// What was told of a response.
    told: Told,
    ready: VecDeque<Bytes>,
    has_ended: bool,
    record: Record,
}

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let events = self.get_mut();
        loop {
            if let Some(bytes) = events.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if events.has_ended {
                return Poll::Ready(None);
            }
            match ready!(events.messages.poll_recv(context)) {
                Some(message) => events.take(message),
                None => events.fail(&Failure::gone()),
            }
        }
    }
}

impl Events {
    fn take(&mut self, message: Message) {
        match message {
            Message::Begun => {}
            Message::Failed(failure) => self.fail(&failure),
            Message::Event { prompt, event } => match self.pieces.take(prompt, *event) {
                Ok(piece) => self.tell(&piece),
                Err(failure) => self.fail(&failure),
            },
        }
    }

    fn tell(&mut self, piece: &super::Piece) {
        self.record.wrote(piece.tokens.len());
        let usage = self.teller.usage(self.pieces.written);
        let says_nothing = piece.text.is_empty() && piece.end.is_none() && !piece.is_first;
        if says_nothing && (piece.tokens.is_empty() || !self.tells_tokens()) {
            return;
        }
        match self.teller.interface {
            Interface::Completions => self.send_chunk(self.teller.completion_chunk(piece)),
            Interface::Chat => self.send_chunk(self.teller.chat_chunk(piece)),
            Interface::Responses => {
                for event in self.teller.response_events(piece, &mut self.told, usage) {
                    self.send_named(&event);
                }
            }
        }
        if self.pieces.left == 0 {
            self.has_ended = true;
            let object = match self.teller.interface {
                Interface::Completions => "text_completion",
                Interface::Chat => "chat.completion.chunk",
                Interface::Responses => return,
            };
            if self.teller.asked.tells_usage {
                self.send(&self.teller.usage_chunk(object, usage));
            }
            self.ready.push_back(Bytes::from_static(b"data: [DONE]\n\n"));
        }
    }

    /// Whether parts of the answer say something of tokens without text.
    fn tells_tokens(&self) -> bool {
        let asked = &self.teller.asked;
        asked.params.logprobs.is_some()
            || asked.tells_ids
            || asked.params.probability
            || asked.params.kept != onedraw::KeptMode::None
    }

    fn fail(&mut self, failure: &Failure) {
        self.has_ended = true;
        self.record.failed(failure);
        match self.teller.interface {
            Interface::Responses => self.send_named(&self.teller.response_failed(failure, &self.told)),
            _ => self.send(&failure.body()),
        }
    }

    /// Every part of a stream that ends with the numbers of tokens has a place for them.
    fn send_chunk(&mut self, mut chunk: Value) {
        if self.teller.asked.tells_usage {
            chunk["usage"] = Value::Null;
        }
        self.send(&chunk);
    }

    fn send(&mut self, value: &Value) {
        self.ready.push_back(format!("data: {value}\n\n").into());
    }

    fn send_named(&mut self, event: &Value) {
        let name = event["type"].as_str().unwrap_or_default();
        self.ready.push_back(format!("event: {name}\ndata: {event}\n\n").into());
    }
}
