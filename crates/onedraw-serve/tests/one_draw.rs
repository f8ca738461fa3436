//! The same request gives the same text, whoever else is being served, with and without guesses.

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::support::{models, serve, settings, stories};

/// Requests that differ in everything that may differ.
fn requests() -> Vec<Value> {
    let prompts = ["Once upon a time", "Tom saw a big", "The little bird", "One day, Lily and her mom went"];
    let others = [
        json!({}),
        json!({"temperature": 1.2, "top_k": 0, "top_p": 1.0}),
        json!({"preset": "creative", "logprobs": 3}),
        json!({"stop": ["."], "n": 2}),
        json!({"xtc_probability": 0.7, "xtc_threshold": 0.05, "top_k": 0}),
        json!({"mirostat": 2, "top_k": 0, "top_p": 1.0}),
        json!({"frequency_penalty": 0.7, "presence_penalty": 0.3, "dry_multiplier": 0.8}),
        json!({"banned_strings": [" the", " was"]}),
        json!({"structured_outputs": {"regex": "[a-z ]{5,40}"}}),
        json!({"temperature": 0.0}),
    ];
    let mut requests = Vec::new();
    for (place, other) in others.iter().cycle().take(40).enumerate() {
        let mut body = other.clone();
        body["prompt"] = prompts[place % prompts.len()].into();
        body["seed"] = (place * 31).into();
        body["max_tokens"] = (5 + place * 7 % 90).into();
        requests.push(body);
    }
    requests
}

/// What of an answer must be equal.
fn told(answer: &Value) -> Value {
    json!([answer["choices"], answer["usage"], answer["seed"], answer["system_fingerprint"]])
}

#[tokio::test]
async fn company_changes_nothing() {
    let server = stories().await;
    let requests = requests();
    let mut alone = Vec::new();
    for body in &requests {
        alone.push(told(&server.ask("/v1/completions", body.clone()).await));
    }
    let drafted = serve(models::drafted(), settings()).await;
    for server in [&server, &drafted] {
        let mut together = JoinSet::new();
        for (place, body) in requests.iter().enumerate() {
            let request = server.post("/v1/completions", body.clone());
            together.spawn(async move { Some((place, request.send().await)) });
        }
        // Some that leave in the middle.
        for seed in 0..8 {
            let body = json!({"prompt": "Once", "seed": seed, "max_tokens": 300, "stream": true, "ignore_eos": true});
            let request = server.post("/v1/completions", body);
            together.spawn(async move {
                let mut coming = request.stream().await;
                coming.next().await;
                drop(coming);
                None
            });
        }
        while let Some(answered) = together.join_next().await {
            if let Some((place, answer)) = answered.expect("no panic") {
                assert_eq!(told(&answer.json()), alone[place], "{}", requests[place]);
            }
        }
        server.until("onedraw_running", 0.0).await;
    }
    assert!(drafted.metric("onedraw_speculation_guesses_total").await > 0.0);
    assert!(drafted.metric("onedraw_speculation_accepted_total").await > 0.0);
    server.end().await;
    drafted.end().await;
}
