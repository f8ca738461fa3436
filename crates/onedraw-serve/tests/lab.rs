//! The laboratory: its page, and its questions over HTTP.

use std::time::Duration;

use onedraw_serve::Limits;
use serde_json::{Value, json};

use crate::support::client::Answer;
use crate::support::{Running, Settings, limited, models, serve, settings, stories};

/// The lines of an answer.
fn lines(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"), "{}", answer.body);
    answer.body.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

async fn ask(server: &Running, name: &str, question: Value) -> Vec<Value> {
    let answer = server.post(&format!("/lab/{name}"), question).send().await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    lines(&answer)
}

fn words(lines: &[Value]) -> String {
    let last = lines.last().expect("lines");
    assert_eq!(last["kind"], "end", "{last}");
    last["text"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn the_page_is_there_without_a_key_and_may_do_little() {
    let keys = vec!["key".to_owned()];
    let server = serve(models::stories(), Settings { keys, ..settings() }).await;
    for path in ["/", "/index.html"] {
        let answer = server.get(path).send().await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
        assert!(answer.body.contains("</html>"), "{}", answer.body);
        let policy = answer.header("content-security-policy").expect("a policy");
        for part in [
            "default-src 'none'",
            "script-src 'self';",
            "style-src 'self'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    for file in onedraw_lab::page() {
        let answer = server.get(&format!("/{}", file.name)).send().await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(file.kind)), "{}", file.name);
        assert_eq!(answer.body.len(), file.bytes.len(), "{}", file.name);
    }
    for path in ["/Cargo.toml", "/..", "/../Cargo.toml", "/index.html/", "/lab"] {
        assert_eq!(server.get(path).send().await.status, 404, "{path}");
    }
    // What it asks needs the key.
    let about = || server.post("/lab/about", json!({}));
    assert_eq!(about().send().await.status, 401);
    assert_eq!(about().header("authorization", "Bearer key").send().await.status, 200);
    // Under another name the machine's page is not there either.
    assert_eq!(server.get("/").header("host", "rebound.example.org").send().await.status, 403);
    server.end().await;
}

#[tokio::test]
async fn a_text_of_the_laboratory_is_that_of_the_other_interfaces() {
    let server = stories().await;
    for params in [
        json!({"seed": "7", "max_tokens": 30}),
        json!({"seed": "18446744073709551615", "max_tokens": 30, "min_p": 0.1, "order": "llama.cpp", "temperature": 1.3}),
        json!({"seed": "3", "max_tokens": 30, "banned_strings": [" was"]}),
    ] {
        let lines = ask(&server, "write", json!({"prompt": "Tom saw a big", "params": params})).await;
        let mut body = params.clone();
        body["prompt"] = "Tom saw a big".into();
        assert_eq!(words(&lines), server.text(body).await, "{params}");
    }
    server.end().await;
}

#[tokio::test]
async fn every_question_is_answered() {
    let server = serve(models::drafted(), settings()).await;
    let about = ask(&server, "about", json!({})).await.remove(0);
    assert_eq!(about["model"]["id"], "stories");
    let names: Vec<_> =
        about["drafters"].as_array().expect("drafters").iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["ngram", "early-exit"]);
    let text = json!({"prompt": "Tom saw a big", "params": {"seed": "5", "max_tokens": 6}});
    let mut guessed = text.clone();
    guessed["draft"] = "early-exit".into();
    let (plain, shown) = (ask(&server, "write", text.clone()).await, ask(&server, "write", guessed).await);
    assert_eq!(words(&plain), words(&shown));
    assert!(shown.iter().any(|line| line["kind"] == "pass"), "{shown:?}");
    let mut look = text.clone();
    (look["tokens"], look["position"]) = (json!([]), 0.into());
    let explained = server.ask("/v1/explain", json!({"prompt": "Tom saw a big", "seed": 5})).await;
    let look = ask(&server, "look", look).await.remove(0);
    assert_eq!((&look["token"]["id"], &look["token"]["text"]), (&explained["token"], &explained["text"]));
    assert_eq!(look["token"]["id"], plain[1]["id"]);
    let mut beams = text.clone();
    beams["beams"] = json!({"width": 2});
    assert_eq!(ask(&server, "beams", beams).await[0]["found"].as_array().map(Vec::len), Some(2));
    let code = ask(&server, "code", text.clone()).await.remove(0);
    assert!(
        code["program"]
            .as_str()
            .is_some_and(|line| line.starts_with("onedraw generate --max-tokens=6 --seed=5")),
        "{code}"
    );
    let link = ask(&server, "share", json!({"state": text})).await.remove(0);
    let opened = ask(&server, "open", link).await.remove(0);
    assert_eq!(opened, json!({"state": text, "warnings": []}));
    let schema =
        json!({"prompt": "Is it? ", "params": {"seed": "1"}, "schema": "{\"enum\": [\"yes\", \"no\"]}"});
    assert!(["\"yes\"", "\"no\""].contains(&words(&ask(&server, "write", schema).await).as_str()));
    server.end().await;
}

#[tokio::test]
async fn a_question_that_cannot_be_read_is_refused_with_a_line() {
    let server =
        serve(models::stories(), limited(Limits { body: 2000, grammar: 100, ..Limits::default() })).await;
    for (name, question, status, message) in [
        ("write", json!({"prompt": "a b ".repeat(300)}), 400, "and there is room for 512; make it shorter"),
        ("write", json!({"prompt": "Tom", "params": {"top_p": 2}}), 400, "top_p: must be in [0, 1], not 2"),
        ("write", json!({"prompt": "Tom", "schema": "{"}), 400, "schema: "),
        (
            "write",
            json!({"prompt": "Tom", "schema": " ".repeat(101)}),
            400,
            "schema: 101 bytes are more than the 100",
        ),
        ("sing", json!({}), 400, "`sing` is not a question"),
        ("open", json!({"fragment": "AAAA"}), 400, "the link is not whole"),
    ] {
        let answer = server.post(&format!("/lab/{name}"), question).send().await;
        assert_eq!(answer.status, status, "{}", answer.body);
        let line = lines(&answer).remove(0);
        assert_eq!(line["kind"], "error");
        let told = line["error"]["message"].as_str().expect("a sentence");
        assert!(told.contains(message), "{told}");
    }
    let long = server.post("/lab/write", json!({"prompt": "a".repeat(3000)})).send().await;
    assert_eq!((long.status, &long.json()["error"]["type"]), (413, &json!("invalid_request_error")));
    let plain = server.get("/lab/write").send().await;
    assert_eq!(plain.status, 405);
    let typed = crate::support::Request::new(server.address, "POST", "/lab/about").body("{}").send().await;
    assert_eq!(typed.status, 415);
    server.end().await;
}

/// A client that leaves is noticed between two passes, and others go on meanwhile.
#[tokio::test]
async fn a_text_whose_client_leaves_is_let_go_and_others_have_their_turn() {
    let (_folder, model) = models::long();
    let server = serve(model, limited(Limits { running: 1, ..Limits::default() })).await;
    let endless = json!({"prompt": "Once", "params": {"seed": "1", "max_tokens": 8000, "ignore_eos": true}});
    let coming = server.post("/lab/write", endless.clone()).stream().await;
    assert_eq!(coming.status, 200);
    // Only one answer is made at a time here, so this one waits until the first client is gone.
    let question = json!({"prompt": "Tom saw a big", "params": {"seed": "5", "max_tokens": 3}});
    let second = {
        let request = server.post("/lab/write", question.clone());
        tokio::spawn(request.send())
    };
    server.until("onedraw_waiting", 1.0).await;
    // Questions that need no pass do not wait for it, and leave the queue as it is.
    let about = ask(&server, "about", json!({})).await.remove(0);
    assert_eq!((&about["model"]["context"], &about["drafters"][0]["name"]), (&json!(8192), &json!("ngram")));
    let code = ask(&server, "code", question.clone()).await.remove(0);
    assert!(code["curl"].as_str().is_some_and(|code| code.contains("Tom saw a big")), "{code}");
    let link = ask(&server, "share", json!({"state": question})).await.remove(0);
    let opened = ask(&server, "open", link).await.remove(0);
    assert_eq!(opened, json!({"state": question, "warnings": []}));
    server.until("onedraw_waiting", 1.0).await;
    // Texts of the other interfaces do not wait for it.
    let text = server.text(json!({"prompt": "Tom saw a big", "seed": 5, "max_tokens": 3})).await;
    drop(coming);
    let answer =
        tokio::time::timeout(Duration::from_secs(60), second).await.expect("its turn").expect("no panic");
    assert_eq!(words(&lines(&answer)), text);
    server.until("onedraw_waiting", 0.0).await;
    server.end().await;
}

#[tokio::test]
async fn a_text_that_takes_too_long_ends_with_a_sentence() {
    let (_folder, model) = models::long();
    let server =
        serve(model, limited(Limits { time: Duration::from_millis(300), ..Limits::default() })).await;
    let endless = json!({"prompt": "Once", "params": {"seed": "1", "max_tokens": 8000, "ignore_eos": true}});
    let lines = ask(&server, "write", endless).await;
    let error = &lines.last().expect("lines")["error"];
    assert_eq!(
        error,
        &json!({"kind": "timeout", "message": "the request took longer than 0.3 seconds", "field": null})
    );
    assert!(lines.len() > 2);
    server.end().await;
}
