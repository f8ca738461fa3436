//! HTTP around the routes: connections and their timeouts, who may ask, bodies, and one line in the log for each
//! request.

mod access;
mod body;
mod connections;
mod guard;
mod stalling;

use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

pub(crate) use access::{Record, logged, shortened};
pub(crate) use body::Bodies;
pub(crate) use connections::serve;
pub(crate) use guard::{Keys, host_is_ours, knows_key};

/// An answer that is JSON.
pub(crate) struct Json(pub Value);

impl IntoResponse for Json {
    fn into_response(self) -> Response {
        let mut response = self.0.to_string().into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}
