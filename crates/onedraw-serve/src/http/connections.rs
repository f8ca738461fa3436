//! Connections: how many, and how long each part of a request may take.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::stalling::Stalling;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::settings::Limits;

/// How long to wait after a connection could not be taken, mostly because there are no file descriptors left.
const PAUSE: Duration = Duration::from_millis(50);

/// How long a client that is one too many has to read why.
const GOODBYE: Duration = Duration::from_secs(1);

/// Serves connections until `ending`, then lets those that are in use end.
pub(crate) async fn serve(
    listener: TcpListener,
    routes: Router,
    limits: &Limits,
    metrics: &Metrics,
    ending: impl Future<Output = ()>,
) -> GracefulShutdown {
    let (graceful, places) = (GracefulShutdown::new(), Arc::new(Semaphore::new(limits.connections)));
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(limits.head);
    tokio::pin!(ending);
    loop {
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            () = &mut ending => return graceful,
        };
        let stream = match taken {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection cannot be taken");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Ok(place) = places.clone().try_acquire_owned() else {
            tokio::spawn(refuse(stream, limits.connections));
            continue;
        };
        // Without it, parts of a stream would wait for each other.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no delay");
        }
        let open = Open { metrics: metrics.clone(), _place: place };
        metrics.connected(1.0);
        let io = TokioIo::new(Stalling::new(stream, limits.stall, limits.time));
        let connection = server.serve_connection(io, TowerToHyperService::new(routes.clone()));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            let _open = open;
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
}

/// Counts a connection as long as it lives.
struct Open {
    metrics: Metrics,
    _place: OwnedSemaphorePermit,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.metrics.connected(-1.0);
    }
}

/// Tells a client that there are too many.
async fn refuse(mut stream: TcpStream, most: usize) {
    let message = format!("there are {most} connections already; try again later");
    let failure = Failure::of(StatusCode::SERVICE_UNAVAILABLE, Some("too_many_connections"), message);
    let body = failure.body().to_string();
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let answer = [head.as_bytes(), body.as_bytes()].concat();
    // The client may be gone already.
    let _ = tokio::time::timeout(GOODBYE, async {
        stream.write_all(&answer).await?;
        stream.shutdown().await
    })
    .await;
}
