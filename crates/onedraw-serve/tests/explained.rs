//! `/v1/explain`, `/tokenize`, `/detokenize`, `/v1/models`, `/health` and `/metrics`.

use serde_json::{Value, json};

use crate::support::stories;

#[tokio::test]
async fn an_explanation_tells_what_each_stage_did() {
    let server = stories().await;
    let body = json!({"prompt": "Tom saw a big", "seed": 5, "top_k": 20, "min_p": 0.1, "listed": 3});
    let answer = server.ask("/v1/explain", body).await;
    let stages: Vec<&str> = answer["stages"]
        .as_array()
        .expect("stages")
        .iter()
        .map(|stage| stage["stage"].as_str().expect("a name"))
        .collect();
    assert_eq!(stages, ["row", "temperature", "top_k", "top_p", "min_p"]); // The model names Hugging Face's order.
    assert_eq!(answer["stages"][0]["tokens"], 4096);
    assert_eq!(answer["stages"][3]["leading"].as_array().map(Vec::len), Some(3));
    let leading = &answer["stages"][0]["leading"][0];
    assert_eq!(leading["text"], " truck");
    // The explained draw is the one that is made.
    let drawn = json!({"prompt": "Tom saw a big", "seed": 5, "top_k": 20, "min_p": 0.1, "max_tokens": 1});
    assert_eq!(answer["text"], server.text(drawn).await.as_str());
    let chat = json!({"messages": [{"role": "user", "content": "Tom saw a big"}], "seed": 5, "top_k": 20, "min_p": 0.1});
    assert_eq!(server.ask("/v1/explain", chat).await["token"], answer["token"]);
    server.end().await;
}

#[tokio::test]
async fn text_becomes_tokens_and_tokens_text() {
    let server = stories().await;
    let text = "Once upon a time, a bär";
    let answer = server.ask("/tokenize", json!({"prompt": text, "return_token_strs": true})).await;
    assert_eq!((&answer["tokens"][0], &answer["token_strs"][1]), (&json!(0), &json!("Once")));
    assert_eq!(answer["max_model_len"], 512);
    assert_eq!(
        answer["count"].as_u64().map(|count| count as usize),
        answer["tokens"].as_array().map(Vec::len)
    );
    let plain = server.ask("/tokenize", json!({"prompt": text, "add_special_tokens": false})).await;
    assert_eq!(plain["tokens"], json!(answer["tokens"].as_array().expect("tokens")[1..]));
    let back = server.ask("/detokenize", json!({"tokens": answer["tokens"]})).await;
    assert_eq!(back, json!({"prompt": text}));
    let chat = server.ask("/tokenize", json!({"messages": [{"role": "user", "content": text}]})).await;
    assert_eq!(chat["tokens"], answer["tokens"]);
    server.end().await;
}

#[tokio::test]
async fn the_model_is_told() {
    let server = stories().await;
    let list = server.get("/v1/models").send().await.json();
    assert_eq!((&list["object"], &list["data"][0]["id"]), (&json!("list"), &json!("stories")));
    let one = server.get("/v1/models/stories").send().await.json();
    assert_eq!(one, list["data"][0]);
    let hash: String = onedraw_lm::stories::model().expect("a model").sha256().chars().take(16).collect();
    assert_eq!(one["system_fingerprint"], format!("stream-{}-{hash}", onedraw::STREAM_VERSION));
    let text =
        server.ask("/v1/completions", json!({"prompt": "Once", "max_tokens": 1, "model": "stories"})).await;
    assert_eq!(text["system_fingerprint"], one["system_fingerprint"]);
    for answer in [
        server.get("/v1/models/other").send().await,
        server.post("/v1/completions", json!({"prompt": "Once", "model": "other"})).send().await,
    ] {
        let error = &answer.json()["error"];
        assert_eq!((answer.status, &error["code"]), (404, &json!("model_not_found")));
        assert_eq!(error["message"], "the model `other` is not served here; `stories` is");
    }
    server.end().await;
}

#[tokio::test]
async fn what_is_done_is_counted() {
    let server = stories().await;
    assert_eq!(server.get("/health").send().await.json(), json!({"status": "ok"}));
    server.text(json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": 9})).await;
    let mut texts = 0.0;
    for (name, value) in [
        ("onedraw_prompt_tokens_total", 5.0),
        ("onedraw_output_tokens_total", 9.0),
        ("onedraw_first_token_seconds_count", 1.0),
        ("onedraw_next_token_seconds_count", 8.0),
        ("onedraw_batch_texts_count", 9.0),
        ("onedraw_batch_texts_sum", 9.0),
        ("onedraw_running", 0.0),
        ("onedraw_waiting", 0.0),
    ] {
        server.until(name, value).await;
        texts += value;
    }
    assert!(texts > 0.0);
    let text = server.get("/metrics").send().await;
    assert_eq!(text.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert!(
        text.body.contains("onedraw_requests_total{path=\"/v1/completions\",status=\"200\"} 1"),
        "{}",
        text.body
    );
    // Each has its help and its type.
    let named = |kind: &str| {
        let lines = text.body.lines().filter_map(|line| line.strip_prefix(kind)?.split(' ').next());
        lines.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    assert!(named("# HELP ").is_superset(&named("# TYPE ")), "{}", text.body);
    assert!(named("# TYPE ").len() >= 15);
    server.end().await;
}

#[tokio::test]
async fn each_answer_has_a_name_of_its_own() {
    let server = stories().await;
    let name = async || {
        let answer = server.get("/health").send().await;
        answer.header("x-request-id").expect("a name").to_owned()
    };
    let (one, other) = (name().await, name().await);
    assert!(one.starts_with("req-") && one != other, "{one} {other}");
    let refused = server.post("/v1/completions", Value::Null).send().await;
    assert!(refused.header("x-request-id").is_some());
    server.end().await;
}
