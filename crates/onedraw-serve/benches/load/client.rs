//! One connection to the server.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::Result;

/// How long an answer may take before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection that is kept from one request to the next.
pub struct Client {
    address: SocketAddr,
    open: Option<(SendRequest<Full<Bytes>>, JoinHandle<()>)>,
}

/// Bytes of an answer, and when they came.
#[derive(Debug)]
pub struct Part {
    pub at: Instant,
    pub bytes: Bytes,
}

/// When to leave an answer.
#[derive(Clone, Copy, Debug)]
pub enum Leave {
    /// After so many parts of it.
    Parts(usize),
    After(Duration),
}

/// An answer as it came.
#[derive(Debug)]
pub struct Arrived {
    /// When the request was sent.
    pub sent: Instant,
    /// The status; `None`: the client left before.
    pub status: Option<StatusCode>,
    pub parts: Vec<Part>,
    /// Whether the client left.
    pub was_left: bool,
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        Self { address, open: None }
    }

    /// Opens the connection, unless it is open.
    pub async fn open(&mut self) -> Result<&mut SendRequest<Full<Bytes>>> {
        if self.open.as_ref().is_none_or(|(sender, _)| sender.is_closed()) {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await?;
            // What goes wrong there is seen by whoever waits for the answer.
            let driver = tokio::spawn(async move { _ = connection.await });
            self.open = Some((sender, driver));
        }
        match &mut self.open {
            Some((sender, _)) => Ok(sender),
            None => Err("no connection".into()),
        }
    }

    /// Closes the connection, in the middle of an answer if there is one.
    pub fn close(&mut self) {
        if let Some((_, driver)) = self.open.take() {
            driver.abort();
        }
    }

    /// Asks for a page.
    pub async fn get(&mut self, path: &str) -> Result<String> {
        let request = Request::get(path).header("host", self.address.to_string());
        let sent = self.open().await?.send_request(request.body(Full::default())?);
        let answer = timeout(PATIENCE, sent).await??.into_body().collect().await?;
        Ok(String::from_utf8(answer.to_bytes().to_vec())?)
    }

    /// Sends a request and takes its answer, or leaves it in the middle. An error if the answer is lost.
    pub async fn post(&mut self, path: &str, body: Bytes, leave: Option<Leave>) -> Result<Arrived> {
        let request = Request::post(path)
            .header("host", self.address.to_string())
            .header("content-type", "application/json")
            .body(Full::new(body))?;
        let sender = self.open().await?;
        sender.ready().await?;
        let mut arrived = Arrived { sent: Instant::now(), status: None, parts: Vec::new(), was_left: false };
        let sent = sender.send_request(request);
        let (most, patience) = match leave {
            None => (usize::MAX, PATIENCE),
            Some(Leave::Parts(parts)) => (parts, PATIENCE),
            Some(Leave::After(time)) => (usize::MAX, time),
        };
        let whole = timeout(patience, async {
            let answer = sent.await?;
            arrived.status = Some(answer.status());
            collect(answer, most, &mut arrived.parts).await
        });
        let has_ended = match whole.await {
            Ok(ended) => ended.inspect_err(|_| self.close())?,
            Err(_) if matches!(leave, Some(Leave::After(_))) => false,
            Err(late) => {
                self.close();
                return Err(late.into());
            }
        };
        if !has_ended {
            arrived.was_left = true;
            self.close();
        }
        Ok(arrived)
    }
}

/// Takes at most so many parts of an answer, and says whether it has ended.
async fn collect(answer: Response<Incoming>, most: usize, parts: &mut Vec<Part>) -> Result<bool> {
    let mut body = answer.into_body();
    while parts.len() < most {
        match body.frame().await {
            None => return Ok(true),
            Some(frame) => {
                if let Ok(bytes) = frame?.into_data() {
                    parts.push(Part { at: Instant::now(), bytes });
                }
            }
        }
    }
    Ok(false)
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}
