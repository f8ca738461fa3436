//! Whole texts, assembled from their events.

use std::collections::BTreeMap;
use std::sync::Arc;

use onedraw::{FinishReason, PromptLogprobs, RowError, Sampled};

use crate::generate::event::{Event, RequestId};

/// A text that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The request.
    pub request: RequestId,
    /// Which of its `n` texts.
    pub sample: usize,
    /// The text, without the prompt.
    pub text: String,
    /// Its tokens, with their logprobs if these were asked for.
    pub tokens: Vec<Sampled>,
    /// Why it ended; `None` if it has not ended, or if no token could be drawn.
    pub finish: Option<FinishReason>,
    /// Why no token could be drawn.
    pub error: Option<RowError>,
    /// The logprobs of the prompt, if these were asked for.
    pub prompt_logprobs: Option<Arc<PromptLogprobs>>,
}

/// Texts that are being assembled.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    texts: BTreeMap<(RequestId, usize), Generated>,
}

impl Texts {
    /// Adds the next event.
    pub fn push(&mut self, event: Event) {
        let Event {
            request, sample, sampled, taken_back, text: piece, finish, error, prompt_logprobs, ..
        } = event;
        let text = self.texts.entry((request, sample)).or_insert_with(|| Generated {
            request,
            sample,
            text: String::new(),
            tokens: Vec::new(),
            finish: None,
            error: None,
            prompt_logprobs: None,
        });
        if prompt_logprobs.is_some() {
            text.prompt_logprobs = prompt_logprobs;
        }
        text.text += &piece;
        text.tokens.extend(sampled);
        text.tokens.truncate(text.tokens.len().saturating_sub(taken_back));
        text.finish = finish.map(|finish| finish.reason());
        text.error = error;
    }

    /// The texts so far, ordered by request and sample.
    pub fn into_generated(self) -> Vec<Generated> {
        self.texts.into_values().collect()
    }
}
