//! Clients, models and grammars that misbehave: each has a defined answer, and the others' texts are right.

use std::time::{Duration, Instant};

use onedraw_serve::Limits;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use crate::support::{Running, limited, models, serve, settings, stories};

/// A request whose text is known.
async fn check(server: &Running) {
    let body = json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": 20});
    let text = server.text(body).await;
    assert_eq!(text, ", there was a little girl named Lily. She loved to play outside in the park. One day");
}

/// Sends bytes as they are, and reads until the server closes the connection.
async fn raw(server: &Running, bytes: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.expect("a connection");
    stream.write_all(bytes.as_bytes()).await.expect("bytes");
    let mut answer = Vec::new();
    // The connection may end by a reset, after the answer.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn half_a_body_is_not_waited_for() {
    let server =
        serve(models::stories(), limited(Limits { upload: Duration::from_millis(300), ..Limits::default() }))
            .await;
    let begun = Instant::now();
    let head = "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let half = format!("{head}content-length: 100\r\n\r\n{{\"prompt\":");
    let (answer, ()) = tokio::join!(raw(&server, &half), check(&server));
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("the body did not arrive within 0.3 seconds"), "{answer}");
    assert!(begun.elapsed() < Duration::from_secs(20));
    server.end().await;
}

#[tokio::test]
async fn a_header_that_never_ends_is_cut_off() {
    let server =
        serve(models::stories(), limited(Limits { head: Duration::from_millis(300), ..Limits::default() }))
            .await;
    let answer = raw(&server, "GET /health HTTP/1.1\r\nhost: localhost\r\nx-slow: a").await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    let long =
        raw(&server, &format!("GET /health HTTP/1.1\r\nhost: localhost\r\nx: {}", "a".repeat(1 << 20))).await;
    assert!(long.is_empty() || long.starts_with("HTTP/1.1 431 "), "{long}");
    let idle = raw(&server, "").await;
    assert_eq!(idle, "");
    check(&server).await;
    server.end().await;
}

#[tokio::test]
async fn no_http_is_refused() {
    let server = stories().await;
    let answer = raw(&server, "\x16\x03\x01\x02\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    check(&server).await;
    server.end().await;
}

/// More idle connections than the server takes: those who come are told so, and once the idle ones are closed everybody
/// is served.
#[tokio::test]
async fn idle_connections_are_told_to_go() {
    let limits = Limits { connections: 50, head: Duration::from_millis(700), ..Limits::default() };
    let server = serve(models::stories(), limited(limits)).await;
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.push(TcpStream::connect(server.address).await.expect("a connection"));
    }
    let refused = loop {
        // A connection that was made is not yet one that was taken.
        let answer = raw(&server, "").await;
        if !answer.is_empty() {
            break answer;
        }
    };
    assert!(refused.starts_with("HTTP/1.1 503 ") && refused.contains("too_many_connections"), "{refused}");
    for stream in &mut idle {
        // Closed by the server.
        assert_eq!(stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
    }
    check(&server).await;
    server.end().await;
}

/// A client that does not read is cut off, so that it does not keep the server's memory; the others go on.
#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let limits = Limits { stall: Duration::from_millis(300), ..Limits::default() };
    let (_folder, model) = models::long();
    let server = serve(model, limited(limits)).await;
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(1024).expect("a small buffer");
    let mut stream = socket.connect(server.address).await.expect("a connection");
    let body =
        json!({"prompt": "Once", "max_tokens": 8000, "ignore_eos": true, "stream": true, "logprobs": 20});
    let body = body.to_string();
    let head = "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";
    let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.expect("a request");
    server.until("onedraw_running", 1.0).await;
    check(&server).await;
    for _ in 0..3000 {
        if server.metric("onedraw_cancelled_texts_total").await == 1.0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    server.until("onedraw_running", 0.0).await;
    assert_eq!(server.metric("onedraw_cancelled_texts_total").await, 1.0);
    drop(stream);
    server.end().await;
}

#[tokio::test]
async fn a_model_that_gives_no_numbers_is_an_error_of_the_request() {
    let (_folder, model) = models::nan();
    let server = serve(model, settings()).await;
    let mut body = json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": 20});
    let answer = server.post("/v1/completions", body.clone()).send().await;
    let error = answer.json()["error"].clone();
    assert_eq!(
        (answer.status, &error["type"], &error["code"]),
        (500, &json!("server_error"), &json!("draw_failed"))
    );
    assert_eq!(error["message"], "the logit of token 0 is NaN; logits are finite or -inf (masked)");
    body["stream"] = true.into();
    let answer = server.post("/v1/completions", body.clone()).send().await;
    let events = answer.events();
    assert_eq!((answer.status, events.len()), (200, 1));
    assert_eq!(serde_json::from_str::<Value>(&events[0].1).expect("JSON")["error"], error);
    body.as_object_mut().expect("an object").remove("stream");
    body.as_object_mut().expect("an object").remove("max_tokens");
    let explained = server.post("/v1/explain", body).send().await;
    assert_eq!((explained.status, &explained.json()["error"]["code"]), (500, &json!("draw_failed")));
    server.end().await;
}

/// Grammars that are made to take all time and memory.
#[tokio::test]
async fn grammars_that_explode_are_refused() {
    let server =
        serve(models::stories(), limited(Limits { compile: Duration::from_secs(5), ..Limits::default() }))
            .await;
    let nested = (0..12).fold(
        json!({"type": "string"}),
        |inner, _| json!({"type": "object", "properties": {"a": inner, "b": inner}, "required": ["a", "b"]}),
    );
    let alternatives: Vec<Value> = (0..300)
        .map(|i| json!({"type": "object", "properties": {format!("p{i}"): {"pattern": "(a|b)*c{1,50}"}}}))
        .collect();
    let exploding = [
        json!({"regex": "((a{1,100}){1,100}){1,100}"}),
        json!({"regex": "(x+x+)+y(a|b|c|d){1,1000}[^z]*(q|w){5,900}"}),
        json!({"json": {"anyOf": alternatives, "minProperties": 200}}),
        json!({"json": nested}),
        json!({"grammar": format!("start: {}", "\"a\"? ".repeat(8000))}),
        json!({"grammar": "start: start start | \"a\" | "}),
    ];
    let mut requests = tokio::task::JoinSet::new();
    for outputs in exploding {
        let body = json!({"prompt": "Once", "seed": 1, "max_tokens": 8, "structured_outputs": outputs});
        requests.spawn(server.post("/v1/completions", body).send());
    }
    check(&server).await;
    while let Some(answer) = requests.join_next().await {
        let answer = answer.expect("no panic");
        // Some are only large, and are kept to; the others are errors, of the request or of its text.
        assert!([200, 400, 500].contains(&answer.status), "{}", answer.body);
        if answer.status != 200 {
            let error = &answer.json()["error"];
            assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
        }
    }
    check(&server).await;
    server.end().await;
}
