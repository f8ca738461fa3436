//! What cannot start says why.

use onedraw_serve::{Limits, Server};

use crate::support::{Settings, limited, models, settings, stories};

async fn why(settings: Settings) -> String {
    match Server::bind(models::stories(), settings).await {
        Ok(_) => panic!("it started"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let server = stories().await;
    let taken = Settings { port: server.address.port(), ..settings() };
    assert!(why(taken).await.starts_with(&format!("{}: ", server.address)));
    server.end().await;
    let trace = Settings { trace: Some("/nowhere/trace.jsonl".into()), ..settings() };
    assert!(why(trace).await.starts_with("the trace cannot be written: "));
    let none = limited(Limits { running: 0, ..Limits::default() });
    assert_eq!(why(none).await, "the limit running must be at least 1");
    let origin = Settings { cors: vec!["a\nb".to_owned()], ..settings() };
    assert_eq!(why(origin).await, "`a\nb` is not an origin");
}
