//! The laboratory's page, which is open without a key: it asks for one where that is needed.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use onedraw_lab::{File, Line, page};

/// What the page may do: run and show its own files, and ask the server that it comes from.
const POLICY: &str = "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

/// The first file, which is also at `/`.
const INDEX: &str = "index.html";

/// A route for each file of the page.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let mut routes = Router::new();
    for file in page() {
        if file.name == INDEX {
            routes = routes.route("/", get(move || async move { shown(file) }));
        }
        routes = routes.route(&format!("/{}", file.name), get(move || async move { shown(file) }));
    }
    routes
}

fn shown(file: File) -> Response {
    let mut response = file.bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(file.kind));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // Another version of the server has another page under the same names.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// The answer to a question that cannot be read.
pub(crate) fn refused(failure: &onedraw_lab::Failure) -> Response {
    line(StatusCode::BAD_REQUEST, &failure.line())
}

/// An answer of one line, which needs no pass of the model.
pub(crate) fn told(answer: &Line) -> Response {
    line(StatusCode::OK, answer)
}

fn line(status: StatusCode, line: &Line) -> Response {
    let mut response = (status, format!("{line}\n")).into_response();
    response.headers_mut().insert(CONTENT_TYPE, LINES);
    response
}

/// Lines of JSON.
pub(crate) const LINES: HeaderValue = HeaderValue::from_static("application/x-ndjson");
