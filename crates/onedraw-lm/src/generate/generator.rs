//! The decode loop: prompts in, text out as it comes, any number of texts at a time.
//!
//! Texts join and leave between two passes. A text depends on its prompt, its parameters and its seed alone: who else is in a pass, and how long a
//! part of a prompt one takes, changes no token.

mod speculation;
mod text;
mod writer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use onedraw::{
    Batch, Constraint, Finish, Kernel, ParamError, PromptLogprobs, RowError, Sampled, SamplingParams,
    SequenceId, Step, StopConditions,
};

pub use text::{Generated, Texts};

use crate::error::ModelError;
use crate::generate::speculation::Line;
use crate::generate::writer::{Branch, Writer};
use crate::model::{Answer, Asks, Known, LanguageModel, Run, Sequence, Vocabulary, Wanted};
use crate::speculate::{Plan, Planned, Speculator};

/// One request: a prompt, and the `n` texts that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// Why a request cannot be taken, or a pass not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum GenerateError {
    /// A parameter is wrong.
    Param(ParamError),
    /// A parameter names a token that the model does not have.
    Row(RowError),
    /// The model cannot do it.
    Model(ModelError),
}

impl std::fmt::Display for GenerateError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Param(error) => error.fmt(f),
            Self::Row(error) => error.fmt(f),
            Self::Model(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GenerateError {}

impl From<ParamError> for GenerateError {
    fn from(error: ParamError) -> Self {
        Self::Param(error)
    }
}

impl From<ModelError> for GenerateError {
    fn from(error: ModelError) -> Self {
        Self::Model(error)
    }
}

/// What one token of one text did.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Whose.
    pub request: RequestId,
    /// Which of its `n` texts.
    pub sample: usize,
    /// The token, with its logprobs where they are asked for; `None` if none could be drawn.
    pub sampled: Option<Sampled>,
    /// How many of the last tokens were taken back, this one among them, for a banned phrase.
    pub taken_back: usize,
    /// The text to show now, after that shown before: whole characters, and never any that is taken back later.
    pub text: String,
    /// Set if the text has ended.
    pub finish: Option<Finish>,
    /// Set if no token could be drawn: the text has ended too.
    pub error: Option<RowError>,
    /// With a text's first token, where the parameters ask for it: the logprobs of the prompt.
    pub prompt_logprobs: Option<Arc<PromptLogprobs>>,
}

impl Event {
    /// Whether nothing follows.
    pub fn is_last(&self) -> bool {
        self.finish.is_some() || self.error.is_some()
    }
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timings {
    /// Positions of prompts that went through the model.
    pub prompt_tokens: usize,
    /// The time that took; of a pass that did both, the part by positions.
    pub prompt_time: Duration,
    /// Drawn tokens that went through the model.
    pub output_tokens: usize,
    /// The time that took.
    pub output_time: Duration,
    /// The time the draws took.
    pub sampling_time: Duration,
    /// The time guesses took; the passes that judge them count as output.
    pub draft_time: Duration,
}

/// Writes texts.
pub struct Generator<'a, M: LanguageModel> {
    model: &'a M,
    vocabulary: &'a dyn Vocabulary,
    batch: Batch,
    writers: Vec<Writer<'a, M>>,
    speculator: Option<Speculator<'a, M>>,
    next: u64,
    /// Positions of prompts that a pass takes at most.
    chunk: usize,
    timings: Timings,
}

impl<'a, M: LanguageModel> Generator<'a, M> {
    /// Nothing to write yet.
    pub fn new(model: &'a M, vocabulary: &'a dyn Vocabulary) -> Self {
        Self {
            model,
            vocabulary,
            batch: Batch::new().threads(1),
            writers: Vec::new(),
            speculator: None,
            next: 0,
            chunk: 128,
            timings: Timings::default(),
        }
    }

    /// A pass takes so many positions of prompts at most: smaller parts keep the others' waits short. Tokens do not depend on it.
    pub fn chunk(mut self, positions: usize) -> Self {
        self.chunk = positions.max(1);
        self
    }

    /// Draws with this instruction set. Tokens do not depend on it.
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.batch = self.batch.kernel(kernel);
        self
    }

    /// Takes a request for `params.n` texts after a prompt of at least one token. The prompt counts as the parameters' `prompt_token_ids`.
    pub fn add(&mut self, prompt: &[u32], params: SamplingParams) -> Result<RequestId, GenerateError> {
        self.add_with(prompt, params, None)
    }

    /// As [`add`](Self::add), for texts that a constraint allows. What it forces is taken without a draw, so it has no logprobs.
    pub fn add_constrained(
        &mut self,
        prompt: &[u32],
        params: SamplingParams,
        constraint: &dyn Constraint,
    ) -> Result<RequestId, GenerateError> {
        self.add_with(prompt, params, Some(constraint))
    }

    fn add_with(
        &mut self,
        prompt: &[u32],
        mut params: SamplingParams,
        constraint: Option<&dyn Constraint>,
    ) -> Result<RequestId, GenerateError> {
        let wrong = |message: String| Err(GenerateError::Model(ModelError::Request(message)));
        if prompt.is_empty() {
            return wrong("the prompt has no token".to_owned());
        }
        let context = self.model.context();
        let length = prompt.len() + params.output_token_ids.len();
        if length > context {
            return wrong(format!(
                "the prompt has {length} tokens, more than the model's context of {context}"
            ));
        }
        let vocabulary = self.model.vocabulary();
        if let Some(token) = prompt.iter().find(|&&token| token as usize >= vocabulary) {
            return wrong(format!("token {token} of the prompt is outside the vocabulary of {vocabulary}"));
        }
        params.prompt_token_ids = prompt.to_vec();
        let pending = [prompt, &params.output_token_ids].concat();
        let given = params.output_token_ids.len();
        let reports = params.prompt_logprobs.map(|_| vec![Ok(None)]);
        let longest = params.max_tokens as usize;
        let conditions = Arc::new(StopConditions::new(&params)?);
        let ids = self.batch.add_all(params)?;
        if let Err(error) = ids.iter().try_for_each(|&id| self.batch.check_vocabulary(id, vocabulary)) {
            for id in ids {
                self.batch.remove(id);
            }
            return Err(GenerateError::Row(error));
        }
        let request = RequestId(self.next);
        self.next += 1;
        let branches = ids.into_iter().enumerate().map(|(sample, id)| {
            let constraint = constraint.map(|constraint| constraint.fork());
            Branch::new(sample, id, conditions.clone(), constraint, longest)
        });
        self.writers.push(Writer::new(
            request,
            self.model.start(),
            self.speculator.as_ref().map(|speculator| speculator.drafter()),
            pending,
            given,
            reports,
            branches.collect(),
        ));
        Ok(request)
    }

    /// Ends a request. Each of its texts that was not yet at its end gets one last event, with the text that was held back and no token;
    /// none if there is no such request.
    pub fn cancel(&mut self, request: RequestId) -> Vec<Event> {
        self.end(|writer| writer.request == request)
    }

    /// Ends all requests, as [`cancel`](Self::cancel) does.
    pub fn cancel_all(&mut self) -> Vec<Event> {
        self.end(|_| true)
    }

    fn end(&mut self, which: impl Fn(&Writer<'a, M>) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        for mut writer in self.writers.extract_if(.., |writer| which(writer)) {
            events.extend(writer.end());
            for branch in &writer.branches {
                self.batch.remove(branch.sampler);
            }
        }
        events
    }

    /// Whether there is nothing to write.
    pub fn is_done(&self) -> bool {
        self.writers.is_empty()
    }

    /// Positions of prompts that have still to go through the model.
    pub fn waiting(&self) -> usize {
        self.writers.iter().map(|writer| writer.unread()).sum()
    }

    /// Where the time went so far.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// The seed of a request's texts.
    pub fn seed(&self, request: RequestId) -> Option<u64> {
        let writer = self.writers.iter().find(|writer| writer.request == request)?;
        self.batch.seed(writer.branches.first()?.sampler)
    }

    /// One pass: every text that has read its prompt goes on by a token, or by several where guesses hold; the others read on. On an error nothing has
    /// changed.
    pub fn step(&mut self) -> Result<Vec<Event>, GenerateError> {
        let model = self.model;
        model.within(|| self.step_here())
    }

    fn step_here(&mut self) -> Result<Vec<Event>, GenerateError> {
        let begun = Instant::now();
        let takes = self.takes();
        let plans = self.plans(&takes)?;
        let drafted = begun.elapsed();
        let Some(mut answers) = self.pass(&takes, &plans)?.map(Vec::into_iter) else {
            return Ok(Vec::new());
        };
        self.count(&takes, &plans, drafted, begun.elapsed().saturating_sub(drafted));
        let (planned, draws) = (Planned::of(&plans), self.timings.sampling_time);
        let vocabulary = self.model.vocabulary();
        let (mut rows, mut ready, mut judging, mut still) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for ((mut writer, &take), plan) in
            std::mem::take(&mut self.writers).into_iter().zip(&takes).zip(plans)
        {
            if take.tokens == 0 {
                still.push(writer);
                continue;
            }
            let answer = answers.next().unwrap_or_default();
            if !plan.draft.tree.is_empty() {
                judging.push((writer, plan, answer));
                continue;
            }
            if let Some(drafter) = &mut writer.drafter {
                drafter.see(writer.tokens.len() - writer.pending.len(), &answer.states);
            }
            let logits = writer.report(answer.logits, vocabulary, &mut self.batch);
            writer.read(take.tokens);
            match writer.pending.is_empty() {
                true => {
                    rows.push(logits);
                    ready.push(writer);
                }
                false => still.push(writer),
            }
        }
        let ready = ready
            .into_iter()
            .enumerate()
            .flat_map(|(row, writer)| writer.split().into_iter().map(move |writer| (row, writer)));
        let (mut events, mut going) = self.draw(ready.collect(), &rows);
        let mut failed = None;
        for (writer, plan, answer) in judging {
            match self.judge(writer, &plan, answer) {
                Ok((judged, writer)) => {
                    events.extend(judged);
                    going.extend(writer);
                }
                Err(error) => failed = Some(error),
            }
        }
        self.writers = going.into_iter().chain(still).collect();
        // The order of requests, whoever was ready first: what a pass takes of prompts goes by it.
        self.writers.sort_by_key(|writer| {
            (writer.request, writer.branches.first().map_or(0, |branch| branch.sample))
        });
        self.learn(&takes, planned, &events, begun.elapsed(), draws);
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(events),
        }
    }

    /// What each text brings into the next pass: those that are being written come first, then prompts, as much of them as one pass takes.
    fn takes(&self) -> Vec<Take> {
        let mut room = self.chunk;
        let take = |writer: &Writer<'a, M>| {
            // More than one where a constraint forced tokens.
            let is_writing = writer.is_writing();
            let tokens = if is_writing { writer.pending.len() } else { writer.pending.len().min(room) };
            room -= if is_writing { 0 } else { tokens };
            Take { tokens, is_writing }
        };
        self.writers.iter().map(take).collect()
    }

    /// What the model says of the next tokens of all texts, and of their guesses; `None` if there are none.
    fn pass(&mut self, takes: &[Take], plans: &[Plan]) -> Result<Option<Vec<Answer>>, GenerateError> {
        let lines: Vec<Line> = self
            .writers
            .iter()
            .zip(takes)
            .zip(plans)
            .map(|((writer, take), plan)| Line::new(&writer.pending[..take.tokens], &plan.draft.tree))
            .collect();
        let mut runs = Vec::new();
        for ((writer, line), (take, plan)) in self.writers.iter_mut().zip(&lines).zip(takes.iter().zip(plans))
        {
            if take.tokens == 0 {
                continue;
            }
            let logits = match take.tokens == writer.pending.len() {
                _ if writer.reports_prompt() => Wanted::All,
                true if plan.draft.tree.is_empty() => Wanted::Last,
                true => Wanted::Tail(1 + plan.draft.tree.len()),
                false => Wanted::Nothing,
            };
            runs.push(Run {
                sequence: &mut writer.memory,
                tokens: &line.tokens,
                parents: line.parents.as_deref(),
                known: plan.known.as_ref().map(|(layers, states)| Known { layers: *layers, states }),
                asks: Asks {
                    logits,
                    exit: None,
                    states: writer.drafter.as_ref().map_or(&[], |drafter| drafter.states()),
                    ..Asks::default()
                },
            });
        }
        if runs.is_empty() {
            return Ok(None);
        }
        let answers = self.model.forward(&mut runs);
        drop(runs);
        if answers.is_err() {
            // What a drafter had the first layers remember is no part of the texts.
            for writer in &mut self.writers {
                let read = writer.tokens.len() - writer.pending.len();
                writer.memory.cut(read);
            }
        }
        Ok(Some(answers?))
    }

    /// A token for each text, and what a constraint forces before or after it; the texts that go on. Each comes with the place of its row.
    fn draw(&mut self, ready: Vec<(usize, Writer<'a, M>)>, rows: &[Vec<f32>]) -> Drawn<'a, M> {
        let begun = Instant::now();
        let (vocabulary, context) = (self.vocabulary, self.model.context());
        let (mut events, mut going) = (Vec::new(), Vec::new());
        let mut drawing = Vec::with_capacity(ready.len());
        for (row, mut writer) in ready {
            let forced = match writer.begins() {
                true => writer.take_forced(vocabulary, &mut self.batch, context),
                false => Vec::new(),
            };
            match forced.last().map(Event::is_last) {
                None => drawing.push((row, writer)),
                Some(true) => _ = self.batch.remove(writer.sampler()),
                Some(false) => going.push(writer),
            }
            events.extend(forced);
        }
        let steps = drawing.iter_mut().map(|(row, writer)| {
            let sequence = writer.sampler();
            Ok(Step { sequence, row: (&rows[*row]).into(), mask: writer.mask()? })
        });
        let steps: Vec<Result<Step<'_>, RowError>> = steps.collect();
        let allowed: Vec<Step<'_>> = steps.iter().filter_map(|step| step.as_ref().ok().copied()).collect();
        let mut sampled = self.batch.sample(&allowed).into_iter();
        let drawn = steps
            .into_iter()
            .map(|step| step.and_then(|_| sampled.next().unwrap_or(Err(RowError::UnknownSequence))));
        let drawn: Vec<Result<Sampled, RowError>> = drawn.collect();
        self.timings.sampling_time += begun.elapsed();
        for ((_, mut writer), drawn) in drawing.into_iter().zip(drawn) {
            let event = writer.take(drawn, vocabulary, &mut self.batch, context);
            let (taken, writer) = self.taken(writer, event);
            events.extend(taken);
            going.extend(writer);
        }
        (events, going)
    }

    /// After a token was taken: what the constraint forces after it, and the text, if it goes on.
    fn taken(&mut self, mut writer: Writer<'a, M>, event: Event) -> (Vec<Event>, Option<Writer<'a, M>>) {
        let goes_on = !event.is_last() && event.taken_back == 0;
        let mut events = vec![event];
        if goes_on {
            events.extend(writer.take_forced(self.vocabulary, &mut self.batch, self.model.context()));
        }
        if events.last().is_some_and(Event::is_last) {
            self.batch.remove(writer.sampler());
            return (events, None);
        }
        (events, Some(writer))
    }

    /// Writes everything there is to the end: the texts of each request, in the order in which they were added.
    pub fn finish(&mut self) -> Result<Vec<Generated>, GenerateError> {
        // Step by step on the model's threads: others may want them too.
        let mut texts = Texts::default();
        while !self.is_done() {
            self.step()?.into_iter().for_each(|event| texts.push(event));
        }
        Ok(texts.into_generated())
    }

    /// One request's events as they come. Other requests go on beside it until it ends, and their events are dropped.
    pub fn stream(mut self, prompt: &[u32], params: SamplingParams) -> Result<Stream<'a, M>, GenerateError> {
        let request = self.add(prompt, params)?;
        Ok(Stream { generator: self, request, events: Vec::new().into_iter() })
    }
}

impl Timings {
    /// A pass that read and wrote so many positions, and judged so many guesses.
    fn count(&mut self, time: Duration, read: usize, written: usize, guesses: usize) {
        let share = time.mul_f64(read as f64 / (read + written + guesses).max(1) as f64);
        self.prompt_tokens += read;
        self.output_tokens += written;
        self.prompt_time += share;
        self.output_time += time.saturating_sub(share);
    }
}

/// The events of one request.
pub struct Stream<'a, M: LanguageModel> {
    generator: Generator<'a, M>,
    request: RequestId,
    events: std::vec::IntoIter<Event>,
}

impl<'a, M: LanguageModel> Stream<'a, M> {
    /// Which request.
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// The generator: its timings, and what it still has to read.
    pub fn generator(&self) -> &Generator<'a, M> {
        &self.generator
    }
}

impl<M: LanguageModel> Iterator for Stream<'_, M> {
    type Item = Result<Event, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(event) = self.events.find(|event| event.request == self.request) {
                return Some(Ok(event));
            }
            if !self.generator.writers.iter().any(|writer| writer.request == self.request) {
                return None;
            }
            match self.generator.step() {
                Ok(events) => self.events = events.into_iter(),
                Err(error) => {
                    self.generator.cancel(self.request);
                    return Some(Err(error));
                }
            }
        }
    }
}

/// What happened, and the texts that go on.
type Drawn<'a, M> = (Vec<Event>, Vec<Writer<'a, M>>);

/// What a text brings into a pass.
#[derive(Clone, Copy)]
struct Take {
    tokens: usize,
    is_writing: bool,
}

/// The key of a sampler in the batch.
type SamplerId = SequenceId;
