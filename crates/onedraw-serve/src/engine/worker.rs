//! The thread of the engine: what happens between two passes, and the passes.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use onedraw::SamplingParams;
use onedraw_grammar::Grammar;
use onedraw_lm::{Event, Generator, Llama, ModelError, RequestId};
use tokio::sync::mpsc::UnboundedSender;

use super::explain::Reading;
use super::job::{Command, Deadline, Job, Message, Places};
use super::lab::Labs;
use crate::failure::Failure;
use crate::metrics::{Metrics, Speculated};
use crate::model::Model;
use crate::trace_file::TraceFile;

/// A job, as long as one of its prompts waits or is being continued.
struct Client {
    params: SamplingParams,
    is_limited: bool,
    constraint: Option<Grammar>,
    messages: UnboundedSender<Message>,
    deadline: Deadline,
    arrived: Instant,
}

/// A prompt that waits.
struct Waiting {
    client: Rc<Client>,
    place: usize,
    prompt: Vec<u32>,
}

/// A prompt with texts that are being written.
struct Running {
    client: Rc<Client>,
    place: usize,
    request: RequestId,
    /// When each of its texts had its last token; `None`: it has none.
    latest: Vec<Option<Instant>>,
    /// The texts that have not ended.
    left: usize,
}

/// The thread's own.
pub(super) struct Worker<'a> {
    model: &'a Model,
    generator: Generator<'a, Llama>,
    metrics: Metrics,
    /// Texts that are written at the same time.
    most: usize,
    places: Arc<Places>,
    waiting: VecDeque<Waiting>,
    running: Vec<Running>,
    reading: VecDeque<Reading>,
    labs: Labs<'a>,
    /// Until when texts may go on, once the engine is told to end.
    end: Option<Instant>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        model: &'a Model,
        metrics: Metrics,
        trace: Option<TraceFile>,
        most: usize,
        places: Arc<Places>,
    ) -> Result<Self, ModelError> {
        let mut generator = Generator::new(&model.llama, &*model.tokenizer).kernel(model.kernel);
        if let Some(drafting) = &model.drafting {
            generator = drafting.guesser.beside(generator, &model.llama, drafting.speculation)?;
        }
        if let Some(trace) = trace {
            generator = generator.trace(trace.tracer(model));
        }
        let (waiting, running, reading) = (VecDeque::new(), Vec::new(), VecDeque::new());
        let labs = Labs::new(model, most)?;
        Ok(Self { model, generator, metrics, most, places, waiting, running, reading, labs, end: None })
    }

    /// Works until it is told to end, or nobody can send commands any more.
    pub(super) fn run(&mut self, commands: &Receiver<Command>) {
        loop {
            if self.is_idle() {
                self.publish();
                if self.end.is_some() {
                    return;
                }
                match commands.recv() {
                    Ok(command) => self.take(command),
                    Err(_) => return,
                }
            }
            while let Ok(command) = commands.try_recv() {
                self.take(command);
            }
            self.let_go();
            self.begin();
            if let Some(reading) = self.reading.pop_front() {
                match reading.step(&self.model.llama) {
                    // One after the other: each has the model's memory of a whole prompt.
                    Some(reading) => self.reading.push_front(reading),
                    None => self.places.give_back(1),
                }
            }
            self.places.give_back(self.labs.step());
            self.publish();
            self.pass();
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty() && self.reading.is_empty() && self.labs.is_idle()
    }

    fn take(&mut self, command: Command) {
        match command {
            Command::Write(job, messages) => {
                let Job { prompts, params, is_limited, constraint, deadline } = job;
                let arrived = Instant::now();
                let client = Rc::new(Client { params, is_limited, constraint, messages, deadline, arrived });
                let waiting = prompts.into_iter().enumerate();
                self.waiting.extend(waiting.map(|(place, prompt)| Waiting {
                    client: client.clone(),
                    place,
                    prompt,
                }));
            }
            Command::Explain(question, answer) => {
                self.reading.push_back(Reading::new(question, answer, &self.model.llama));
            }
            Command::Ask(inquiry, replies) => self.labs.take(inquiry, replies),
            Command::End(until) => self.end = Some(until),
        }
    }

    /// Lets go of jobs whose client is gone or whose time is over, and, at the end, of all that has not begun.
    fn let_go(&mut self) {
        let now = Instant::now();
        let is_over = self.end.is_some_and(|end| now > end);
        for place in (0..self.running.len()).rev() {
            let client = &self.running[place].client;
            let failure = match () {
                () if client.messages.is_closed() => None,
                () if is_over => Some(Failure::ending()),
                () if now > client.deadline.at => Some(client.deadline.failure()),
                () => continue,
            };
            let running = self.running.remove(place);
            self.generator.cancel(running.request);
            self.metrics.cancelled(running.left);
            running.client.fail(failure);
        }
        let is_ending = self.end.is_some();
        let before = self.waiting.len();
        self.waiting.retain(|waiting| {
            let failure = match () {
                () if waiting.client.messages.is_closed() => None,
                () if is_ending => Some(Failure::ending()),
                () if now > waiting.client.deadline.at => Some(waiting.client.deadline.failure()),
                () => return true,
            };
            waiting.client.fail(failure);
            false
        });
        self.places.give_back(before - self.waiting.len());
        self.places.give_back(self.labs.let_go(is_ending, is_over));
        let before = self.reading.len();
        self.reading.retain(|reading| !reading.is_abandoned());
        self.places.give_back(before - self.reading.len());
        if is_ending {
            for reading in self.reading.drain(..) {
                reading.fail(Failure::ending());
                self.places.give_back(1);
            }
        }
    }

    /// Begins waiting prompts, the first first, as long as there is room for all texts of the next one.
    fn begin(&mut self) {
        let mut writing: usize = self.running.iter().map(|running| running.left).sum();
        while let Some(next) = self.waiting.front() {
            let texts = next.client.params.n as usize;
            if writing > 0 && writing + texts > self.most {
                return;
            }
            let Some(Waiting { client, place, prompt }) = self.waiting.pop_front() else { return };
            self.places.give_back(1);
            // Another prompt of this job may have failed meanwhile.
            if client.messages.is_closed() {
                continue;
            }
            let mut params = client.params.clone();
            if client.is_limited {
                self.model.generation.limit(&mut params, prompt.len());
            }
            let added = match &client.constraint {
                Some(grammar) => self.generator.add_constrained(&prompt, params, &grammar.start()),
                None => self.generator.add(&prompt, params),
            };
            match added {
                Ok(request) => {
                    self.metrics.begun(prompt.len(), client.arrived.elapsed());
                    client.say(Message::Begun);
                    let latest = vec![None; texts];
                    self.running.push(Running { client, place, request, latest, left: texts });
                    writing += texts;
                }
                Err(error) => client.fail(Some(Failure::refused(&error))),
            }
        }
    }

    /// Makes a pass for all texts, and hands out their tokens.
    fn pass(&mut self) {
        if self.generator.is_done() {
            return;
        }
        let begun = Instant::now();
        match self.generator.step() {
            Ok(events) => events.into_iter().for_each(|event| self.deliver(event)),
            Err(error) => {
                tracing::error!(%error, "a pass failed");
                self.generator.cancel_all();
                for running in self.running.drain(..) {
                    running.client.fail(Some(Failure::broken(&error.to_string())));
                }
            }
        }
        self.metrics.passed(begun.elapsed());
        if let Some(guessed) = self.generator.guessed() {
            self.metrics.speculated(&Speculated::of(guessed));
        }
        // What was traced so far can be read while the server runs.
        if let Err(error) = self.generator.flush_trace() {
            tracing::error!(%error, "the trace");
        }
    }

    fn deliver(&mut self, event: Event) {
        let found = self.running.iter().position(|running| running.request == event.request);
        let Some(found) = found else { return };
        let running = &mut self.running[found];
        if event.sampled.is_some() {
            let now = Instant::now();
            match running.latest[event.sample].replace(now) {
                None => self.metrics.first_token(now - running.client.arrived),
                Some(before) => self.metrics.next_token(now - before),
            }
        }
        running.left -= usize::from(event.is_last());
        running.client.say(Message::Event { prompt: running.place, event: Box::new(event) });
        if running.left == 0 {
            self.running.remove(found);
        }
    }

    fn publish(&self) {
        let writing = self.running.iter().map(|running| running.left).sum();
        self.metrics.load(self.waiting.len() + self.reading.len() + self.labs.waiting(), writing);
    }
}

impl Client {
    /// Tells the client. If nobody listens, the next round lets go of the job.
    fn say(&self, message: Message) {
        let _ = self.messages.send(message);
    }

    fn fail(&self, failure: Option<Failure>) {
        if let Some(failure) = failure {
            self.say(Message::Failed(failure));
        }
    }
}
