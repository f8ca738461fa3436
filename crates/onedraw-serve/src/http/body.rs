//! Bodies of requests: JSON, not too long, and not for ever.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::failure::Failure;

/// How bodies are read.
#[derive(Clone, Copy)]
pub(crate) struct Bodies {
    /// The most bytes.
    pub most: usize,
    /// The most time.
    pub time: Duration,
}

impl Bodies {
    /// Reads a body of JSON.
    pub(crate) async fn read(self, headers: &HeaderMap, body: Body) -> Result<Bytes, Failure> {
        // A page of another origin can send other types without asking; JSON it cannot.
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            let message = "the body must have the content type application/json";
            return Err(Failure::of(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, message));
        }
        let body = Limited::new(body, self.most).collect();
        match tokio::time::timeout(self.time, body).await {
            Err(_) => {
                let message = format!("the body did not arrive within {} seconds", self.time.as_secs_f64());
                Err(Failure::of(StatusCode::REQUEST_TIMEOUT, Some("timeout"), message))
            }
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                let message = format!("the body has more than {} bytes", self.most);
                Err(Failure::of(StatusCode::PAYLOAD_TOO_LARGE, None, message))
            }
            Ok(Err(error)) => Err(Failure::request(format!("the body cannot be read: {error}"))),
        }
    }
}
