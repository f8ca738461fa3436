//! Servers in this process, and requests to them.

pub mod client;
pub mod models;

use std::net::SocketAddr;
use std::time::Duration;

pub use onedraw_serve::Settings;
use onedraw_serve::{Limits, Model, Server};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use client::{Answer, Request};

/// A server on a free port.
pub struct Running {
    pub address: SocketAddr,
    end: oneshot::Sender<()>,
    server: JoinHandle<std::io::Result<()>>,
}

/// Settings for a free port.
pub fn settings() -> Settings {
    Settings { port: 0, ..Settings::default() }
}

/// Settings for a free port with these limits.
pub fn limited(limits: Limits) -> Settings {
    Settings { limits, ..settings() }
}

/// Serves a model.
pub async fn serve(model: Model, settings: Settings) -> Running {
    let server = Server::bind(model, settings).await.expect("a server");
    let address = server.address();
    let (end, ended) = oneshot::channel();
    let server = tokio::spawn(server.run(async {
        // The end is also that of a test that forgets the server.
        let _ = ended.await;
    }));
    Running { address, end, server }
}

/// Serves the embedded model with the usual settings.
pub async fn stories() -> Running {
    serve(models::stories(), settings()).await
}

impl Running {
    /// Tells it to end.
    pub fn begin_end(self) -> JoinHandle<std::io::Result<()>> {
        // It may have ended by itself, which its handle tells.
        let _ = self.end.send(());
        self.server
    }

    /// Ends it.
    pub async fn end(self) {
        self.begin_end().await.expect("no panic").expect("an end");
    }

    /// A request with a body of JSON.
    pub fn post(&self, path: &str, body: Value) -> Request {
        Request::new(self.address, "POST", path).json(&body)
    }

    /// A request without a body.
    pub fn get(&self, path: &str) -> Request {
        Request::new(self.address, "GET", path)
    }

    /// The answer of a request that must succeed.
    pub async fn ask(&self, path: &str, body: Value) -> Value {
        let answer = self.post(path, body.clone()).send().await;
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.body);
        answer.json()
    }

    /// The text of a completion.
    pub async fn text(&self, body: Value) -> String {
        let answer = self.ask("/v1/completions", body).await;
        answer["choices"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// A number that the server counts.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").send().await.body;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}\n{text}")).parse().expect("a number")
    }

    /// Waits until the server counts so much.
    pub async fn until(&self, name: &str, value: f64) {
        for _ in 0..500 {
            if self.metric(name).await == value {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{name} is {}, not {value}", self.metric(name).await);
    }
}
