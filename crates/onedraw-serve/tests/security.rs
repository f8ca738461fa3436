//! Who may ask.

use serde_json::json;

use crate::support::{Settings, models, serve, settings, stories};

#[tokio::test]
async fn keys_open_everything_but_health() {
    let keys = vec!["first key".to_owned(), "second".to_owned()];
    let server = serve(models::stories(), Settings { keys, ..settings() }).await;
    let body = json!({"prompt": "Once", "max_tokens": 1});
    for (header, status) in [
        (None, 401),
        (Some("Bearer wrong"), 401),
        (Some("Bearer firs"), 401),
        (Some("Basic second"), 401),
        (Some("second"), 401),
        (Some("Bearer second"), 200),
        (Some("bearer first key"), 200),
    ] {
        let mut requests = vec![server.post("/v1/completions", body.clone())];
        requests.extend(["/v1/models", "/metrics"].map(|path| server.get(path)));
        for mut request in requests {
            if let Some(header) = header {
                request = request.header("authorization", header);
            }
            let answer = request.send().await;
            assert_eq!(answer.status, status, "{header:?}: {}", answer.body);
            if status == 401 {
                let error = answer.json()["error"].clone();
                assert_eq!(
                    (&error["type"], &error["code"]),
                    (&json!("authentication_error"), &json!("invalid_api_key"))
                );
            }
        }
    }
    assert_eq!(server.get("/health").send().await.status, 200);
    server.end().await;
}

/// A page whose name points at this machine sends its own name.
#[tokio::test]
async fn on_loopback_the_name_must_be_one_of_this_machine() {
    let server = stories().await;
    let port = server.address.port();
    for (host, status) in [
        (format!("localhost:{port}"), 200),
        (format!("127.0.0.1:{port}"), 200),
        ("rebound.example.org".to_owned(), 403),
        (format!("rebound.example.org:{port}"), 403),
    ] {
        for path in ["/health", "/v1/models"] {
            let answer = server.get(path).header("host", &host).send().await;
            assert_eq!(answer.status, status, "{host}");
        }
    }
    let answer = server.get("/health").header("host", "evil.org").send().await;
    assert_eq!(answer.json()["error"]["code"], "host_not_allowed");
    server.end().await;
}

#[tokio::test]
async fn pages_of_other_origins_are_let_in_only_if_asked() {
    let origin = "https://page.example.org";
    let server = stories().await;
    let answer = server.get("/health").header("origin", origin).send().await;
    assert_eq!(answer.header("access-control-allow-origin"), None);
    server.end().await;
    let cors = vec![origin.to_owned()];
    let server = serve(models::stories(), Settings { cors, keys: vec!["k".to_owned()], ..settings() }).await;
    for (from, allowed) in [(origin, Some(origin)), ("https://other.example.org", None)] {
        // The question before the request has no key.
        let preflight = crate::support::Request::new(server.address, "OPTIONS", "/v1/completions")
            .header("origin", from)
            .header("access-control-request-method", "POST")
            .header("access-control-request-headers", "content-type,authorization,x-stainless-lang");
        let answer = preflight.send().await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, allowed), "{from}");
        let headers = answer.header("access-control-allow-headers").unwrap_or_default();
        assert!(headers.contains("x-stainless-lang"), "{headers}");
        let request = server.get("/v1/models").header("origin", from).header("authorization", "Bearer k");
        let answer = request.send().await;
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, allowed), "{from}");
    }
    server.end().await;
}
