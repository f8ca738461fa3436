//! The engine: one thread that owns the decode loop.
//!
//! Handlers of requests hand over jobs and read messages. Between two passes of the model, the thread takes what has
//! arrived (`worker`), lets go of jobs whose client is gone or whose time is over, begins waiting prompts in the order
//! in which they came, and makes the next pass for all texts together. No text depends on the others, so neither the
//! order nor the load changes a token. `job` has what is handed over and told; `explain` reads prompts of draws to
//! explain, and `lab` answers the laboratory's questions, a pass of each at a time.

mod explain;
mod job;
mod lab;
mod worker;

use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use onedraw::Explanation;
use onedraw_lm::ModelError;
use tokio::sync::{mpsc as channel, oneshot};

use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::model::Model;
use crate::trace_file::TraceFile;
use job::{Command, LONGEST, Places};
use worker::Worker;

pub(crate) use job::{Deadline, Inquiry, Job, Message, Question, Reply};

/// The handlers' side of the engine.
pub(crate) struct Engine {
    inbox: mpsc::Sender<Command>,
    places: Arc<Places>,
}

/// What an engine is started with.
pub(crate) struct Start {
    pub model: Arc<Model>,
    pub metrics: Metrics,
    pub trace: Option<TraceFile>,
    /// Texts that are written at the same time.
    pub running: usize,
    /// Prompts that wait.
    pub waiting: usize,
}

impl Engine {
    /// Starts the thread.
    pub(crate) fn start(start: Start) -> Result<(Self, JoinHandle<()>), ModelError> {
        let (inbox, commands) = mpsc::channel();
        let places = Arc::new(Places::new(start.waiting));
        let theirs = places.clone();
        let (ready, started) = mpsc::channel();
        let body = move || {
            let Start { model, metrics, trace, running, .. } = start;
            match Worker::new(&model, metrics, trace, running, theirs) {
                Ok(mut worker) => {
                    // The thread that waits for this is in the function around it.
                    let _ = ready.send(Ok(()));
                    worker.run(&commands);
                }
                Err(error) => _ = ready.send(Err(error)),
            }
        };
        let thread = std::thread::Builder::new().name("engine".to_owned()).spawn(body);
        let thread =
            thread.map_err(|cause| ModelError::Request(format!("no thread for the engine: {cause}")))?;
        let stopped = |_| Err(ModelError::Request("the engine did not start".to_owned()));
        started.recv().unwrap_or_else(stopped)?;
        Ok((Self { inbox, places }, thread))
    }

    /// Hands over a job. An error if too many wait.
    pub(crate) fn write(&self, job: Job) -> Result<channel::UnboundedReceiver<Message>, Failure> {
        let (sender, messages) = channel::unbounded_channel();
        self.places.take(job.prompts.len())?;
        self.inbox.send(Command::Write(job, sender)).map_err(|_| Failure::gone())?;
        Ok(messages)
    }

    /// What each stage does at the next token.
    pub(crate) async fn explain(&self, question: Question) -> Result<Explanation, Failure> {
        let (sender, answer) = oneshot::channel();
        self.places.take(1)?;
        self.inbox.send(Command::Explain(question, sender)).map_err(|_| Failure::gone())?;
        answer.await.map_err(|_| Failure::gone())?
    }

    /// Hands over a question of the laboratory.
    pub(crate) fn ask(&self, inquiry: Inquiry) -> Result<channel::UnboundedReceiver<Reply>, Failure> {
        let (sender, replies) = channel::unbounded_channel();
        self.places.take(1)?;
        self.inbox.send(Command::Ask(inquiry, sender)).map_err(|_| Failure::gone())?;
        Ok(replies)
    }

    /// Whether the thread is there.
    pub(crate) fn is_alive(&self) -> bool {
        Arc::strong_count(&self.places) > 1
    }

    /// Lets texts that are being written go on for this long, and refuses all else.
    pub(crate) fn end(&self, grace: Duration) {
        // If the thread is gone, it has ended.
        let _ = self.inbox.send(Command::End(Instant::now() + grace.min(LONGEST)));
    }
}
