//! What handlers hand over to the engine, and what they hear of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use onedraw::{Explanation, SamplingParams};
use onedraw_grammar::Grammar;
use onedraw_lab::Line;
use onedraw_lm::Event;
use tokio::sync::{mpsc as channel, oneshot};

use crate::failure::Failure;

/// Texts to write: `params.n` after each prompt.
pub(crate) struct Job {
    pub prompts: Vec<Vec<u32>>,
    pub params: SamplingParams,
    /// Whether the model's own settings may limit the length of a text, which depends on its prompt.
    pub is_limited: bool,
    /// What each text must match.
    pub constraint: Option<Grammar>,
    /// When it has taken too long.
    pub deadline: Deadline,
}

/// No job is waited for longer: a century. Clocks cannot add times without end.
pub(super) const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// When a job has taken too long, and how long that is.
#[derive(Clone, Copy)]
pub(crate) struct Deadline {
    pub at: Instant,
    pub after: Duration,
}

impl Deadline {
    pub(crate) fn after(time: Duration) -> Self {
        Self { at: Instant::now() + time.min(LONGEST), after: time }
    }

    pub(crate) fn failure(&self) -> Failure {
        Failure::late(self.after.as_secs_f64())
    }
}

/// What becomes of a job.
pub(crate) enum Message {
    /// The first prompt is being read now.
    Begun,
    /// A token of a text after one of the prompts.
    Event { prompt: usize, event: Box<Event> },
    /// The job has ended without its texts.
    Failed(Failure),
}

/// A draw to explain.
pub(crate) struct Question {
    pub prompt: Vec<u32>,
    pub params: SamplingParams,
    /// How many tokens to name at each stage.
    pub listed: usize,
    pub deadline: Deadline,
}

/// A question of the laboratory, and what its text must match.
pub(crate) struct Inquiry {
    pub question: onedraw_lab::Question,
    pub grammar: Option<Grammar>,
    pub deadline: Deadline,
}

/// A part of an answer of the laboratory. The answer has ended when nobody sends any more.
pub(crate) type Reply = Result<Vec<Line>, Failure>;

pub(super) enum Command {
    Write(Job, channel::UnboundedSender<Message>),
    Explain(Question, oneshot::Sender<Result<Explanation, Failure>>),
    Ask(Inquiry, channel::UnboundedSender<Reply>),
    /// Writes to their end what is being written, at most until then, and nothing else.
    End(Instant),
}

/// Prompts that are waiting, and how many may.
pub(super) struct Places {
    taken: AtomicUsize,
    most: usize,
}

impl Places {
    pub(super) fn new(most: usize) -> Self {
        Self { taken: AtomicUsize::new(0), most }
    }

    pub(super) fn take(&self, count: usize) -> Result<(), Failure> {
        let more = |taken: usize| (taken + count <= self.most).then_some(taken + count);
        let taken = self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.map(drop).map_err(Failure::busy)
    }

    pub(super) fn give_back(&self, count: usize) {
        self.taken.fetch_sub(count, Ordering::AcqRel);
    }
}
