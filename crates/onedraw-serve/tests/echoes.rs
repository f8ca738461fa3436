//! Completions that repeat their prompt, with its logprobs.

use serde_json::{Value, json};

use crate::support::stories;

#[tokio::test]
async fn an_echo_has_the_prompt_and_its_logprobs() {
    let server = stories().await;
    let body = |tokens: u32| json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": tokens, "logprobs": 1, "echo": true});
    let answer = server.ask("/v1/completions", body(4)).await;
    let choice = &answer["choices"][0];
    assert_eq!(choice["text"], "Once upon a time, there was a");
    let lists = &choice["logprobs"];
    let tokens = json!(["<|endoftext|>", "Once", " upon", " a", " time", ",", " there", " was", " a"]);
    assert_eq!(lists["tokens"], tokens);
    assert_eq!(lists["text_offset"], json!([0, 0, 4, 9, 11, 16, 17, 23, 27]));
    let numbers = lists["token_logprobs"].as_array().expect("numbers");
    assert!(
        numbers[0].is_null() && numbers[1..].iter().all(|number| number.as_f64().is_some_and(|n| n <= 0.0))
    );
    assert_eq!(lists["top_logprobs"][0], Value::Null);
    assert_eq!(lists["top_logprobs"][1]["Once"], numbers[1]);
    // Nothing but the prompt.
    let alone = server.ask("/v1/completions", body(0)).await;
    let alone = &alone["choices"][0];
    assert_eq!((&alone["text"], &alone["finish_reason"]), (&json!("Once upon a time"), &json!("length")));
    assert_eq!(alone["logprobs"]["token_logprobs"], json!(numbers[..5]));
    server.end().await;
}

#[tokio::test]
async fn an_echo_in_a_stream_comes_first() {
    let server = stories().await;
    let body = json!({
        "prompt": "Once upon a time", "seed": 7, "max_tokens": 4, "logprobs": 1, "echo": true, "stream": true, "n": 2,
    });
    let mut whole = body.clone();
    whole["stream"] = false.into();
    let whole = server.ask("/v1/completions", whole).await;
    let mut texts = vec![String::new(); 2];
    let mut tokens: Vec<Vec<Value>> = vec![Vec::new(); 2];
    let mut offsets: Vec<Vec<Value>> = vec![Vec::new(); 2];
    for (_, data) in server.post("/v1/completions", body).send().await.events() {
        let Ok(chunk) = serde_json::from_str::<Value>(&data) else { continue };
        let choice = &chunk["choices"][0];
        let index = choice["index"].as_u64().expect("an index") as usize;
        texts[index] += choice["text"].as_str().expect("a text");
        tokens[index].extend(choice["logprobs"]["tokens"].as_array().expect("tokens").clone());
        offsets[index].extend(choice["logprobs"]["text_offset"].as_array().expect("offsets").clone());
    }
    for index in 0..2 {
        let choice = &whole["choices"][index];
        assert_eq!(choice["text"], texts[index]);
        assert_eq!(choice["logprobs"]["tokens"], json!(tokens[index]));
        assert_eq!(choice["logprobs"]["text_offset"], json!(offsets[index]));
    }
    server.end().await;
}

#[tokio::test]
async fn prompt_logprobs_are_told_without_an_echo_too() {
    let server = stories().await;
    let body = json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": 1, "prompt_logprobs": 2});
    let answer = server.ask("/v1/completions", body).await;
    let entries = answer["choices"][0]["prompt_logprobs"].as_array().expect("entries").clone();
    assert_eq!((entries.len(), &entries[0]), (5, &Value::Null));
    assert_eq!((&entries[1]["token"], &entries[1]["rank"]), (&json!(444), &json!(1)));
    server.end().await;
}
