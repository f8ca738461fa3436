//! The generator and its requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use onedraw::{Batch, Constraint, Kernel, SamplingParams, StopConditions};

use crate::draft::{AnyDrafter, Drafter, Guessed, PassLog, Speculation, Speculator};
use crate::error::ModelError;
use crate::generate::error::GenerateError;
use crate::generate::event::{Event, RequestId};
use crate::generate::seen::Seen;
use crate::generate::tracer::Tracer;
use crate::generate::writer::{Branch, Writer};
use crate::model::{CHUNK, LanguageModel, Vocabulary};
use crate::words::to_tokens;

/// How long each part of the work took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timings {
    /// How many tokens of prompts went through the model.
    pub prompt_tokens: usize,
    /// The time for these. A pass that reads prompts and writes texts is divided by its positions.
    pub prompt_time: Duration,
    /// How many drawn tokens went through the model.
    pub output_tokens: usize,
    /// The time for these, including the guesses that were verified.
    pub output_time: Duration,
    /// The time for the draws.
    pub sampling_time: Duration,
    /// The time for making guesses. The passes that verify them count as output.
    pub draft_time: Duration,
}

/// Writes any number of texts side by side.
pub struct Generator<'a, M: LanguageModel> {
    pub(super) model: &'a M,
    pub(super) vocabulary: &'a dyn Vocabulary,
    pub(super) batch: Batch,
    pub(super) writers: Vec<Writer<M>>,
    pub(super) speculator: Option<Speculator<'a, M>>,
    pub(super) tracer: Option<Tracer<'a>>,
    /// What was seen since it was last taken, if somebody watches.
    pub(super) seen: Option<Vec<Seen>>,
    next_request: u64,
    /// How many tokens of prompts a pass takes at most.
    pub(super) chunk: usize,
    pub(super) timings: Timings,
}

impl<'a, M: LanguageModel> Generator<'a, M> {
    /// A generator without requests.
    pub fn new(model: &'a M, vocabulary: &'a dyn Vocabulary) -> Self {
        Self {
            model,
            vocabulary,
            batch: Batch::new().threads(1),
            writers: Vec::new(),
            speculator: None,
            tracer: None,
            seen: None,
            next_request: 0,
            chunk: CHUNK,
            timings: Timings::default(),
        }
    }

    /// Sets how many tokens of prompts a pass takes at most. Smaller parts let other texts wait less. No
    /// token depends on it.
    pub fn chunk(mut self, positions: usize) -> Self {
        self.chunk = positions.max(1);
        self
    }

    /// Draws with this instruction set. No token depends on it.
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.batch = self.batch.kernel(kernel);
        self
    }

    /// Adds a request for `params.n` texts after a prompt of at least one token. The prompt becomes the
    /// `prompt_token_ids` of the parameters.
    pub fn add(&mut self, prompt: &[u32], params: SamplingParams) -> Result<RequestId, GenerateError> {
        self.add_chosen(prompt, params, &BTreeMap::new(), None)
    }

    /// As [`add`](Self::add), for texts that a constraint allows. Tokens that it forces are not drawn, so
    /// they have no logprobs.
    pub fn add_constrained(
        &mut self,
        prompt: &[u32],
        params: SamplingParams,
        constraint: &dyn Constraint,
    ) -> Result<RequestId, GenerateError> {
        self.add_chosen(prompt, params, &BTreeMap::new(), Some(constraint))
    }

    /// As [`add_constrained`](Self::add_constrained), for texts with given tokens at these positions, which
    /// count the output from 0. All others are drawn as ever, so a text branches off from another one at the
    /// first token that differs. Mirostat learns nothing from a given token. Where text is taken back, the
    /// tokens that were given from there on are drawn instead.
    pub fn add_chosen(
        &mut self,
        prompt: &[u32],
        mut params: SamplingParams,
        chosen: &BTreeMap<usize, u32>,
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
        if let Some((position, token)) = chosen.iter().find(|&(_, &token)| token as usize >= vocabulary) {
            return wrong(format!(
                "token {token}, given for position {position}, is outside the vocabulary of {vocabulary}"
            ));
        }
        to_tokens(&mut params, self.vocabulary)?;
        params.prompt_token_ids = prompt.to_vec();
        let pending = [prompt, &params.output_token_ids].concat();
        let given = params.output_token_ids.len();
        let prompt_logprobs = params.prompt_logprobs.map(|_| vec![Ok(None)]);
        let longest = params.max_tokens as usize;
        let conditions = Arc::new(StopConditions::new(&params)?);
        let traced = self.tracer.is_some().then(|| params.clone());
        let ids = self.batch.add_all(params)?;
        if let Err(error) = ids.iter().try_for_each(|&id| self.batch.check_vocabulary(id, vocabulary)) {
            for id in ids {
                self.batch.remove(id);
            }
            return Err(GenerateError::Row(error));
        }
        let request = RequestId(self.next_request);
        self.next_request += 1;
        if let (Some(tracer), Some(params)) = (&mut self.tracer, traced) {
            let seed = ids.first().and_then(|&id| self.batch.seed(id));
            let verify = self.speculator.as_ref().map(|speculator| speculator.settings.verify);
            let is_given = !chosen.is_empty();
            tracer.begin(request, SamplingParams { seed, ..params }, constraint, is_given, verify);
        }
        let branches = ids.into_iter().enumerate().map(|(sample, id)| {
            let constraint = constraint.map(|constraint| constraint.fork());
            Branch::new(sample, id, conditions.clone(), constraint, longest, chosen.clone())
        });
        self.writers.push(Writer::new(
            request,
            self.model.start(),
            self.speculator.as_ref().map(Speculator::start),
            pending,
            given,
            prompt_logprobs,
            branches.collect(),
        ));
        Ok(request)
    }

    /// Ends a request. Each of its texts that has not ended gets one last event, with the text that was held
    /// back and without a token. Without such a request there are no events.
    pub fn cancel(&mut self, request: RequestId) -> Vec<Event> {
        self.end(|writer| writer.request == request)
    }

    /// Ends all requests, as [`cancel`](Self::cancel) does.
    pub fn cancel_all(&mut self) -> Vec<Event> {
        self.end(|_| true)
    }

    fn end(&mut self, which: impl Fn(&Writer<M>) -> bool) -> Vec<Event> {
        let mut events = Vec::new();
        for mut writer in self.writers.extract_if(.., |writer| which(writer)) {
            events.extend(writer.end());
            for branch in &writer.branches {
                self.batch.remove(branch.sampler);
            }
        }
        if let Some(tracer) = &mut self.tracer {
            events.iter().for_each(|event| tracer.end(event));
        }
        events
    }

    /// Writes a line for each text of the requests that are added from now on, once it has ended.
    pub fn trace(mut self, tracer: Tracer<'a>) -> Self {
        self.tracer = Some(tracer);
        self
    }

    /// Brings the lines of the trace so far to where they are written. An error if one of them could not be
    /// written.
    pub fn flush_trace(&mut self) -> Result<(), GenerateError> {
        self.tracer.as_mut().map_or(Ok(()), Tracer::flush).map_err(GenerateError::Trace)
    }

    /// Collects what passes do besides their events, for [`take_seen`](Self::take_seen). Each token then costs
    /// a copy of its row.
    pub fn watched(mut self) -> Self {
        self.seen = Some(Vec::new());
        self
    }

    /// What was seen since the last call, in the order of the tokens of each text. Empty if nobody
    /// [watches](Self::watched).
    pub fn take_seen(&mut self) -> Vec<Seen> {
        self.seen.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Lets a drafter guess for the requests that are added from now on.
    pub fn speculate(
        mut self,
        drafter: impl Drafter<M> + 'a,
        speculation: Speculation,
    ) -> Result<Self, ModelError> {
        self.speculator = Some(Speculator::new(AnyDrafter::new(drafter), speculation, self.model)?);
        // The drafter before this one is gone, and so is what it remembered.
        self.writers.iter_mut().for_each(|writer| writer.draft_memory = None);
        Ok(self)
    }

    /// Keeps a log of what the policy of the speculation decides, for [`speculation_log`](Self::speculation_log).
    pub fn log_speculation(mut self) -> Self {
        if let Some(speculator) = &mut self.speculator {
            speculator.log = Some(Vec::new());
        }
        self
    }

    /// The passes so far. Empty where no [log is kept](Self::log_speculation).
    pub fn speculation_log(&self) -> &[PassLog] {
        self.speculator.as_ref().and_then(|speculator| speculator.log.as_deref()).unwrap_or_default()
    }

    /// Changes the settings of the speculation from now on.
    pub(crate) fn set_speculation(&mut self, speculation: Speculation) -> Result<(), ModelError> {
        if let Some(speculator) = &mut self.speculator {
            speculation.check(self.model.context())?;
            speculator.settings = speculation;
        }
        Ok(())
    }

    /// What became of the guesses so far; `None` without a drafter.
    pub fn guessed(&self) -> Option<&Guessed> {
        self.speculator.as_ref().map(|speculator| &speculator.guessed)
    }

    /// Whether all texts have ended.
    pub fn is_done(&self) -> bool {
        self.writers.is_empty()
    }

    /// How many tokens of prompts the model has still to read.
    pub fn waiting(&self) -> usize {
        self.writers.iter().map(|writer| writer.unread()).sum()
    }

    /// How long each part of the work took so far.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// The seed of a request's texts.
    pub fn seed(&self, request: RequestId) -> Option<u64> {
        let writer = self.writers.iter().find(|writer| writer.request == request)?;
        self.batch.seed(writer.branches.first()?.sampler)
    }
}

impl Timings {
    /// Adds a pass with this many tokens of prompts, drawn tokens, and guesses.
    pub(super) fn add_pass(&mut self, time: Duration, read: usize, written: usize, guesses: usize) {
        let share = time.mul_f64(read as f64 / (read + written + guesses).max(1) as f64);
        self.prompt_tokens += read;
        self.output_tokens += written;
        self.prompt_time += share;
        self.output_time += time.saturating_sub(share);
    }
}
