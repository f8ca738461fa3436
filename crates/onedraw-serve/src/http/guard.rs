//! Who may ask: keys, and the name under which the server was called.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::{AUTHORIZATION, HOST};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::failure::Failure;

/// The keys that are accepted, as hashes: comparing these tells nothing about the length of a key either.
#[derive(Clone)]
pub(crate) struct Keys(Arc<Vec<[u8; 32]>>);

impl Keys {
    pub(crate) fn new(keys: &[String]) -> Self {
        Self(Arc::new(keys.iter().map(|key| hash(key)).collect()))
    }

    /// Whether it is one of the keys. It takes the same time for every key that is not.
    fn accept(&self, key: &str) -> bool {
        let given = hash(key);
        let equal = self.0.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&given));
        equal.into()
    }
}

fn hash(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Lets those pass who know a key, if there are keys.
pub(crate) async fn knows_key(State(keys): State<Keys>, request: Request, next: Next) -> Response {
    if keys.0.is_empty() {
        return next.run(request).await;
    }
    let given = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' '));
    let message = match given {
        Some((scheme, key)) if scheme.eq_ignore_ascii_case("bearer") => {
            if keys.accept(key.trim()) {
                return next.run(request).await;
            }
            "the key is not one of this server's"
        }
        _ => "a key is needed: Authorization: Bearer KEY",
    };
    Failure::of(StatusCode::UNAUTHORIZED, Some("invalid_api_key"), message).into_response()
}

/// On loopback, lets those pass who call the server by a name of this machine. Otherwise a page of the web whose name
/// an attacker lets point at 127.0.0.1 could ask.
pub(crate) async fn host_is_ours(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let called = request.uri().authority().map(|authority| authority.as_str()).or(host);
    match called {
        Some(name) if is_loopback(name) => next.run(request).await,
        _ => {
            let message = "the server listens on loopback and must be called localhost or by its address";
            Failure::of(StatusCode::FORBIDDEN, Some("host_not_allowed"), message).into_response()
        }
    }
}

/// Whether a host, perhaps with a port, is a name of this machine.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_are_known() {
        for name in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.8.9.1", "[::1]:80", "[::1]"] {
            assert!(is_loopback(name), "{name}");
        }
        for name in ["", "example.org", "localhost.example.org:8080", "10.0.0.1", "[::2]", "127.0.0.1.nip.io"]
        {
            assert!(!is_loopback(name), "{name}");
        }
    }

    #[test]
    fn keys_are_compared_as_a_whole() {
        let keys = Keys::new(&["first".to_owned(), "second".to_owned()]);
        assert!(keys.accept("first") && keys.accept("second"));
        assert!(!["", "firs", "first ", "third"].iter().any(|key| keys.accept(key)));
    }
}
