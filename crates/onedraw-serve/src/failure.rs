//! Errors, in the form that OpenAI's clients know.

use std::fmt;

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use onedraw::{ParamError, RowError};
use onedraw_lm::{GenerateError, ModelError};
use serde_json::{Value, json};

/// Why a request has no answer, or not a whole one.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// The status of the answer.
    pub status: StatusCode,
    /// What is wrong, in one sentence.
    pub message: String,
    /// The field of the request that is wrong.
    pub param: Option<String>,
    /// A word for programs.
    pub code: Option<&'static str>,
}

/// How many seconds a client is asked to wait before it tries again: the time of a text of middle length.
const RETRY_SECONDS: u32 = 1;

impl Failure {
    /// A request that cannot be answered, because of one of its fields.
    pub(crate) fn field(name: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: Some(name.into()), ..Self::request(message) }
    }

    /// A request that cannot be answered.
    pub(crate) fn request(message: impl Into<String>) -> Self {
        Self::of(StatusCode::BAD_REQUEST, None, message)
    }

    /// A failure of this status.
    pub(crate) fn of(status: StatusCode, code: Option<&'static str>, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), param: None, code }
    }

    /// There are too many requests.
    pub(crate) fn busy(waiting: usize) -> Self {
        let message = format!("there are too many requests: {waiting} prompts are waiting; try again later");
        Self::of(StatusCode::TOO_MANY_REQUESTS, Some("queue_full"), message)
    }

    /// The server is about to end.
    pub(crate) fn ending() -> Self {
        Self::of(StatusCode::SERVICE_UNAVAILABLE, Some("shutting_down"), "the server is shutting down")
    }

    /// The engine is gone, which is a mistake of ours.
    pub(crate) fn gone() -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, Some("engine_stopped"), "the engine has stopped")
    }

    /// Reading the request broke, which is a mistake of ours too.
    pub(crate) fn panicked() -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, Some("request_failed"), "the request could not be read")
    }

    /// The request has taken too long.
    pub(crate) fn late(seconds: f64) -> Self {
        let message = format!("the request took longer than {seconds} seconds");
        Self::of(StatusCode::GATEWAY_TIMEOUT, Some("timeout"), message)
    }

    /// What a decode loop says of a request that it does not take.
    pub(crate) fn refused(error: &GenerateError) -> Self {
        match error {
            GenerateError::Param(error) => error.into(),
            GenerateError::Row(error) => Self::request(error.to_string()),
            GenerateError::Model(ModelError::Request(message)) => Self::request(message.clone()),
            other => Self::broken(&other.to_string()),
        }
    }

    /// A pass that failed.
    pub(crate) fn broken(message: &str) -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, Some("model_failed"), message)
    }

    /// A text that could not be continued.
    pub(crate) fn row(error: &RowError) -> Self {
        Self::of(StatusCode::INTERNAL_SERVER_ERROR, Some("draw_failed"), error.to_string())
    }

    /// The kind of failure, by OpenAI's names.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            429 => "rate_limit_error",
            400..500 => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// The body of the answer.
    pub(crate) fn body(&self) -> Value {
        json!({
            "error": {
                "message": self.message,
                "type": self.kind(),
                "param": self.param,
                "code": self.code,
            }
        })
    }
}

impl From<&ParamError> for Failure {
    fn from(error: &ParamError) -> Self {
        Self::field(error.field(), format!("{}: {}", error.field(), error.message()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.status, crate::http::Json(self.body())).into_response();
        if [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE].contains(&self.status) {
            response.headers_mut().insert(RETRY_AFTER, RETRY_SECONDS.into());
        }
        response.extensions_mut().insert(self);
        response
    }
}
