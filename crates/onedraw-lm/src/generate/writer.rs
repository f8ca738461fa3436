//! One text that is being written: what the model has read of it, and what of it was shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use onedraw::{
    Batch, Constraint, ConstraintError, Finish, PromptLogprobs, RowError, Rows, Sampled, SequenceId,
    StopConditions, StopMatcher, Utf8Stream,
};

use crate::draft::{AnyMemory, Text};
use crate::generate::event::{Event, RequestId};
use crate::model::{LanguageModel, Sequence, Vocabulary};

/// What a text contributes to a pass.
#[derive(Clone, Copy)]
pub(super) struct PassShare {
    /// How many of its pending tokens.
    pub tokens: usize,
    /// Whether it has read its prompt and is being written.
    pub is_writing: bool,
}

/// A text and its sampler. Until the prompt is read, the texts of a request are branches of one writer.
pub(super) struct Branch {
    pub sample: usize,
    pub sampler: SequenceId,
    matcher: StopMatcher,
    utf8: Utf8Stream,
    constraint: Option<Box<dyn Constraint>>,
    /// How many tokens it may have.
    longest: usize,
    /// Whether tokens that the constraint forces are taken without a draw. Not after text was taken back,
    /// because the same text would be written again.
    forces: bool,
    /// The tokens that the request gave, by their positions in the output.
    chosen: BTreeMap<usize, u32>,
    /// The logprobs of the prompt, until the first event takes them.
    prompt_logprobs: Option<Arc<PromptLogprobs>>,
}

impl Branch {
    pub(super) fn new(
        sample: usize,
        sampler: SequenceId,
        conditions: Arc<StopConditions>,
        constraint: Option<Box<dyn Constraint>>,
        longest: usize,
        chosen: BTreeMap<usize, u32>,
    ) -> Self {
        Self {
            sample,
            sampler,
            matcher: StopMatcher::new(conditions),
            utf8: Utf8Stream::default(),
            constraint,
            longest,
            forces: true,
            chosen,
            prompt_logprobs: None,
        }
    }
}

/// What the model remembers of a text, and the branches that continue from there.
pub(super) struct Writer<M: LanguageModel> {
    pub request: RequestId,
    pub memory: M::Sequence,
    /// What the drafter remembers, if it is to guess what comes next.
    pub draft_memory: Option<AnyMemory>,
    /// Tokens that the model has not read: the rest of the prompt, or the tokens drawn or forced last.
    pub pending: Vec<u32>,
    /// All tokens so far, including the pending ones.
    pub tokens: Vec<u32>,
    /// Whether the model has read the whole prompt.
    has_read: bool,
    /// How many tokens there were before the first draw.
    start: usize,
    /// How many of these count as output, because the parameters gave them.
    given: usize,
    /// The logprobs of the prompt so far, if they are wanted.
    prompt_logprobs: Option<PromptLogprobs>,
    pub branches: Vec<Branch>,
}

impl<M: LanguageModel> Writer<M> {
    pub(super) fn new(
        request: RequestId,
        memory: M::Sequence,
        draft_memory: Option<AnyMemory>,
        pending: Vec<u32>,
        given: usize,
        prompt_logprobs: Option<PromptLogprobs>,
        branches: Vec<Branch>,
    ) -> Self {
        let (tokens, start) = (pending.clone(), pending.len());
        Self {
            request,
            memory,
            draft_memory,
            pending,
            tokens,
            has_read: false,
            start,
            given,
            prompt_logprobs,
            branches,
        }
    }

    /// Whether the model has read the prompt, and the text is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.has_read
    }

    /// Whether no token has been written yet.
    pub(super) fn begins(&self) -> bool {
        self.tokens.len() == self.start
    }

    /// How many tokens of the prompt the model has not read.
    pub(super) fn unread(&self) -> usize {
        if self.has_read { 0 } else { self.pending.len() }
    }

    /// Whether the logits of every position are wanted, for the logprobs of the prompt.
    pub(super) fn wants_prompt_logprobs(&self) -> bool {
        self.prompt_logprobs.is_some()
    }

    /// Takes the prompt's logprobs, if they are wanted, from the logits after the first pending tokens.
    /// Returns the logits after the last of these.
    pub(super) fn collect_prompt_logprobs(
        &mut self,
        mut logits: Vec<f32>,
        vocabulary: usize,
        batch: &mut Batch,
    ) -> Vec<f32> {
        let Some(logprobs) = &mut self.prompt_logprobs else { return logits };
        let count = logits.len() / vocabulary.max(1);
        if let Some(rows) = Rows::new(&logits, count, vocabulary, vocabulary) {
            let next = self.tokens.len() - self.pending.len() + 1;
            let found = batch.prompt_logprobs(self.branches[0].sampler, next, rows);
            logprobs.extend(found.into_iter().map(|found| found.map(Some)));
        }
        logits.split_off(logits.len().saturating_sub(vocabulary))
    }

    /// Marks this many of the pending tokens as read by the model.
    pub(super) fn read(&mut self, tokens: usize) {
        self.pending.drain(..tokens.min(self.pending.len()));
    }

    /// A writer for each branch. The last one goes on with what was read, the others with copies: most texts have one
    /// branch, and what a drafter remembers grows with the text.
    pub(super) fn split(mut self) -> Vec<Self> {
        let mut branches = std::mem::take(&mut self.branches);
        if let Some(logprobs) = self.prompt_logprobs.take().map(Arc::new) {
            branches.iter_mut().for_each(|branch| branch.prompt_logprobs = Some(logprobs.clone()));
        }
        let Some(last) = branches.pop() else { return Vec::new() };
        let copy = |branch| Self {
            request: self.request,
            memory: self.memory.clone(),
            draft_memory: self.draft_memory.clone(),
            pending: Vec::new(),
            tokens: self.tokens.clone(),
            has_read: true,
            start: self.start,
            given: self.given,
            prompt_logprobs: None,
            branches: vec![branch],
        };
        let mut writers: Vec<Self> = branches.into_iter().map(copy).collect();
        writers.push(Self { pending: Vec::new(), has_read: true, branches: vec![last], ..self });
        writers
    }

    /// The text as the drafter sees it, with what it remembers.
    pub(super) fn text_to_guess(&mut self) -> Option<(&mut AnyMemory, Text<'_, M>)> {
        let [branch] = &mut self.branches[..] else { return None };
        let written = self.tokens.len() - (self.start - self.given);
        let room = branch.longest.saturating_sub(written);
        // A guess is never verified where the token is given.
        let drawn = branch.chosen.range(written..).next().map_or(room, |(position, _)| position - written);
        let text = Text {
            memory: &mut self.memory,
            tokens: &self.tokens,
            unread: self.pending.len(),
            sampler: branch.sampler,
            constraint: branch.constraint.as_deref_mut(),
            room: room.min(drawn),
        };
        Some((self.draft_memory.as_mut()?, text))
    }

    /// The constraint of the only branch.
    pub(super) fn constraint(&mut self) -> Option<&mut dyn Constraint> {
        match &mut self.branches[0].constraint {
            Some(constraint) => Some(constraint.as_mut()),
            None => None,
        }
    }

    /// The last event of every branch when the caller ends the text, with what was held back.
    pub(super) fn end(&mut self) -> Vec<Event> {
        let request = self.request;
        self.branches
            .iter_mut()
            .map(|branch| Event { text: branch.rest(), ..branch.event(request) })
            .collect()
    }

    /// Whether its only branch may have no token at all.
    pub(super) fn may_write_nothing(&self) -> bool {
        self.branches[0].longest == 0
    }

    /// The only event of a text that may have no token.
    pub(super) fn end_by_length(&mut self) -> Event {
        let request = self.request;
        Event { finish: Some(Finish::Length), ..self.branches[0].event(request) }
    }

    /// The sampler of the only branch.
    pub(super) fn sampler(&self) -> SequenceId {
        self.branches[0].sampler
    }

    /// The mask of the tokens that the constraint allows next.
    pub(super) fn mask(&mut self) -> Result<Option<&[u32]>, RowError> {
        let mask = self.branches[0].constraint.as_mut().map(|constraint| constraint.mask());
        mask.transpose().map_err(ConstraintError::of_row)
    }

    /// Appends the tokens that the constraint forces, until the text ends.
    pub(super) fn take_forced(
        &mut self,
        vocabulary: &dyn Vocabulary,
        batch: &mut Batch,
        context: usize,
    ) -> Vec<Event> {
        let branch = &mut self.branches[0];
        let forced = match branch
            .constraint
            .as_mut()
            .filter(|_| branch.forces)
            .map(|constraint| constraint.forced())
        {
            None => return Vec::new(),
            Some(Ok(tokens)) => tokens,
            Some(Err(error)) => {
                return vec![Event {
                    error: Some(error.of_row()),
                    text: branch.rest(),
                    ..branch.event(self.request)
                }];
            }
        };
        let mut events: Vec<Event> = Vec::new();
        // A token that ends the text is drawn instead, because a minimum length may forbid it.
        for token in forced.into_iter().take_while(|&token| !vocabulary.bytes(token).is_empty()) {
            // The constraint is asked about a given token before it is taken.
            if self.chosen(batch).is_some() {
                break;
            }
            events.push(self.take_undrawn(token, vocabulary, batch, context));
            if events.last().is_some_and(|event| event.is_last() || event.taken_back > 0) {
                break;
            }
        }
        events
    }

    /// The token that the request gave for the next position.
    pub(super) fn chosen(&self, batch: &Batch) -> Option<u32> {
        let branch = &self.branches[0];
        branch.chosen.get(&batch.output(branch.sampler)?.len()).copied()
    }

    /// Appends a token that was not drawn.
    pub(super) fn take_undrawn(
        &mut self,
        token: u32,
        vocabulary: &dyn Vocabulary,
        batch: &mut Batch,
        context: usize,
    ) -> Event {
        let Branch { sample, sampler, .. } = self.branches[0];
        let sampled = Sampled {
            token,
            seed: batch.seed(sampler).unwrap_or(0),
            position: batch.output(sampler).map_or(0, |output| output.len() as u32),
            sequence: sample as u32,
            probability: None,
            logprob: None,
            rank: None,
            logprobs: Vec::new(),
            mirostat_mu: None,
            kept: None,
        };
        batch.accept(sampler, token);
        Event { is_forced: true, ..self.take(Ok(sampled), vocabulary, batch, context) }
    }

    /// Appends the token that was drawn, or ends the text if none could be.
    pub(super) fn take(
        &mut self,
        drawn: Result<Sampled, RowError>,
        vocabulary: &dyn Vocabulary,
        batch: &mut Batch,
        context: usize,
    ) -> Event {
        let branch = &mut self.branches[0];
        let mut event = branch.event(self.request);
        let sampled = match drawn {
            Ok(sampled) => sampled,
            Err(error) => {
                event.text = branch.rest();
                event.error = Some(error);
                return event;
            }
        };
        let progress = branch.matcher.push(sampled.token, vocabulary.bytes(sampled.token));
        event.text = branch.utf8.push(progress.text).to_owned();
        event.finish = progress.finish;
        self.tokens.push(sampled.token);
        match progress.rewind {
            Some(rewind) => {
                batch.take_back(branch.sampler, &rewind);
                // The output that was given with the request is part of `start`.
                let length = self.start - self.given + rewind.length;
                event.taken_back = self.tokens.len() - length;
                self.tokens.truncate(length);
                branch.forces = false;
                branch.chosen.retain(|&position, _| position < rewind.length);
                // The constraint has not seen the token that was drawn last.
                let known = event.taken_back - 1;
                if let Err(error) =
                    branch.constraint.as_mut().map_or(Ok(()), |constraint| constraint.rollback(known))
                {
                    event.error = Some(error.of_row());
                }
                // The model reads the last token that stays again, for the logits after it.
                self.memory.cut(length - 1);
                self.pending = self.tokens[length - 1..].to_vec();
            }
            None => {
                self.pending.push(sampled.token);
                if event.finish.is_none()
                    && let Some(constraint) = &mut branch.constraint
                    && let Err(error) = constraint.accept(sampled.token)
                {
                    event.error = Some(error.of_row());
                }
            }
        }
        event.sampled = Some(sampled);
        // Counted in tokens: after guesses were accepted, the memory may hold more than were taken so far.
        if event.finish.is_none() && self.tokens.len() > context {
            event.finish = Some(Finish::Length);
            event.text += &branch.rest();
        } else if event.finish.is_some() {
            event.text += branch.utf8.finish();
        }
        event
    }

    /// Goes on after a token was taken: appends what the constraint forces after it. Returns the events, and
    /// the writer unless the text has ended.
    pub(super) fn go_on(
        mut self,
        event: Event,
        vocabulary: &dyn Vocabulary,
        batch: &mut Batch,
        context: usize,
    ) -> (Vec<Event>, Option<Self>) {
        let goes_on = !event.is_last() && event.taken_back == 0;
        let mut events = vec![event];
        if goes_on {
            events.extend(self.take_forced(vocabulary, batch, context));
        }
        if events.last().is_some_and(Event::is_last) {
            batch.remove(self.sampler());
            return (events, None);
        }
        (events, Some(self))
    }
}

impl Branch {
    /// An event without a token.
    fn event(&mut self, request: RequestId) -> Event {
        Event {
            request,
            sample: self.sample,
            sampled: None,
            is_forced: false,
            taken_back: 0,
            text: String::new(),
            finish: None,
            error: None,
            prompt_logprobs: self.prompt_logprobs.take(),
        }
    }

    /// The text that was held back, when the text ends for another reason than its stop conditions.
    fn rest(&mut self) -> String {
        let mut rest = self.utf8.push(self.matcher.finish()).to_owned();
        rest += self.utf8.finish();
        rest
    }
}
