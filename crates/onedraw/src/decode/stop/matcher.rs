//! Follows one sequence token by token.

use std::sync::Arc;

use super::conditions::StopConditions;
use super::finish::Finish;
use super::phrase::Phrase;
use super::tentative::TentativeTokens;
use crate::state::path::Rewind;

/// Follows one sequence token by token. It says which text to show, when to go back and when the sequence
/// ends.
///
/// Its buffers grow to the longest token plus the longest text held back, plus one state per phrase and
/// string for each token that is held back for a banned phrase. After that a step allocates nothing.
///
/// A clone is independent of the original, so tokens can be tried out on a clone.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    conditions: Arc<StopConditions>,
    /// For each stop string, then for each banned phrase: how many of its first bytes the text ends with.
    states: Vec<usize>,
    /// The `shown` bytes that the last call returned, then the bytes held back.
    text: Vec<u8>,
    shown: usize,
    tentative: TentativeTokens,
    tokens: usize,
    ended: bool,
    finish: Option<Finish>,
}

/// What one token did to the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The bytes to show now, following those shown before.
    pub text: &'a [u8],
    /// Why the sequence ended; `None` if it goes on.
    pub finish: Option<Finish>,
    /// Set if the token completed a banned phrase, so that tokens are taken back, this one included. The
    /// sequence has not ended then, and `text` is empty.
    pub rewind: Option<Rewind>,
}

/// The effect of one token.
enum Effect {
    Continue,
    End(Finish),
    /// The text ends with a banned phrase.
    GoBack {
        /// The phrase's index in the parameters.
        phrase: usize,
        /// Where the phrase begins in the text held back.
        start: usize,
    },
}

impl StopMatcher {
    /// Starts a sequence.
    pub fn new(conditions: impl Into<Arc<StopConditions>>) -> Self {
        let conditions = conditions.into();
        Self {
            states: vec![0; conditions.strings.len() + conditions.banned.len()],
            text: Vec::new(),
            shown: 0,
            tentative: TentativeTokens::default(),
            tokens: conditions.written,
            ended: false,
            finish: None,
            conditions,
        }
    }

    /// Takes the next token and the bytes that it stands for.
    ///
    /// If [`Progress::rewind`] is set, the matcher has already gone back: the next token to push is the newly
    /// drawn one.
    ///
    /// Once the sequence has ended, tokens are ignored: no text is shown, and `finish` repeats how the
    /// sequence ended (`None` after [`StopMatcher::finish`]).
    pub fn push(&mut self, token: u32, bytes: &[u8]) -> Progress<'_> {
        self.text.drain(..self.shown);
        self.shown = 0;
        let mut rewind = None;
        if !self.ended {
            if !self.conditions.banned.is_empty() {
                self.tentative.push(token, self.text.len(), &self.states);
            }
            self.tokens = self.tokens.saturating_add(1);
            match self.advance(token, bytes) {
                Effect::Continue => {}
                Effect::End(finish) => {
                    self.finish = Some(finish);
                    self.ended = true;
                }
                Effect::GoBack { phrase, start } => rewind = Some(self.go_back(phrase, start)),
            }
            self.shown = self.text.len() - self.bytes_to_hold();
        }
        Progress { text: &self.text[..self.shown], finish: self.finish, rewind }
    }

    /// Ends the sequence and returns the bytes still held back. Later tokens are ignored.
    pub fn finish(&mut self) -> &[u8] {
        self.text.drain(..self.shown);
        self.ended = true;
        self.shown = self.text.len();
        &self.text
    }

    /// The bytes that are held back now. They may become a stop string, or be taken back for a banned phrase.
    pub fn held_back(&self) -> &[u8] {
        &self.text[self.shown..]
    }

    /// Appends the token's bytes to the text, up to where something happens, and returns the effect.
    fn advance(&mut self, token: u32, bytes: &[u8]) -> Effect {
        let conditions = &*self.conditions;
        let may_stop = self.tokens > conditions.min_tokens;
        let by_id = if may_stop { conditions.finish_by_id(token) } else { None };
        if let Some(finish) = by_id
            && !conditions.include_stop
        {
            return Effect::End(finish);
        }
        let (stop_states, banned_states) = self.states.split_at_mut(conditions.strings.len());
        for &byte in bytes {
            self.text.push(byte);
            let string = Phrase::first_completed(&conditions.strings, stop_states, byte);
            if let Some(phrase) = Phrase::first_completed(&conditions.banned, banned_states, byte) {
                // The whole phrase is still in the buffer: until now it was the beginning of a banned phrase,
                // so it was held back.
                return Effect::GoBack { phrase: phrase.index, start: self.text.len() - phrase.len() };
            }
            if let Some(string) = string
                && may_stop
                && by_id.is_none()
            {
                if !conditions.include_stop {
                    // The whole match is still in the buffer: until now it was a prefix of a stop string, so
                    // it was held back.
                    self.text.truncate(self.text.len() - string.len());
                }
                return Effect::End(Finish::StopString { index: string.index });
            }
        }
        let by_length = (self.tokens >= conditions.max_tokens).then_some(Finish::Length);
        by_id.or(by_length).map_or(Effect::Continue, Effect::End)
    }

    /// Goes back to before the token that holds the first byte of the phrase.
    fn go_back(&mut self, phrase: usize, start: usize) -> Rewind {
        let taken = self.tentative.take_back(start, &mut self.states);
        self.text.truncate(taken.start);
        self.tokens -= taken.tokens;
        Rewind { length: self.tokens, token: taken.id, phrase }
    }

    /// How many bytes at the end of the text must be held back.
    ///
    /// All of them, if the text ends in the beginning of a banned phrase. Going back leads to an earlier
    /// state in which everything was held back that is held back now, and the text may go on another way from
    /// there.
    ///
    /// Otherwise as much as a stop string needs. A state is the length of the longest suffix of the text that
    /// is a proper prefix of its string, so the largest state is enough for all of them.
    fn bytes_to_hold(&mut self) -> usize {
        let (stop_states, banned_states) = self.states.split_at(self.conditions.strings.len());
        if !self.ended && banned_states.iter().any(|&state| state > 0) {
            return self.text.len();
        }
        self.tentative.clear();
        if self.ended || self.conditions.include_stop {
            return 0;
        }
        stop_states.iter().copied().max().unwrap_or(0)
    }
}
