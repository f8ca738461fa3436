//! The file of traces.

use std::fs;

use onedraw_lm::trace::Trace;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Settings, models, serve, settings};

#[tokio::test]
async fn a_trace_has_a_line_for_each_text() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("trace.jsonl");
    // Cut in the middle, as by a crash.
    fs::write(&path, "{\"version\":").expect("a file");
    let server = serve(models::stories(), Settings { trace: Some(path.clone()), ..settings() }).await;
    let body =
        json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": 12, "n": 2, "return_token_ids": true});
    let answer = server.ask("/v1/completions", body).await;
    // What is written can be read while the server runs.
    let text = fs::read_to_string(&path).expect("a trace");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "{\"version\":"));
    for (line, choice) in lines[1..].iter().zip(answer["choices"].as_array().expect("choices")) {
        let trace = Trace::parse(line).expect("a line");
        assert_eq!(json!(trace.output_token_ids), choice["token_ids"]);
        assert_eq!((trace.params.seed, trace.prompt_token_ids.len()), (Some(7), 5));
    }
    server.end().await;
}

#[cfg(unix)]
#[tokio::test]
async fn nobody_else_reads_a_trace() {
    use std::os::unix::fs::PermissionsExt;
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("trace.jsonl");
    // One that is there already, too.
    fs::write(&path, "").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("a mode");
    let server = serve(models::stories(), Settings { trace: Some(path.clone()), ..settings() }).await;
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    server.end().await;
}

/// `/dev/full` takes nothing, as a full disk.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_ends_no_text() {
    let server = serve(models::stories(), Settings { trace: Some("/dev/full".into()), ..settings() }).await;
    let body = json!({"prompt": "Once upon a time", "seed": 7, "max_tokens": 20});
    let text = server.text(body.clone()).await;
    assert_eq!(text, ", there was a little girl named Lily. She loved to play outside in the park. One day");
    server.until("onedraw_trace_failures_total", 1.0).await;
    let answer: Value = server.ask("/v1/completions", body).await;
    assert_eq!(answer["choices"][0]["text"], text);
    server.end().await;
}
