//! What the decode loop tells its caller, token by token.

use std::sync::Arc;

use onedraw::{Finish, PromptLogprobs, RowError, Sampled};

/// Names one request: a prompt, and the `n` texts that follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// One token of one text, and what followed from it.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The request.
    pub request: RequestId,
    /// Which of its `n` texts.
    pub sample: usize,
    /// The token, with its logprobs if they were asked for; `None` if none could be drawn.
    pub sampled: Option<Sampled>,
    /// Whether a constraint forced the token, or the request gave it, so that it was not drawn.
    pub is_forced: bool,
    /// How many of the last tokens, including this one, were taken back because of a banned phrase.
    pub taken_back: usize,
    /// The text to show now, after what was shown before: whole characters, and none that is taken back
    /// later.
    pub text: String,
    /// Set if the text ended.
    pub finish: Option<Finish>,
    /// Set if no token could be drawn, which also ends the text.
    pub error: Option<RowError>,
    /// The logprobs of the prompt, with the first token of a text, if the parameters ask for them.
    pub prompt_logprobs: Option<Arc<PromptLogprobs>>,
}

impl Event {
    /// Whether this is the last event of its text.
    pub fn is_last(&self) -> bool {
        self.finish.is_some() || self.error.is_some()
    }
}
