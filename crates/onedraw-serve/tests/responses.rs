//! `/v1/responses`.

use serde_json::{Value, json};

use crate::support::stories;

fn body(given: Value) -> Value {
    let mut body = json!({"input": "Once upon a time", "seed": 7, "max_output_tokens": 20});
    body.as_object_mut().expect("an object").extend(given.as_object().expect("an object").clone());
    body
}

#[tokio::test]
async fn a_response_has_the_text_of_a_chat() {
    let server = stories().await;
    let text = server.text(json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": 20})).await;
    let answer = server.ask("/v1/responses", body(json!({"metadata": {"a": "b"}}))).await;
    assert_eq!((&answer["object"], &answer["status"]), (&json!("response"), &json!("incomplete")));
    assert_eq!(answer["incomplete_details"], json!({"reason": "max_output_tokens"}));
    assert_eq!(answer["metadata"], json!({"a": "b"}));
    let message = &answer["output"][0];
    assert_eq!((&message["type"], &message["role"]), (&json!("message"), &json!("assistant")));
    let part = json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []});
    assert_eq!(message["content"], json!([part]));
    let usage = &answer["usage"];
    assert_eq!(
        (&usage["input_tokens"], &usage["output_tokens"], &usage["total_tokens"]),
        (&json!(5), &json!(20), &json!(25))
    );
    let ended = server.ask("/v1/responses", body(json!({"stop": ["."]}))).await;
    assert_eq!((&ended["status"], &ended["incomplete_details"]), (&json!("completed"), &Value::Null));
    server.end().await;
}

#[tokio::test]
async fn instructions_and_messages_are_a_chat() {
    let server = stories().await;
    let of = async |given: Value| {
        let answer = server.ask("/v1/responses", body(given)).await;
        answer["output"][0]["content"][0]["text"].as_str().expect("a text").to_owned()
    };
    let input =
        json!([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Once"}]}]);
    let one = of(json!({"instructions": "A story.", "input": input})).await;
    let text = server.text(json!({"prompt": "A story.\nOnce", "seed": 7, "max_tokens": 20})).await;
    assert_eq!(one, text);
    let format = json!({"format": {"type": "json_schema", "name": "n", "schema": {"enum": [17]}}});
    assert_eq!(of(json!({"text": format})).await, "17");
    server.end().await;
}

#[tokio::test]
async fn a_stream_tells_every_step() {
    let server = stories().await;
    let given =
        json!({"include": ["message.output_text.logprobs"], "top_logprobs": 2, "max_output_tokens": 5});
    let whole = server.ask("/v1/responses", body(given.clone())).await;
    let mut asked = body(given);
    asked["stream"] = true.into();
    let answer = server.post("/v1/responses", asked).send().await;
    let events: Vec<Value> = answer
        .events()
        .iter()
        .map(|(name, data)| {
            let event: Value = serde_json::from_str(data).expect("JSON");
            assert_eq!(event["type"], name.as_deref().expect("a name"));
            event
        })
        .collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().expect("a type")).collect();
    let deltas = ["response.output_text.delta"; 5];
    let begin = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ];
    let end = [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ];
    assert_eq!(kinds, [&begin[..], &deltas, &end].concat());
    assert!(events.iter().enumerate().all(|(place, event)| event["sequence_number"] == place));
    let text: String = events.iter().filter_map(|event| event["delta"].as_str()).collect();
    let last = &events[events.len() - 1]["response"];
    assert_eq!(last["output"][0]["content"][0]["text"], text);
    assert_eq!(last["output"][0]["content"], whole["output"][0]["content"]);
    assert_eq!(last["output"][0]["content"][0]["logprobs"].as_array().map(Vec::len), Some(5));
    assert_eq!(last["usage"], whole["usage"]);
    server.end().await;
}
