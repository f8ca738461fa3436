//! Which function answers which path.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use onedraw_grammar::Grammar;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tower_http::cors::CorsLayer;

use crate::answer::{Teller, lines, now, spelled, stream, whole};
use crate::engine::{Deadline, Engine, Inquiry, Job, Question};
use crate::failure::Failure;
use crate::http::{Bodies, Json, Keys, Record, host_is_ours, knows_key, logged, shortened};
use crate::metrics::Metrics;
use crate::page;
use crate::request::{Form, Interface, Reader, detokenized};

/// How many schemas and grammars are compiled at the same time.
const COMPILERS: usize = 2;

/// What the functions share.
pub(crate) struct App {
    pub reader: Reader,
    pub engine: Engine,
    pub metrics: Metrics,
    pub logs_prompts: bool,
    pub started: u64,
    /// Whether the server is about to end.
    pub is_ending: AtomicBool,
    compilers: Arc<Semaphore>,
    readers: Arc<Semaphore>,
}

impl App {
    pub(crate) fn new(reader: Reader, engine: Engine, metrics: Metrics, logs_prompts: bool) -> Self {
        let readers = std::thread::available_parallelism().map_or(1, |threads| threads.get());
        let (compilers, readers) = (Arc::new(Semaphore::new(COMPILERS)), Arc::new(Semaphore::new(readers)));
        Self {
            reader,
            engine,
            metrics,
            logs_prompts,
            started: now(),
            is_ending: AtomicBool::new(false),
            compilers,
            readers,
        }
    }
}

/// All routes. On loopback, the server must be called by a name of this machine.
pub(crate) fn routes(app: Arc<App>, keys: Keys, cors: Option<CorsLayer>, is_loopback: bool) -> Router {
    let metrics = app.metrics.clone();
    let keyed = Router::new()
        .route("/v1/completions", post(write).layer(Extension(Interface::Completions)))
        .route("/v1/chat/completions", post(write).layer(Extension(Interface::Chat)))
        .route("/v1/responses", post(write).layer(Extension(Interface::Responses)))
        .route("/v1/models", get(models))
        .route("/v1/models/{*name}", get(model))
        .route("/v1/explain", post(explain))
        .route("/lab/{question}", post(ask))
        .route("/tokenize", post(tokenize))
        .route("/detokenize", post(detokenize))
        .route("/metrics", get(numbers))
        .layer(from_fn_with_state(keys, knows_key));
    let mut routes = Router::new()
        .route("/health", get(health))
        .merge(keyed)
        .merge(page::routes())
        .method_not_allowed_fallback(wrong_method)
        .fallback(nowhere)
        .with_state(app);
    if let Some(cors) = cors {
        routes = routes.layer(cors);
    }
    if is_loopback {
        routes = routes.layer(from_fn(host_is_ours));
    }
    routes.layer(from_fn_with_state(metrics, logged))
}

type Shared = State<Arc<App>>;

/// Writes texts.
async fn write(
    State(app): Shared,
    Extension(record): Extension<Record>,
    Extension(interface): Extension<Interface>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let body = app.body(&headers, body).await?;
    let deadline = app.deadline();
    let asked = app.blocking(deadline, move |reader| reader.read(interface, &body)).await?;
    let logged = app.logs_prompts.then(|| asked.prompts.iter().map(|prompt| prompt.text.as_str()).collect());
    let constraint = match &asked.form {
        Some(form) => Some(app.compile(form.clone()).await?),
        None => None,
    };
    if app.is_ending.load(Ordering::Relaxed) {
        return Err(Failure::ending());
    }
    let prompts = asked.prompts.iter().map(|prompt| prompt.tokens.clone()).collect();
    let (params, is_limited) = (asked.params.clone(), !asked.says_length);
    let (streams, seed) = (asked.streams, params.seed);
    let teller = Teller::new(interface, app.reader.model.clone(), asked)?;
    record.asked(teller.usage(0).prompt, seed, logged);
    let messages = app.engine.write(Job { prompts, params, is_limited, constraint, deadline })?;
    if streams {
        return stream(teller, messages, record).await;
    }
    Ok(Json(whole(&teller, messages, &record).await?).into_response())
}

async fn explain(State(app): Shared, headers: HeaderMap, body: Body) -> Result<Json, Failure> {
    let body = app.body(&headers, body).await?;
    let deadline = app.deadline();
    let asked = app.blocking(deadline, move |reader| reader.explained(&body)).await?;
    if app.is_ending.load(Ordering::Relaxed) {
        return Err(Failure::ending());
    }
    let (prompt, params) = (asked.prompt.tokens, asked.params);
    let question = Question { prompt, params, listed: asked.listed, deadline };
    let explanation = app.engine.explain(question).await?;
    let explained = serde_json::to_value(explanation).map_err(|error| Failure::broken(&error.to_string()))?;
    let mut answer = json!({"object": "explanation", "model": app.reader.model.name});
    if let (Value::Object(answer), Value::Object(explained)) = (&mut answer, explained) {
        answer.extend(explained);
    }
    name_tokens(&mut answer, &app.reader);
    Ok(Json(answer))
}

/// Gives each token of an explanation its text.
fn name_tokens(value: &mut Value, reader: &Reader) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| name_tokens(item, reader)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| name_tokens(field, reader));
            if let Some(token) = fields.get("token").and_then(Value::as_u64) {
                fields.insert("text".to_owned(), spelled(&reader.model.tokenizer, token as u32).into());
            }
        }
        _ => {}
    }
}

/// Answers a question of the laboratory, line by line.
async fn ask(
    State(app): Shared,
    Extension(record): Extension<Record>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Failure> {
    let body = app.body(&headers, body).await?;
    let deadline = app.deadline();
    let read = app.blocking(deadline, move |reader| Ok(reader.model.subject.read(&name, &body))).await?;
    let question = match read {
        Ok(question) => question,
        Err(failure) => return Ok(page::refused(&failure)),
    };
    // What needs no pass does not wait for the texts that are being written.
    if let Some(line) = question.told() {
        return Ok(page::told(line));
    }
    let grammar = match question.form() {
        None => None,
        Some(text) => match app.compile(Form { field: "schema", text }).await {
            Ok(grammar) => Some(grammar),
            Err(failure) if failure.status == StatusCode::BAD_REQUEST => {
                let Failure { message, param: field, .. } = failure;
                return Ok(page::refused(&onedraw_lab::Failure { kind: "schema", message, field }));
            }
            Err(failure) => return Err(failure),
        },
    };
    if app.is_ending.load(Ordering::Relaxed) {
        return Err(Failure::ending());
    }
    lines(app.engine.ask(Inquiry { question, grammar, deadline })?, record).await
}

async fn tokenize(State(app): Shared, headers: HeaderMap, body: Body) -> Result<Json, Failure> {
    let body = app.body(&headers, body).await?;
    let cut = app.blocking(app.deadline(), move |reader| reader.tokenize(&body)).await?;
    let model = &app.reader.model;
    let mut answer = json!({
        "count": cut.tokens.len(),
        "max_model_len": model.context(),
        "tokens": cut.tokens,
    });
    if cut.tells_pieces {
        answer["token_strs"] = cut.tokens.iter().map(|&token| spelled(&model.tokenizer, token)).collect();
    }
    Ok(Json(answer))
}

async fn detokenize(State(app): Shared, headers: HeaderMap, body: Body) -> Result<Json, Failure> {
    let body = app.body(&headers, body).await?;
    let text = app.blocking(app.deadline(), move |reader| {
        Ok(reader.model.tokenizer.text(&detokenized(reader, &body)?))
    });
    Ok(Json(json!({"prompt": text.await?})))
}

impl App {
    fn entry(&self) -> Value {
        let model = &self.reader.model;
        json!({
            "id": model.name,
            "object": "model",
            "created": self.started,
            "owned_by": "onedraw",
            "max_model_len": model.context(),
            "system_fingerprint": model.fingerprint(),
        })
    }

    async fn body(&self, headers: &HeaderMap, body: Body) -> Result<axum::body::Bytes, Failure> {
        let limits = &self.reader.limits;
        Bodies { most: limits.body, time: limits.upload }.read(headers, body).await
    }

    /// Compiles what texts must match, with a limit for the time. The compiler itself limits its work, so that one
    /// that takes longer ends too, and keeps its place until then.
    async fn compile(&self, Form { field, text }: Form) -> Result<Grammar, Failure> {
        let time = self.reader.limits.compile;
        let place = tokio::time::timeout(time, self.compilers.clone().acquire_owned()).await;
        let place = place.map_err(|_| {
            let message = "too many schemas and grammars are being compiled; try again later";
            Failure::of(StatusCode::TOO_MANY_REQUESTS, Some("compilers_busy"), message)
        })?;
        let (place, model) = (place.map_err(|_| Failure::gone())?, self.reader.model.clone());
        let compiling = tokio::task::spawn_blocking(move || {
            let _place = place;
            model.subject.compile(&text)
        });
        let late = |_| {
            let message = format!("{field}: takes longer than {} seconds to compile", time.as_secs_f64());
            Failure::field(field, message)
        };
        let compiled =
            tokio::time::timeout(time, compiling).await.map_err(late)?.map_err(|_| Failure::panicked())?;
        compiled.map_err(|error| Failure::field(field, format!("{field}: {error}")))
    }

    /// Work on a body: not on a thread that serves connections, and only as much at a time as there are cores.
    async fn blocking<T: Send + 'static>(
        &self,
        deadline: Deadline,
        work: impl FnOnce(&Reader) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let place = tokio::time::timeout_at(deadline.at.into(), self.readers.clone().acquire_owned()).await;
        let place = place.map_err(|_| deadline.failure())?.map_err(|_| Failure::gone())?;
        let reader = self.reader.clone();
        let working = tokio::task::spawn_blocking(move || {
            let _place = place;
            work(&reader)
        });
        working.await.map_err(|_| Failure::panicked())?
    }

    fn deadline(&self) -> Deadline {
        Deadline::after(self.reader.limits.time)
    }
}

async fn models(State(app): Shared) -> Json {
    Json(json!({"object": "list", "data": [app.entry()]}))
}

async fn model(State(app): Shared, Path(name): Path<String>) -> Result<Json, Failure> {
    match name == app.reader.model.name {
        true => Ok(Json(app.entry())),
        false => Err(crate::request::fields::no_model(&name, &app.reader.model.name)),
    }
}

async fn health(State(app): Shared) -> Result<Json, Failure> {
    if app.is_ending.load(Ordering::Relaxed) {
        return Err(Failure::ending());
    }
    match app.engine.is_alive() {
        true => Ok(Json(json!({"status": "ok"}))),
        false => Err(Failure { status: StatusCode::SERVICE_UNAVAILABLE, ..Failure::gone() }),
    }
}

async fn numbers(State(app): Shared) -> Response {
    let mut response = app.metrics.text().into_response();
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

async fn nowhere(method: Method, uri: Uri) -> Failure {
    let message = format!("there is nothing at {} {}", shortened(method.as_str()), shortened(uri.path()));
    Failure::of(StatusCode::NOT_FOUND, Some("unknown_url"), message)
}

async fn wrong_method(method: Method, uri: Uri) -> Failure {
    let message = format!("{} does not take {}", shortened(uri.path()), shortened(method.as_str()));
    Failure::of(StatusCode::METHOD_NOT_ALLOWED, Some("method_not_allowed"), message)
}
