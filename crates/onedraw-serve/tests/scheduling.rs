//! Requests wait, join and leave between passes.

use std::time::{Duration, Instant};

use onedraw_serve::Limits;
use serde_json::{Value, json};

use crate::support::{limited, models, serve, settings, stories};

/// A long text, in a stream.
fn long(seed: u64) -> Value {
    json!({"prompt": "Once upon a time", "seed": seed, "max_tokens": 500, "ignore_eos": true, "stream": true})
}

#[tokio::test]
async fn one_too_many_is_told_to_come_back() {
    let limits = Limits { running: 1, waiting: 2, ..Limits::default() };
    let server = serve(models::stories(), limited(limits)).await;
    let mut first = server.post("/v1/completions", long(1)).stream().await;
    assert!(first.next().await.is_some());
    let waiting: Vec<_> = (0..2)
        .map(|seed| {
            tokio::spawn(server.post("/v1/completions", json!({"prompt": "Tom", "seed": seed})).send())
        })
        .collect();
    server.until("onedraw_waiting", 2.0).await;
    let refused = server.post("/v1/completions", json!({"prompt": "Once"})).send().await;
    let error = refused.json()["error"].clone();
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")), "{error}");
    assert_eq!((&error["type"], &error["code"]), (&json!("rate_limit_error"), &json!("queue_full")));
    drop(first);
    for (seed, waiting) in waiting.into_iter().enumerate() {
        let answer = waiting.await.expect("no panic").json();
        let alone = server.text(json!({"prompt": "Tom", "seed": seed})).await;
        assert_eq!(answer["choices"][0]["text"], alone);
    }
    // More than may wait can never be taken.
    let three = server.post("/v1/completions", json!({"prompt": ["a", "b", "c"]})).send().await;
    assert_eq!((three.status, three.json()["error"]["param"].clone()), (400, json!("prompt")));
    server.end().await;
}

#[tokio::test]
async fn a_client_that_leaves_gives_its_place_to_the_next() {
    let limits = Limits { running: 2, ..Limits::default() };
    let (_folder, model) = models::long();
    let server = serve(model, limited(limits)).await;
    // Thousands of tokens each, which would take many seconds.
    let endless =
        |stream: bool| json!({"prompt": "Once", "max_tokens": 8000, "ignore_eos": true, "stream": stream});
    let mut one = server.post("/v1/completions", endless(true)).stream().await;
    let two = tokio::spawn(server.post("/v1/completions", endless(false)).send());
    assert!(one.next().await.is_some());
    server.until("onedraw_running", 2.0).await;
    let next = tokio::spawn(server.post("/v1/completions", json!({"prompt": "Tom", "max_tokens": 3})).send());
    server.until("onedraw_waiting", 1.0).await;
    drop(one);
    assert_eq!(next.await.expect("no panic").status, 200);
    two.abort();
    server.until("onedraw_running", 0.0).await;
    assert_eq!(server.metric("onedraw_cancelled_texts_total").await, 2.0);
    server.end().await;
}

/// One that waits and leaves never begins.
#[tokio::test]
async fn a_client_that_leaves_the_queue_is_forgotten() {
    let limits = Limits { running: 1, ..Limits::default() };
    let server = serve(models::stories(), limited(limits)).await;
    let mut first = server.post("/v1/completions", long(1)).stream().await;
    assert!(first.next().await.is_some());
    let waiting = tokio::spawn(server.post("/v1/completions", long(2)).send());
    server.until("onedraw_waiting", 1.0).await;
    waiting.abort();
    server.until("onedraw_waiting", 0.0).await;
    drop(first);
    server.until("onedraw_running", 0.0).await;
    assert_eq!(server.metric("onedraw_queue_seconds_count").await, 1.0);
    server.end().await;
}

/// A prompt of 2,500 tokens is read in parts, so that a text goes on meanwhile, and a short prompt need not wait for it.
#[tokio::test]
async fn long_prompts_let_others_go_on() {
    let (_folder, model) = models::long();
    let server = serve(model, settings()).await;
    let prompt: Vec<u32> = (0..2500).map(|place| 300 + place % 3000).collect();
    let story = json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": 4000, "ignore_eos": true, "stream": true});
    let mut coming = server.post("/v1/completions", story).stream().await;
    assert!(coming.next().await.is_some());
    let reading = tokio::spawn(
        server.post("/v1/completions", json!({"prompt": prompt, "seed": 1, "max_tokens": 1})).send(),
    );
    server.until("onedraw_running", 2.0).await;
    // Both have begun; the long prompt needs 2,500 / 128 passes, and each of them gives the story a token.
    for _ in 0..5 {
        assert!(coming.next().await.is_some());
    }
    let short = server
        .post("/v1/completions", json!({"prompt": "Tom saw a big", "seed": 1, "max_tokens": 1}))
        .send()
        .await;
    assert_eq!(short.status, 200);
    assert!(!reading.is_finished(), "the long prompt was read before the short one");
    drop(coming);
    let answer = reading.await.expect("no panic").json();
    assert_eq!(answer["usage"]["prompt_tokens"], 2500);
    server.end().await;
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_ended() {
    let limits = Limits { time: Duration::from_millis(200), ..Limits::default() };
    let (_folder, model) = models::long();
    let server = serve(model, limited(limits)).await;
    let mut body = json!({"prompt": "Once", "max_tokens": 8000, "ignore_eos": true});
    let answer = server.post("/v1/completions", body.clone()).send().await;
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["code"]), (504, &json!("timeout")), "{error}");
    assert_eq!(error["message"], "the request took longer than 0.2 seconds");
    body["stream"] = true.into();
    let answer = server.post("/v1/completions", body).send().await;
    let (_, last) = answer.events().pop().expect("an event");
    assert_eq!(serde_json::from_str::<Value>(&last).expect("JSON")["error"]["code"], "timeout");
    let explain = json!({"prompt": vec![300; 8000]});
    let answer = server.post("/v1/explain", explain).send().await;
    assert_eq!(answer.json()["error"]["code"], "timeout");
    server.until("onedraw_running", 0.0).await;
    server.end().await;
}

#[tokio::test]
async fn at_the_end_texts_are_written_to_their_end() {
    let limits = Limits { running: 1, ..Limits::default() };
    let server = serve(models::stories(), limited(limits)).await;
    let alone = server
        .text(json!({"prompt": "Once upon a time", "seed": 3, "max_tokens": 200, "ignore_eos": true}))
        .await;
    let body = json!({"prompt": "Once upon a time", "seed": 3, "max_tokens": 200, "ignore_eos": true, "stream": true});
    let mut coming = server.post("/v1/completions", body).stream().await;
    let mut text = String::new();
    let mut add = |data: &str| {
        if let Ok(chunk) = serde_json::from_str::<Value>(data) {
            text += chunk["choices"][0]["text"].as_str().expect("a text");
        }
    };
    add(&coming.next().await.expect("a chunk"));
    let waiting = tokio::spawn(server.post("/v1/completions", json!({"prompt": "Tom"})).send());
    server.until("onedraw_waiting", 1.0).await;
    let ended = server.begin_end();
    while let Some(data) = coming.next().await {
        add(&data);
    }
    assert_eq!(text, alone);
    let refused = waiting.await.expect("no panic");
    assert_eq!((refused.status, refused.json()["error"]["code"].clone()), (503, json!("shutting_down")));
    ended.await.expect("no panic").expect("an end");
}

#[tokio::test]
async fn texts_that_take_too_long_at_the_end_are_cut() {
    let limits = Limits { grace: Duration::from_millis(100), ..Limits::default() };
    let (_folder, model) = models::long();
    let server = serve(model, limited(limits)).await;
    let body = json!({"prompt": "Once", "max_tokens": 8000, "ignore_eos": true, "stream": true});
    let mut coming = server.post("/v1/completions", body).stream().await;
    assert!(coming.next().await.is_some());
    let begun = Instant::now();
    let ended = server.begin_end();
    let mut last = String::new();
    while let Some(data) = coming.next().await {
        last = data;
    }
    assert_eq!(serde_json::from_str::<Value>(&last).expect("JSON")["error"]["code"], "shutting_down");
    ended.await.expect("no panic").expect("an end");
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn many_texts_of_one_request_share_the_places() {
    let limits = Limits { running: 4, ..Limits::default() };
    let server = serve(models::stories(), limited(limits)).await;
    let body = json!({"prompt": ["Once upon a time", "Tom saw a big", "One day"], "n": 3, "seed": 1, "max_tokens": 30});
    let answer = server.ask("/v1/completions", body.clone()).await;
    let other = stories().await;
    assert_eq!(answer["choices"], other.ask("/v1/completions", body).await["choices"]);
    // Never more than four at a time.
    let text = server.get("/metrics").send().await.body;
    let bucket = |le: &str| {
        let name = format!("onedraw_batch_texts_bucket{{le=\"{le}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(name.as_str())).expect("a bucket").to_owned()
    };
    assert_eq!(bucket("4"), bucket("+Inf"));
    server.end().await;
    other.end().await;
}
