//! Pieces of an answer's texts.

use std::collections::VecDeque;
use std::sync::Arc;

use onedraw::{Finish, FinishReason, PromptLogprobs, Sampled, SamplingParams};
use onedraw_lm::Event;
use serde_json::Value;

use crate::failure::Failure;
use crate::model::Model;

/// What is new of one text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Piece {
    /// Which text of the answer.
    pub choice: usize,
    /// Whether it is the first piece of that text.
    pub is_first: bool,
    pub text: String,
    /// Tokens that stay.
    pub tokens: Vec<Sampled>,
    /// Why the text has ended.
    pub end: Option<End>,
    /// The logprobs of the prompt, with the first piece.
    pub prompt_logprobs: Option<Arc<PromptLogprobs>>,
    /// How many letters of the answer stand before its tokens.
    pub letters: usize,
}

/// Why a text has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End(Finish);

impl End {
    /// OpenAI's word for it.
    pub(crate) fn word(self) -> &'static str {
        match self.0.reason() {
            FinishReason::Length => "length",
            FinishReason::Stop | FinishReason::Eos => "stop",
        }
    }

    /// What ended it, where the request named that: a stop string or the id of a token.
    pub(crate) fn cause(self, params: &SamplingParams) -> Value {
        match self.0 {
            Finish::StopToken { token } => token.into(),
            Finish::StopString { index } => params.stop.get(index).cloned().into(),
            Finish::Eos { .. } | Finish::Length => Value::Null,
        }
    }
}

/// One text, as far as it was told.
#[derive(Default)]
struct Text {
    has_begun: bool,
    /// Tokens that were not told, each with the bytes of text up to its end.
    held: VecDeque<(Sampled, usize)>,
    /// The bytes of all tokens, and of what was shown of them.
    bytes: usize,
    shown: usize,
    /// The letters of the tokens that were told, and of the prompt if the answer has it.
    letters: usize,
}

/// Makes pieces of events.
pub(crate) struct Pieces {
    model: Arc<Model>,
    texts: Vec<Text>,
    /// How many texts follow each prompt.
    n: usize,
    /// Whether tokens may be taken back.
    holds: bool,
    /// The tokens that stay, and the texts that have not ended.
    pub(crate) written: usize,
    pub(crate) left: usize,
}

impl Pieces {
    /// For answers to these parameters; `echoed` has the letters that stand before the texts of each prompt.
    pub(crate) fn new(model: Arc<Model>, params: &SamplingParams, echoed: &[usize]) -> Self {
        let n = params.n as usize;
        let text = |&letters: &usize| Text { letters, ..Text::default() };
        let texts: Vec<Text> = echoed.iter().flat_map(|letters| (0..n).map(move |_| text(letters))).collect();
        let left = texts.len();
        Self { model, texts, n, holds: !params.banned_strings.is_empty(), written: 0, left }
    }

    /// Takes the next event of a text after this prompt. An error if the text could not go on.
    pub(crate) fn take(&mut self, prompt: usize, event: Event) -> Result<Piece, Failure> {
        if let Some(error) = &event.error {
            return Err(Failure::row(error));
        }
        let choice = prompt * self.n + event.sample;
        let text = &mut self.texts[choice];
        let is_first = !std::mem::replace(&mut text.has_begun, true);
        if let Some(sampled) = event.sampled {
            text.bytes += self.model.tokenizer.bytes(sampled.token).len();
            text.held.push_back((sampled, text.bytes));
        }
        text.held.truncate(text.held.len().saturating_sub(event.taken_back));
        if event.taken_back > 0 {
            text.bytes = text.held.back().map_or(text.shown, |(_, end)| *end);
        }
        text.shown += least_bytes(&event.text);
        let end = event.finish.map(End);
        let mut tokens = Vec::new();
        // What is shown is never taken back, so a token is told once all of its text is shown.
        while let Some((_, end_of_token)) = text.held.front() {
            if self.holds && end.is_none() && *end_of_token > text.shown {
                break;
            }
            tokens.extend(text.held.pop_front().map(|(sampled, _)| sampled));
        }
        let before = text.letters;
        let tokenizer = &self.model.tokenizer;
        text.letters += tokens.iter().map(|sampled| letters(tokenizer.bytes(sampled.token))).sum::<usize>();
        self.written += tokens.len();
        self.left -= usize::from(end.is_some());
        let prompt_logprobs = event.prompt_logprobs;
        Ok(Piece { choice, is_first, text: event.text, tokens, end, prompt_logprobs, letters: before })
    }
}

/// How many letters begin in these bytes of UTF-8.
pub(super) fn letters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// The least bytes of tokens that a text can stand for: U+FFFD may stand for a single byte.
fn least_bytes(text: &str) -> usize {
    text.chars().map(|letter| if letter == char::REPLACEMENT_CHARACTER { 1 } else { letter.len_utf8() }).sum()
}
