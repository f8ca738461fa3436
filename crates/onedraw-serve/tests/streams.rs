//! Streams say what whole answers say.

use serde_json::{Value, json};

use crate::support::{Answer, stories};

/// The chunks of a stream, which must end as streams do.
fn chunks(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let mut events = answer.events();
    assert_eq!(events.pop().map(|(_, data)| data).as_deref(), Some("[DONE]"));
    events.iter().map(|(_, data)| serde_json::from_str(data).expect("JSON")).collect()
}

#[tokio::test]
async fn chunks_together_are_the_whole() {
    let server = stories().await;
    for given in [
        json!({"max_tokens": 40}),
        json!({"max_tokens": 200, "n": 3, "logprobs": 2}),
        json!({"max_tokens": 60, "stop": ["Lily. She", "park"], "logprobs": 0}),
        json!({"max_tokens": 60, "banned_strings": [" little girl named", " wanted"], "logprobs": 1}),
        json!({"max_tokens": 60, "banned_strings": [" a little"], "return_token_ids": true}),
        json!({"max_tokens": 30, "temperature": 50.0, "top_k": 0, "top_p": 1.0, "logprobs": 0}),
    ] {
        let mut body = given.clone();
        body["prompt"] = "Once upon a time".into();
        body["seed"] = 7.into();
        let whole = server.ask("/v1/completions", body.clone()).await;
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
        let mut chunks = chunks(&server.post("/v1/completions", body).send().await);
        let last = chunks.pop().expect("the numbers of tokens");
        assert_eq!((&last["choices"], &last["usage"]), (&json!([]), &whole["usage"]), "{given}");
        let choices = whole["choices"].as_array().expect("choices");
        for (index, choice) in choices.iter().enumerate() {
            let parts: Vec<&Value> = chunks
                .iter()
                .map(|chunk| &chunk["choices"][0])
                .filter(|part| part["index"] == index)
                .collect();
            let text: String = parts.iter().map(|part| part["text"].as_str().expect("a text")).collect();
            assert_eq!(choice["text"], text, "{given}");
            for list in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
                let joined: Vec<Value> = parts
                    .iter()
                    .flat_map(|part| part["logprobs"][list].as_array().cloned().unwrap_or_default())
                    .collect();
                let whole = choice["logprobs"][list].as_array().cloned().unwrap_or_default();
                assert_eq!(whole, joined, "{given} {list}");
            }
            let ids: Vec<Value> = parts
                .iter()
                .flat_map(|part| part["token_ids"].as_array().cloned().unwrap_or_default())
                .collect();
            assert_eq!(choice["token_ids"].as_array().cloned().unwrap_or_default(), ids, "{given}");
            let ends: Vec<&Value> =
                parts.iter().map(|part| &part["finish_reason"]).filter(|end| !end.is_null()).collect();
            assert_eq!(ends, [&choice["finish_reason"]], "{given}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn a_chat_comes_in_parts() {
    let server = stories().await;
    let mut body = json!({
        "messages": [{"role": "user", "content": "Once upon a time"}],
        "seed": 7, "max_tokens": 30, "logprobs": true, "top_logprobs": 1,
    });
    let whole = server.ask("/v1/chat/completions", body.clone()).await;
    body["stream"] = true.into();
    let chunks = chunks(&server.post("/v1/chat/completions", body).send().await);
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"])
    );
    assert!(chunks.iter().all(|chunk| chunk.get("usage").is_none()));
    let deltas: Vec<&Value> = chunks.iter().map(|chunk| &chunk["choices"][0]["delta"]).collect();
    assert_eq!(deltas[0]["role"], "assistant");
    assert!(deltas[1..].iter().all(|delta| delta.get("role").is_none()));
    let text: String = deltas.iter().map(|delta| delta["content"].as_str().expect("a text")).collect();
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["content"], text);
    let entries: Vec<Value> = chunks
        .iter()
        .flat_map(|chunk| chunk["choices"][0]["logprobs"]["content"].as_array().cloned().unwrap_or_default())
        .collect();
    assert_eq!(choice["logprobs"]["content"], json!(entries));
    server.end().await;
}

/// Letters whose bytes are in several tokens come whole.
#[tokio::test]
async fn no_chunk_has_half_a_letter() {
    let server = stories().await;
    let body = json!({
        "prompt": "Once", "seed": 3, "max_tokens": 40, "stream": true,
        "structured_outputs": {"choice": ["Ein Bär 🐻 trägt Öl über 日本"]},
    });
    let chunks = chunks(&server.post("/v1/completions", body).send().await);
    let text: String =
        chunks.iter().map(|chunk| chunk["choices"][0]["text"].as_str().expect("a text")).collect();
    assert_eq!(text, "Ein Bär 🐻 trägt Öl über 日本");
    server.end().await;
}

#[tokio::test]
async fn parts_come_while_the_text_is_written() {
    let server = stories().await;
    let body = json!({
        "prompt": "Once upon a time", "seed": 7, "max_tokens": 400, "stream": true, "ignore_eos": true, "return_token_ids": true,
    });
    let mut coming = server.post("/v1/completions", body).stream().await;
    assert_eq!(coming.status, 200);
    assert!(coming.next().await.expect("a chunk").contains("\"text\":\",\""));
    assert_eq!(server.metric("onedraw_running").await, 1.0);
    let mut rest = 0;
    while coming.next().await.is_some() {
        rest += 1;
    }
    assert_eq!(rest, 400);
    server.end().await;
}
