//! Draws to explain: their prompts are read in parts, so that texts go on meanwhile.

use std::time::Instant;

use onedraw::{Explanation, RowError, Sampler};
use onedraw_lm::{Asks, CHUNK, LanguageModel, Llama, Run, Wanted};
use tokio::sync::oneshot;

use super::job::Question;
use crate::failure::Failure;

/// A draw to explain, and what the model has read of its prompt.
pub(super) struct Reading {
    question: Question,
    answer: oneshot::Sender<Result<Explanation, Failure>>,
    memory: <Llama as LanguageModel>::Sequence,
    read: usize,
}

impl Reading {
    pub(super) fn new(
        question: Question,
        answer: oneshot::Sender<Result<Explanation, Failure>>,
        model: &Llama,
    ) -> Self {
        Self { question, answer, memory: model.start(), read: 0 }
    }

    /// Whether nobody waits for the answer.
    pub(super) fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    /// Reads on. Returns `None` once it is answered, or nobody waits for the answer.
    pub(super) fn step(mut self, model: &Llama) -> Option<Self> {
        if self.answer.is_closed() {
            return None;
        }
        if Instant::now() > self.question.deadline.at {
            let failure = self.question.deadline.failure();
            return self.say(Err(failure));
        }
        let prompt = &self.question.prompt;
        let end = prompt.len().min(self.read + CHUNK);
        let logits = if end == prompt.len() { Wanted::Last } else { Wanted::Nothing };
        let asks = Asks { logits, ..Asks::default() };
        let run = Run { asks, ..Run::line(&mut self.memory, &prompt[self.read..end]) };
        let answers = model.forward(&mut [run]);
        self.read = end;
        match answers {
            Err(error) => self.say(Err(Failure::broken(&error.to_string()))),
            Ok(_) if self.read < self.question.prompt.len() => Some(self),
            Ok(answers) => {
                let row = answers.into_iter().next().map(|answer| answer.logits).ok_or(RowError::EmptyRow);
                let explained = row.map_err(|error| Failure::row(&error)).and_then(|row| self.explain(&row));
                self.say(explained)
            }
        }
    }

    fn explain(&self, logits: &[f32]) -> Result<Explanation, Failure> {
        let mut params = self.question.params.clone();
        params.prompt_token_ids.clone_from(&self.question.prompt);
        let mut sampler = Sampler::new(params).map_err(|error| Failure::from(&error))?;
        sampler.explain(logits, self.question.listed).map_err(|error| Failure::row(&error))
    }

    fn say(self, answer: Result<Explanation, Failure>) -> Option<Self> {
        // Nobody waits any more.
        let _ = self.answer.send(answer);
        None
    }

    /// Ends without an answer.
    pub(super) fn fail(self, failure: Failure) {
        self.say(Err(failure));
    }
}
