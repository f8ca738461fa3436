//! One text on its way: what the model has read of it, and what of it was shown.

use std::sync::Arc;

use onedraw::{
    Batch, Constraint, ConstraintError, Finish, PromptLogprobs, RowError, Rows, Sampled, StopConditions,
    StopMatcher, Utf8Stream,
};

use crate::generate::{Event, RequestId, SamplerId};
use crate::model::{LanguageModel, Sequence, Vocabulary};
use crate::speculate::{Drafter, Text};

/// A text and its sampler. Until the prompt is read, the texts of a request are branches of one writer.
pub(super) struct Branch {
    pub sample: usize,
    pub sampler: SamplerId,
    matcher: StopMatcher,
    utf8: Utf8Stream,
    constraint: Option<Box<dyn Constraint>>,
    /// Tokens that it may have.
    longest: usize,
    /// Whether what the constraint forces is taken without a draw: not after text was taken back, for it would be written again.
    forces: bool,
    /// The prompt's logprobs, until its first event takes them along.
    prompt_logprobs: Option<Arc<PromptLogprobs>>,
}

impl Branch {
    pub(super) fn new(
        sample: usize,
        sampler: SamplerId,
        conditions: Arc<StopConditions>,
        constraint: Option<Box<dyn Constraint>>,
        longest: usize,
    ) -> Self {
        Self {
            sample,
            sampler,
            matcher: StopMatcher::new(conditions),
            utf8: Utf8Stream::default(),
            constraint,
            longest,
            forces: true,
            prompt_logprobs: None,
        }
    }
}

/// What the model remembers, and the texts that go on from there.
pub(super) struct Writer<'a, M: LanguageModel> {
    pub request: RequestId,
    pub memory: M::Sequence,
    /// Who guesses what comes next.
    pub drafter: Option<Box<dyn Drafter<'a, M> + 'a>>,
    /// Tokens that have not been through the model: what is left of the prompt, or the token drawn last.
    pub pending: Vec<u32>,
    /// All tokens up to here, those that are pending too: what a rewind goes back over.
    pub tokens: Vec<u32>,
    /// Whether the model has read the prompt, once.
    has_read: bool,
    /// How many of the tokens were there before the first draw, and how many of these count as output.
    start: usize,
    given: usize,
    /// The logprobs of the prompt so far, if they are wanted.
    reports: Option<PromptLogprobs>,
    pub branches: Vec<Branch>,
}

impl<'a, M: LanguageModel> Writer<'a, M> {
    pub(super) fn new(
        request: RequestId,
        memory: M::Sequence,
        drafter: Option<Box<dyn Drafter<'a, M> + 'a>>,
        pending: Vec<u32>,
        given: usize,
        reports: Option<PromptLogprobs>,
        branches: Vec<Branch>,
    ) -> Self {
        let (tokens, start) = (pending.clone(), pending.len());
        Self { request, memory, drafter, pending, tokens, has_read: false, start, given, reports, branches }
    }

    /// Whether the prompt has been read.
    pub(super) fn is_writing(&self) -> bool {
        self.has_read
    }

    /// Whether nothing has been written yet.
    pub(super) fn begins(&self) -> bool {
        self.tokens.len() == self.start
    }

    /// Tokens of the prompt that the model has not read.
    pub(super) fn unread(&self) -> usize {
        if self.has_read { 0 } else { self.pending.len() }
    }

    /// Whether the logits of every position are wanted, for the logprobs of the prompt.
    pub(super) fn reports_prompt(&self) -> bool {
        self.reports.is_some()
    }

    /// Looks at what the model says after the first pending tokens. What comes back is the logits after the last of them.
    pub(super) fn report(&mut self, mut logits: Vec<f32>, vocabulary: usize, batch: &mut Batch) -> Vec<f32> {
        let Some(reports) = &mut self.reports else { return logits };
        let count = logits.len() / vocabulary.max(1);
        if let Some(rows) = Rows::new(&logits, count, vocabulary, vocabulary) {
            let next = self.tokens.len() - self.pending.len() + 1;
            let found = batch.prompt_logprobs(self.branches[0].sampler, next, rows);
            reports.extend(found.into_iter().map(|report| report.map(Some)));
        }
        logits.split_off(logits.len().saturating_sub(vocabulary))
    }

    /// The model has read so many of the pending tokens.
    pub(super) fn read(&mut self, tokens: usize) {
        self.pending.drain(..tokens.min(self.pending.len()));
    }

    /// A writer for each branch.
    pub(super) fn split(mut self) -> Vec<Self> {
        let mut branches = std::mem::take(&mut self.branches);
        if let Some(reports) = self.reports.take().map(Arc::new) {
            branches.iter_mut().for_each(|branch| branch.prompt_logprobs = Some(reports.clone()));
        }
        let writer = |branch| Self {
            request: self.request,
            memory: self.memory.clone(),
            drafter: self.drafter.as_ref().map(|drafter| drafter.fork()),
            pending: Vec::new(),
            tokens: self.tokens.clone(),
            has_read: true,
            start: self.start,
            given: self.given,
            reports: None,
            branches: vec![branch],
        };
        branches.into_iter().map(writer).collect()
    }

    /// The text, for its drafter: of a pass that has so many positions without guesses, and with those of other texts.
    pub(super) fn ahead(
        &mut self,
        plain: usize,
        positions: usize,
    ) -> Option<(&mut (dyn Drafter<'a, M> + 'a), Text<'_, M>)> {
        let [branch] = &mut self.branches[..] else { return None };
        let written = self.tokens.len() - (self.start - self.given);
        let text = Text {
            memory: &mut self.memory,
            tokens: &self.tokens,
            unread: self.pending.len(),
            sampler: branch.sampler,
            constraint: branch.constraint.as_deref_mut(),
            room: branch.longest.saturating_sub(written),
            plain,
            positions,
        };
        Some((self.drafter.as_deref_mut()?, text))
    }

    /// The constraint of the only branch.
    pub(super) fn constraint(&mut self) -> Option<&mut dyn Constraint> {
        match &mut self.branches[0].constraint {
            Some(constraint) => Some(constraint.as_mut()),
            None => None,
        }
    }

    /// The last event of every branch, when the text is ended from outside: what was held back.
    pub(super) fn end(&mut self) -> Vec<Event> {
        let request = self.request;
        self.branches
            .iter_mut()
            .map(|branch| Event { text: branch.rest(), ..branch.event(request) })
            .collect()
    }

    /// The sampler of the only branch.
    pub(super) fn sampler(&self) -> SamplerId {
        self.branches[0].sampler
    }

    /// What the constraint allows next.
    pub(super) fn mask(&mut self) -> Result<Option<&[u32]>, RowError> {
        let mask = self.branches[0].constraint.as_mut().map(|constraint| constraint.mask());
        mask.transpose().map_err(ConstraintError::of_row)
    }

    /// Takes the tokens that the constraint forces, as far as the text goes on.
    pub(super) fn take_forced(
        &mut self,
        vocabulary: &dyn Vocabulary,
        batch: &mut Batch,
        context: usize,
    ) -> Vec<Event> {
        let branch = &mut self.branches[0];
        let sampler = branch.sampler;
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
        // A token that ends the text is drawn: a minimum length may forbid it.
        for token in forced.into_iter().take_while(|&token| !vocabulary.bytes(token).is_empty()) {
            let position = batch.output(sampler).map_or(0, |output| output.len() as u32);
            let sampled = Sampled {
                token,
                seed: batch.seed(sampler).unwrap_or(0),
                position,
                sequence: self.branches[0].sample as u32,
                probability: None,
                logprob: None,
                rank: None,
                logprobs: Vec::new(),
                mirostat_mu: None,
            };
            batch.accept(sampler, token);
            events.push(self.take(Ok(sampled), vocabulary, batch, context));
            if events.last().is_some_and(|event| event.is_last() || event.taken_back > 0) {
                break;
            }
        }
        events
    }

    /// Takes the token that was drawn.
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
                // The tokens of the output that were given came with the prompt.
                let length = self.start - self.given + rewind.length;
                event.taken_back = self.tokens.len() - length;
                self.tokens.truncate(length);
                branch.forces = false;
                // The token that was drawn last is not known to the constraint yet.
                let known = event.taken_back - 1;
                if let Err(error) =
                    branch.constraint.as_mut().map_or(Ok(()), |constraint| constraint.rollback(known))
                {
                    event.error = Some(error.of_row());
                }
                // The model reads the last token again, for the logits after it.
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
        // The memory may hold tokens that are yet to be taken, after guesses that held.
        if event.finish.is_none() && self.tokens.len() > context {
            event.finish = Some(Finish::Length);
            event.text += &branch.rest();
        } else if event.finish.is_some() {
            event.text += branch.utf8.finish();
        }
        event
    }
}

impl Branch {
    /// An event in which nothing has happened yet.
    fn event(&mut self, request: RequestId) -> Event {
        Event {
            request,
            sample: self.sample,
            sampled: None,
            taken_back: 0,
            text: String::new(),
            finish: None,
            error: None,
            prompt_logprobs: self.prompt_logprobs.take(),
        }
    }

    /// What was held back, when the text ends from outside.
    fn rest(&mut self) -> String {
        let mut rest = self.utf8.push(self.matcher.finish()).to_owned();
        rest += self.utf8.finish();
        rest
    }
}
