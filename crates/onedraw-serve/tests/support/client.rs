//! A client of one request.

use std::net::SocketAddr;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// A request that was not sent yet.
pub struct Request {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

/// An answer that is still coming. When it is dropped, the connection is closed.
pub struct Coming {
    pub status: u16,
    body: Incoming,
    rest: String,
    connection: tokio::task::JoinHandle<()>,
}

impl Request {
    pub fn new(address: SocketAddr, method: &str, path: &str) -> Self {
        let (method, path) = (method.to_owned(), path.to_owned());
        Self { address, method, path, headers: Vec::new(), body: Vec::new() }
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn body(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.body = bytes.into();
        self
    }

    pub fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }

    /// Sends it, and reads the whole answer.
    pub async fn send(self) -> Answer {
        let (response, connection) = self.begin().await;
        let (head, body) = response.into_parts();
        let text = |value: &hyper::header::HeaderValue| value.to_str().expect("text").to_owned();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let body = body.collect().await.expect("a body").to_bytes();
        connection.abort();
        let body = String::from_utf8(body.to_vec()).expect("UTF-8");
        Answer { status: head.status.as_u16(), headers, body }
    }

    /// Sends it, and reads the head of the answer.
    pub async fn stream(self) -> Coming {
        let (response, connection) = self.begin().await;
        let status = response.status().as_u16();
        Coming { status, body: response.into_body(), rest: String::new(), connection }
    }

    async fn begin(self) -> (hyper::Response<Incoming>, tokio::task::JoinHandle<()>) {
        let stream = TcpStream::connect(self.address).await.expect("a connection");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        let connection = tokio::spawn(async { _ = connection.await });
        let mut request = hyper::Request::builder().method(self.method.as_str()).uri(&self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            request = request.header("host", self.address.to_string());
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(self.body))).expect("a request");
        (sender.send_request(request).await.expect("an answer"), connection)
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// The data of server-sent events, with their names.
    pub fn events(&self) -> Vec<(Option<String>, String)> {
        self.body.split("\n\n").filter(|event| !event.is_empty()).map(parsed).collect()
    }
}

impl Coming {
    /// The data of the next event; `None` at the end.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.rest.split_once("\n\n") {
                let (_, data) = parsed(event);
                self.rest = rest.to_owned();
                return Some(data);
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.rest += str::from_utf8(&data).expect("UTF-8");
            }
        }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn parsed(event: &str) -> (Option<String>, String) {
    let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
    (field("event: "), field("data: ").unwrap_or_else(|| panic!("no data: {event:?}")))
}
