//! `/v1/chat/completions`.

use serde_json::{Value, json};

use crate::support::{models, serve, settings, stories};

fn chat(given: Value) -> Value {
    let mut body =
        json!({"messages": [{"role": "user", "content": "Once upon a time"}], "seed": 7, "max_tokens": 20});
    body.as_object_mut().expect("an object").extend(given.as_object().expect("an object").clone());
    body
}

#[tokio::test]
async fn a_single_message_is_continued_as_a_prompt_is() {
    let server = stories().await;
    let text = server.text(json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": 20})).await;
    let answer = server.ask("/v1/chat/completions", chat(json!({}))).await;
    let message = json!({"role": "assistant", "content": text, "refusal": null});
    assert_eq!((&answer["object"], &answer["choices"][0]["message"]), (&json!("chat.completion"), &message));
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(answer["usage"], json!({"prompt_tokens": 5, "completion_tokens": 20, "total_tokens": 25}));
    assert!(answer["id"].as_str().is_some_and(|id| id.starts_with("chatcmpl-")), "{answer}");
    server.end().await;
}

#[tokio::test]
async fn messages_may_be_in_parts_and_lengths_have_two_names() {
    let server = stories().await;
    let plain = server.ask("/v1/chat/completions", chat(json!({}))).await["choices"].clone();
    let parts = json!([{"role": "user", "content": [
        {"type": "text", "text": "Once upon"}, {"type": "text", "text": " a time"},
    ]}]);
    let answer = server.ask("/v1/chat/completions", chat(json!({"messages": parts}))).await;
    assert_eq!(answer["choices"], plain);
    let mut body = chat(json!({"max_completion_tokens": 20}));
    body.as_object_mut().expect("an object").remove("max_tokens");
    assert_eq!(server.ask("/v1/chat/completions", body).await["choices"], plain);
    let several = json!([
        {"role": "developer", "content": "A story."},
        {"role": "user", "content": "Once"},
        {"role": "assistant", "content": "upon", "refusal": null, "annotations": []},
    ]);
    let chat = server.ask("/v1/chat/completions", chat(json!({"messages": several}))).await;
    let text = json!({"prompt": "A story.\nOnce\nupon", "seed": 7, "max_tokens": 20});
    assert_eq!(chat["choices"][0]["message"]["content"], server.text(text).await.as_str());
    server.end().await;
}

/// Without a length a chat is as long as the model's context allows.
#[tokio::test]
async fn a_chat_may_use_the_whole_context() {
    let server = stories().await;
    let body =
        json!({"messages": [{"role": "user", "content": "Once upon a time"}], "seed": 7, "ignore_eos": true});
    let answer = server.ask("/v1/chat/completions", body).await;
    assert_eq!(answer["usage"], json!({"prompt_tokens": 5, "completion_tokens": 508, "total_tokens": 513}));
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    server.end().await;
}

#[tokio::test]
async fn logprobs_have_bytes_and_the_best_tokens() {
    let server = stories().await;
    let asked = json!({"logprobs": true, "top_logprobs": 3, "max_tokens": 6});
    let answer = server.ask("/v1/chat/completions", chat(asked)).await;
    let entries = answer["choices"][0]["logprobs"]["content"].as_array().expect("entries").clone();
    assert_eq!(entries.len(), 6);
    let text: String = entries.iter().map(|entry| entry["token"].as_str().expect("a token")).collect();
    assert_eq!(answer["choices"][0]["message"]["content"], text);
    for entry in &entries {
        let bytes: Vec<u8> = serde_json::from_value(entry["bytes"].clone()).expect("bytes");
        assert_eq!(bytes, entry["token"].as_str().expect("a token").as_bytes());
        let best: Vec<f64> = entry["top_logprobs"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|other| other["logprob"].as_f64().expect("a number"))
            .collect();
        assert!(best.len() == 3 && best.is_sorted_by(|one, next| one >= next), "{entry}");
        assert!(entry["logprob"].as_f64().expect("a number") <= best[0], "{entry}");
    }
    // The numbers are those of a completion.
    let body = json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": 6, "logprobs": 3});
    let other = server.ask("/v1/completions", body).await["choices"][0]["logprobs"].clone();
    let logprobs: Vec<&Value> = entries.iter().map(|entry| &entry["logprob"]).collect();
    assert_eq!(other["token_logprobs"], json!(logprobs));
    let none = server.ask("/v1/chat/completions", chat(json!({"logprobs": true, "max_tokens": 2}))).await;
    assert_eq!(none["choices"][0]["logprobs"]["content"][1]["top_logprobs"], json!([]));
    server.end().await;
}

#[tokio::test]
async fn a_model_without_a_template_does_not_chat() {
    let (_folder, model) = models::edited(|_, _| {});
    let server = serve(model, settings()).await;
    let answer = server.post("/v1/chat/completions", chat(json!({}))).send().await;
    assert_eq!(answer.status, 400);
    assert_eq!(answer.json()["error"]["message"], "edited has no chat template; use /v1/completions");
    server.end().await;
}
