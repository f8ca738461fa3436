//! A server: its parts put together.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fmt, io};

use axum::http::{HeaderValue, Method, header};
use onedraw_lab::Bounds;
use onedraw_lm::ModelError;
use tokio::net::{TcpListener, TcpSocket};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::engine::{Engine, Start};
use crate::http::{Keys, serve};
use crate::metrics::Metrics;
use crate::model::Model;
use crate::request::Reader;
use crate::routes::{App, routes};
use crate::settings::{Limits, Settings};
use crate::trace_file::TraceFile;

/// How long connections may take to send their last bytes once all texts have ended.
const LAST_BYTES: Duration = Duration::from_secs(5);

/// How often what was counted is put into its buckets: some thousands of numbers at the pace of a small model.
const TIDYING: Duration = Duration::from_secs(5);

/// Connections that the system may hold until they are taken; it may have a lower limit. A connection beyond it costs its
/// client a second, after which it tries again: the usual 128 are there in the time that another process has the core.
const UNTAKEN: u32 = 4096;

/// A server that has its address.
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    app: Arc<App>,
    engine: JoinHandle<()>,
    settings: Settings,
    cors: Option<CorsLayer>,
}

/// Why a server cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The address cannot be had.
    Address(SocketAddr, io::Error),
    /// The trace cannot be written.
    Trace(io::Error),
    /// The model or its drafter cannot be used.
    Model(ModelError),
    /// A setting makes no sense.
    Setting(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address, error) => write!(f, "{address}: {error}"),
            Self::Trace(error) => write!(f, "the trace cannot be written: {error}"),
            Self::Model(error) => error.fmt(f),
            Self::Setting(message) => f.write_str(message),
        }
    }
}

impl std::error::Error for StartError {}

impl Server {
    /// Takes an address and starts the engine.
    pub async fn bind(mut model: Model, settings: Settings) -> Result<Self, StartError> {
        check(&settings.limits)?;
        let cors = cors(&settings.cors)?;
        let wanted = SocketAddr::new(settings.host, settings.port);
        let listener = listen(wanted).map_err(|error| StartError::Address(wanted, error))?;
        let address = listener.local_addr().map_err(|error| StartError::Address(wanted, error))?;
        let metrics = Metrics::new().map_err(|error| StartError::Setting(error.to_string()))?;
        let trace = settings.trace.as_deref().map(|path| TraceFile::open(path, metrics.clone()));
        let trace = trace.transpose().map_err(StartError::Trace)?;
        let Limits { running, waiting, prompt, tokens, items, grammar, n, .. } = settings.limits;
        let beams = n.min(running);
        model.subject = model.subject.bounded(Bounds { prompt, tokens, items, schema: grammar, beams });
        let model = Arc::new(model);
        let start = Start { model: model.clone(), metrics: metrics.clone(), trace, running, waiting };
        let (engine, thread) = Engine::start(start).map_err(StartError::Model)?;
        let reader = Reader::new(model, settings.limits.clone());
        let app = Arc::new(App::new(reader, engine, metrics, settings.logs_prompts));
        Ok(Self { listener, address, app, engine: thread, settings, cors })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `ending`. Then texts that are being written may go on for [`Limits::grace`], and everything else is
    /// refused.
    pub async fn run(self, ending: impl Future<Output = ()>) -> io::Result<()> {
        let Self { listener, address, app, engine, settings, cors } = self;
        let limits = &settings.limits;
        let routes =
            routes(app.clone(), Keys::new(&settings.keys), cors, address.ip().to_canonical().is_loopback());
        let metrics = app.metrics.clone();
        let tidying = tokio::spawn(tidy(metrics.clone()));
        let connections = serve(listener, routes, limits, &metrics, ending).await;
        app.is_ending.store(true, Ordering::Relaxed);
        app.engine.end(limits.grace);
        let ended = tokio::task::spawn_blocking(move || engine.join());
        let all = async {
            let engine = ended.await;
            // Whoever does not read the rest of its answer does not keep the server.
            let _ = tokio::time::timeout(LAST_BYTES, connections.shutdown()).await;
            engine
        };
        let ended = all.await;
        tidying.abort();
        match ended {
            Ok(Ok(())) => Ok(()),
            _ => Err(io::Error::other("the engine has stopped before its end")),
        }
    }
}

/// Takes an address.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    }?;
    // A server that is started again need not wait until the system has forgotten the connections of the last one.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(UNTAKEN)
}

/// Keeps the memory of what is counted small where nobody asks for it.
async fn tidy(metrics: Metrics) {
    let mut rounds = tokio::time::interval(TIDYING);
    loop {
        rounds.tick().await;
        metrics.tidy();
    }
}

/// Limits that would let nothing through.
fn check(limits: &Limits) -> Result<(), StartError> {
    let counts = [
        ("running", limits.running),
        ("waiting", limits.waiting),
        ("body", limits.body),
        ("prompts", limits.prompts),
        ("prompt", limits.prompt),
        ("n", limits.n),
        ("connections", limits.connections),
    ];
    match counts.iter().find(|(_, count)| *count == 0) {
        Some((name, _)) => Err(StartError::Setting(format!("the limit {name} must be at least 1"))),
        None => Ok(()),
    }
}

/// Lets pages of these origins call the server.
fn cors(origins: &[String]) -> Result<Option<CorsLayer>, StartError> {
    if origins.is_empty() {
        return Ok(None);
    }
    let allowed = match origins.iter().any(|origin| origin == "*") {
        true => AllowOrigin::any(),
        false => {
            let value = |origin: &String| {
                let wrong = |_| StartError::Setting(format!("`{origin}` is not an origin"));
                HeaderValue::from_str(origin).map_err(wrong)
            };
            AllowOrigin::list(origins.iter().map(value).collect::<Result<Vec<_>, _>>()?)
        }
    };
    let layer = CorsLayer::new()
        .allow_origin(allowed)
        .allow_methods([Method::GET, Method::POST])
        // OpenAI's client sends headers of its own.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([header::HeaderName::from_static("x-request-id"), header::RETRY_AFTER]);
    Ok(Some(layer))
}
