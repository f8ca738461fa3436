//! Answers of the laboratory: lines of JSON, as they come.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use hyper::body::Frame;
use onedraw_lab::Line;
use serde_json::json;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::engine::Reply;
use crate::failure::Failure;
use crate::http::Record;
use crate::page::LINES;

/// Waits for the first lines, so that a refusal has its own status, and gives all lines from then on.
pub(crate) async fn lines(
    mut replies: UnboundedReceiver<Reply>,
    record: Record,
) -> Result<Response, Failure> {
    let first = replies.recv().await.ok_or_else(Failure::gone)??;
    let mut response = Response::new(Body::new(Lines { first: Some(first), replies, record }));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, LINES);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

/// The body of an answer. When its client leaves, it is dropped, and the engine lets go of the question.
struct Lines {
    first: Option<Vec<Line>>,
    replies: UnboundedReceiver<Reply>,
    record: Record,
}

impl hyper::body::Body for Lines {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let answer = self.get_mut();
        loop {
            let reply = match answer.first.take() {
                Some(first) => Some(Ok(first)),
                None => ready!(answer.replies.poll_recv(context)),
            };
            match reply {
                None => return Poll::Ready(None),
                Some(Ok(lines)) if lines.is_empty() => {}
                Some(Ok(lines)) => {
                    let tokens = lines.iter().filter(|line| line["kind"] == "token").count();
                    answer.record.wrote(tokens);
                    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
                    return Poll::Ready(Some(Ok(Frame::data(text.into()))));
                }
                Some(Err(failure)) => {
                    answer.record.failed(&failure);
                    let Failure { message, param, code, .. } = failure;
                    let error = json!({"kind": code, "message": message, "field": param});
                    let line = json!({"kind": "error", "error": error});
                    return Poll::Ready(Some(Ok(Frame::data(format!("{line}\n").into()))));
                }
            }
        }
    }
}
