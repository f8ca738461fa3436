//! One line in the log for each request, once its answer has ended.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::Frame;

use crate::answer::named;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::paths::route;

/// What a request turns out to be, as far as it is known.
#[derive(Clone)]
pub(crate) struct Record(Arc<Mutex<Noted>>);

struct Noted {
    begun: Instant,
    prompt_tokens: usize,
    output_tokens: usize,
    first_token: Option<Duration>,
    seed: Option<u64>,
    prompt: Option<String>,
    /// Why a stream ended early.
    failure: Option<String>,
}

impl Record {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Noted {
            begun: Instant::now(),
            prompt_tokens: 0,
            output_tokens: 0,
            first_token: None,
            seed: None,
            prompt: None,
            failure: None,
        })))
    }

    fn note(&self, change: impl FnOnce(&mut Noted)) {
        // A panic elsewhere leaves these numbers whole.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The request was read. The prompt is given if it is to be logged.
    pub(crate) fn asked(&self, tokens: usize, seed: Option<u64>, prompt: Option<String>) {
        self.note(|noted| (noted.prompt_tokens, noted.seed, noted.prompt) = (tokens, seed, prompt));
    }

    pub(crate) fn wrote(&self, tokens: usize) {
        self.note(|noted| {
            noted.output_tokens += tokens;
            if tokens > 0 {
                noted.first_token.get_or_insert(noted.begun.elapsed());
            }
        });
    }

    /// Notes what went wrong. The message of a failure may have words of the request, which are nobody's business here:
    /// of a mistake of the client only the field or the kind is noted.
    pub(crate) fn failed(&self, failure: &Failure) {
        let told = match failure.status.is_server_error() {
            true => &failure.message,
            false => failure.code.or(failure.param.as_deref()).unwrap_or("invalid_request"),
        };
        self.note(|noted| noted.failure = Some(shortened(told)));
    }
}

/// Gives each request a name, which its answer has as `x-request-id`, and logs it once its answer has ended.
pub(crate) async fn logged(State(metrics): State<Metrics>, mut request: Request, next: Next) -> Response {
    let record = Record::new();
    let id = named("req").unwrap_or_else(|_| "req-unknown".to_owned());
    let (method, path) = (shortened(request.method().as_str()), shortened(request.uri().path()));
    let has_no_body = request.method() == Method::HEAD;
    request.extensions_mut().insert(record.clone());
    // If the client leaves before there is an answer, this is dropped, and logged then.
    let mut entry = Entry { id, method, path, status: 0, has_ended: false, record, metrics };
    let mut response = next.run(request).await;
    entry.status = response.status().as_u16();
    entry.has_ended = has_no_body;
    if let Some(failure) = response.extensions().get::<Failure>() {
        entry.record.failed(failure);
    }
    if let Ok(id) = HeaderValue::from_str(&entry.id) {
        response.headers_mut().insert("x-request-id", id);
    }
    response.map(|inner| Body::new(Watched { inner, entry }))
}

/// A word of a request as it is told: anybody may send a long one.
pub(crate) fn shortened(word: &str) -> String {
    const MOST: usize = 100;
    word.chars().take(MOST).collect()
}

/// A line of the log, written when it is dropped.
struct Entry {
    id: String,
    method: String,
    path: String,
    /// 0: the client left before there was an answer.
    status: u16,
    /// Whether the client got the whole answer.
    has_ended: bool,
    record: Record,
    metrics: Metrics,
}

impl Drop for Entry {
    fn drop(&mut self) {
        /// The status that other servers write for a client that has left.
        const LEFT: u16 = 499;
        let status = if self.status == 0 { LEFT } else { self.status };
        let Self { id, method, path, has_ended, record, metrics, .. } = self;
        record.note(|noted| {
            let time = noted.begun.elapsed();
            metrics.answered(route(path), status, time);
            tracing::info!(
                id,
                method,
                path,
                status,
                seconds = time.as_secs_f64(),
                first_token_seconds = noted.first_token.map(|time| time.as_secs_f64()),
                prompt_tokens = noted.prompt_tokens,
                output_tokens = noted.output_tokens,
                seed = noted.seed,
                prompt = noted.prompt,
                failure = noted.failure,
                left = !*has_ended,
                "request"
            );
        });
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Nobody asks an empty body for its end.
        self.entry.has_ended |= hyper::body::Body::is_end_stream(&self.inner);
    }
}

/// A body that knows when it has ended.
struct Watched {
    inner: Body,
    entry: Entry,
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let watched = self.get_mut();
        let polled = Pin::new(&mut watched.inner).poll_frame(context);
        watched.entry.has_ended |= matches!(polled, Poll::Ready(None)) || watched.inner.is_end_stream();
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        self.inner.size_hint()
    }
}
