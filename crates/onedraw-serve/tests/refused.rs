//! Requests that cannot be answered: each has a status and an error that names its field.

use serde_json::{Value, json};

use crate::support::{limited, models, serve, stories};

#[tokio::test]
async fn an_error_names_its_field() {
    let server = stories().await;
    let with = |given: Value| {
        let mut body = json!({"prompt": "Once", "max_tokens": 4});
        body.as_object_mut().expect("an object").extend(given.as_object().expect("an object").clone());
        body
    };
    for (given, param, message) in [
        (json!({"seeed": 7}), "seeed", "seeed: is not a known field (`seed`?)"),
        (json!({"steam": true}), "steam", "steam: is not a known field (`stream`?)"),
        (json!({"top_p": 1.5}), "top_p", "top_p: must be in [0, 1], not 1.5"),
        (json!({"temperature": "warm"}), "temperature", "temperature: "),
        (json!({"stream": "yes"}), "stream", "stream: must be true or false"),
        (
            json!({"stream_options": {"include_usage": true}}),
            "stream_options",
            "stream_options: goes with stream",
        ),
        (
            json!({"stream": true, "stream_options": {"usage": true}}),
            "stream_options.usage",
            "stream_options.usage: is not a known field",
        ),
        (json!({"prompt": 7}), "prompt", "prompt: must be a string, a list"),
        (json!({"prompt": []}), "prompt", "prompt: must be a string, a list"),
        (json!({"prompt": [5000]}), "prompt", "prompt: must be of token ids below 4096"),
        (json!({"prompt": [1.5]}), "prompt", "prompt: must be of token ids below 4096"),
        (json!({"prompt": null}), "prompt", "prompt: is required"),
        (json!({"n": 65}), "n", "n: this server gives at most 64"),
        (json!({"n": 0}), "n", "n: "),
        (json!({"logprobs": 21}), "logprobs", "logprobs: this server gives at most 20"),
        (json!({"logprobs": -1}), "logprobs", "logprobs: this server gives at most 20"),
        (json!({"seed": "many"}), "seed", "seed: must be a whole number from 0 to 2^64 - 1, not `many`"),
        (json!({"seed": 1.5}), "seed", "seed: "),
        (json!({"suffix": "end"}), "suffix", "suffix: is not supported"),
        (json!({"best_of": 2}), "best_of", "best_of: is not supported, but for 1"),
        (json!({"preset": "wild"}), "preset", "preset: must be the name of a preset"),
        (
            json!({"prompt_token_ids": [1]}),
            "prompt_token_ids",
            "prompt_token_ids: the tokens of the text come from",
        ),
        (
            json!({"max_completion_tokens": 5}),
            "max_completion_tokens",
            "max_completion_tokens: is not max_tokens",
        ),
        (json!({"min_tokens": 9}), "min_tokens", "min_tokens: "),
        (json!({"logit_bias": {"5000": 1}}), "logit_bias", "logit_bias: token 5000 is outside"),
        (
            json!({"response_format": {"type": "xml"}}),
            "response_format.type",
            "response_format.type: must be `text`",
        ),
        (
            json!({"response_format": {"type": "json_schema"}}),
            "response_format.json_schema.schema",
            "response_format",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "thing"}}}}),
            "response_format",
            "response_format: ",
        ),
        (json!({"structured_outputs": {"regex": "("}}), "structured_outputs", "structured_outputs: "),
        (
            json!({"structured_outputs": {"choice": [1]}}),
            "structured_outputs.choice",
            "must be a list of strings",
        ),
        (
            json!({"structured_outputs": {}}),
            "structured_outputs",
            "an object with one of json, regex, choice, grammar",
        ),
    ] {
        let answer = server.post("/v1/completions", with(given.clone())).send().await;
        let error = answer.json()["error"].clone();
        assert_eq!(
            (answer.status, &error["type"]),
            (400, &json!("invalid_request_error")),
            "{given} {error}"
        );
        assert_eq!(error["param"].as_str().unwrap_or_default(), param, "{given} {error}");
        let told = error["message"].as_str().expect("a message");
        assert!(told.contains(message), "{given}: {told}");
    }
    server.end().await;
}

#[tokio::test]
async fn what_chats_and_responses_cannot_honour_is_refused() {
    let server = stories().await;
    let user = json!([{"role": "user", "content": "Hi"}]);
    let message = |role: &str, content: Value| json!({"messages": [{"role": role, "content": content}]});
    let image = json!([{"type": "image_url", "image_url": {"url": "https://example.org"}}]);
    for (path, body, param) in [
        ("/v1/chat/completions", json!({}), "messages"),
        ("/v1/chat/completions", json!({"messages": []}), "messages"),
        ("/v1/chat/completions", message("tool", json!("x")), "messages[0].role"),
        ("/v1/chat/completions", message("user", image), "messages[0].content[0]"),
        ("/v1/chat/completions", json!({"messages": user, "tools": [{"type": "function"}]}), "tools"),
        ("/v1/chat/completions", json!({"messages": user, "tool_choice": "required"}), "tool_choice"),
        ("/v1/chat/completions", json!({"messages": user, "modalities": ["audio"]}), "modalities"),
        ("/v1/chat/completions", json!({"messages": user, "audio": {}}), "audio"),
        ("/v1/chat/completions", json!({"messages": user, "top_logprobs": 2}), "top_logprobs"),
        ("/v1/chat/completions", json!({"messages": user, "logprobs": 2}), "logprobs"),
        (
            "/v1/chat/completions",
            json!({"messages": user, "logprobs": true, "top_logprobs": 21}),
            "top_logprobs",
        ),
        (
            "/v1/chat/completions",
            json!({"messages": user, "max_completion_tokens": -1}),
            "max_completion_tokens",
        ),
        ("/v1/chat/completions", json!({"messages": user, "prompt": "Hi"}), "prompt"),
        ("/v1/responses", json!({"input": 7}), "input"),
        ("/v1/responses", json!({"input": "Hi", "previous_response_id": "resp"}), "previous_response_id"),
        ("/v1/responses", json!({"input": "Hi", "background": true}), "background"),
        ("/v1/responses", json!({"input": "Hi", "truncation": "auto"}), "truncation"),
        ("/v1/responses", json!({"input": "Hi", "include": ["file_search_call.results"]}), "include"),
        ("/v1/responses", json!({"input": "Hi", "n": 2}), "n"),
        ("/v1/responses", json!({"input": "Hi", "kept": "ids"}), "kept"),
        ("/v1/responses", json!({"input": "Hi", "probability": true}), "probability"),
        ("/v1/responses", json!({"input": "Hi", "max_output_tokens": -1}), "max_output_tokens"),
        ("/v1/responses", json!({"input": "Hi", "text": {"verbosity": "low"}}), "text.verbosity"),
        ("/v1/responses", json!({"input": "Hi", "text": {"forma": {}}}), "text.forma"),
        ("/v1/responses", json!({"input": "Hi", "stream_options": {}}), "stream_options"),
        ("/v1/explain", json!({"prompt": ["a", "b"]}), "prompt"),
        ("/v1/explain", json!({"prompt": "a", "listed": 2000}), "listed"),
        ("/tokenize", json!({}), "prompt"),
        ("/detokenize", json!({"tokens": [4096]}), "tokens"),
        ("/detokenize", json!({"tokens": [1], "more": 1}), "more"),
    ] {
        let answer = server.post(path, body.clone()).send().await;
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, error["param"].as_str()), (400, Some(param)), "{path} {body} {error}");
    }
    // These ask for nothing.
    let body = json!({
        "messages": user, "max_tokens": 2, "seed": 1, "user": "u", "metadata": {"a": "b"}, "store": true,
        "service_tier": "auto", "parallel_tool_calls": true, "tools": [], "tool_choice": "none", "modalities": ["text"],
        "stop": null, "response_format": null, "prediction": {"type": "content", "content": "Hi"},
    });
    assert_eq!(server.post("/v1/chat/completions", body).send().await.status, 200);
    server.end().await;
}

#[tokio::test]
async fn bodies_must_be_json_objects() {
    let server = stories().await;
    for (body, message) in [
        (&b""[..], "the body cannot be read as JSON: EOF while parsing"),
        (b"{\"prompt\": \"Once\"", "the body cannot be read as JSON: EOF while parsing"),
        (b"[]", "the body must be a JSON object"),
        (b"{\"prompt\": \"a\", \"prompt\": \"b\"}", "`prompt`"),
        (b"{\"prompt\": \"\xff\"}", "the body: invalid utf-8"),
    ] {
        let request = server.post("/v1/completions", Value::Null).body(body);
        let answer = request.send().await;
        let told = answer.json()["error"]["message"].as_str().expect("a message").to_owned();
        assert_eq!(answer.status, 400, "{told}");
        assert!(told.contains(message), "{told}");
    }
    let nested = format!("{{\"prompt\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let answer = server.post("/v1/completions", Value::Null).body(nested).send().await;
    assert_eq!(answer.status, 400, "{}", answer.body);
    let long = format!("{{\"prompt\": \"{}\"}}", "a".repeat(2 << 20));
    let answer = server.post("/v1/completions", Value::Null).body(long).send().await;
    assert_eq!(
        (answer.status, answer.json()["error"]["message"].clone()),
        (413, json!("the body has more than 1048576 bytes"))
    );
    let answer = server.get("/v1/completions").header("content-type", "text/plain").send().await;
    assert_eq!((answer.status, answer.json()["error"]["code"].clone()), (405, json!("method_not_allowed")));
    let plain = crate::support::Request::new(server.address, "POST", "/v1/completions")
        .header("content-type", "text/plain");
    assert_eq!(plain.body("{}").send().await.status, 415);
    let answer = server.get("/v2").send().await;
    assert_eq!((answer.status, answer.json()["error"]["code"].clone()), (404, json!("unknown_url")));
    server.end().await;
}

#[tokio::test]
async fn limits_are_told() {
    let limits = onedraw_serve::Limits {
        prompt: 20,
        tokens: 30,
        prompts: 2,
        items: 3,
        numbers: 200,
        n: 2,
        logprobs: 1,
        grammar: 50,
        ..onedraw_serve::Limits::default()
    };
    let server = serve(models::stories(), limited(limits)).await;
    let long = "word ".repeat(40);
    for (body, param) in [
        (json!({"prompt": long}), "prompt"),
        (json!({"prompt": ["a", "b", "c"]}), "prompt"),
        (json!({"prompt": "a", "max_tokens": 31}), "max_tokens"),
        (json!({"prompt": "a", "n": 3}), "n"),
        (json!({"prompt": "a", "stop": ["a", "b", "c", "d"]}), "stop"),
        (json!({"prompt": "a", "banned_strings": ["a", "b", "c", "d"]}), "banned_strings"),
        (json!({"prompt": "a", "logit_bias": {"1": 1, "2": 1, "3": 1, "4": 1}}), "logit_bias"),
        (json!({"prompt": "a", "logprobs": 2}), "logprobs"),
        (json!({"prompt": "a", "prompt_logprobs": 2}), "prompt_logprobs"),
        (json!({"prompt": "a", "structured_outputs": {"regex": "a{1,2}".repeat(10)}}), "structured_outputs"),
    ] {
        let answer = server.post("/v1/completions", body.clone()).send().await;
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, error["param"].as_str()), (400, Some(param)), "{body} {error}");
        assert!(error["message"].as_str().is_some_and(|told| told.contains("this server")), "{error}");
    }
    // What is not said is as much as the server gives.
    let body = json!({"prompt": "Once upon a time", "seed": 7, "ignore_eos": true, "n": 2});
    assert_eq!(server.ask("/v1/completions", body).await["usage"]["completion_tokens"], 2 * 16);
    let body = json!({"prompt": "a", "max_tokens": 20, "kept": "ids"});
    let answer = server.post("/v1/completions", body).send().await;
    let message = "the answer could have 81940 tokens, logprobs and ids; this server gives at most 200";
    assert_eq!((answer.status, answer.json()["error"]["message"].clone()), (400, json!(message)));
    let explained = server.ask("/v1/explain", json!({"prompt": "Tom saw a big"})).await;
    assert_eq!(explained["position"], 0);
    let context = json!({"prompt": "word ".repeat(600)});
    let server_with_context = stories().await;
    let answer = server_with_context.post("/v1/completions", context).send().await;
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, error["code"].as_str()), (400, Some("context_length_exceeded")), "{error}");
    server.end().await;
    server_with_context.end().await;
}
