//! One sequence, followed token by token.

use std::sync::Arc;

use super::tentative::TentativeTokens;
use super::{Finish, Phrase, Progress, StopConditions};
use crate::state::path::Rewind;

/// Follows one sequence, token by token, and says what to show, when to go back and when to end.
///
/// The buffers grow to the longest token plus the longest text held back, with a state a phrase and string
/// for each token held back for a banned phrase; after that a step allocates nothing.
///
/// A clone goes its own way: that is how tokens are tried out.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    conditions: Arc<StopConditions>,
    /// How many bytes of each stop string, then of each banned phrase, the text ends with.
    states: Vec<usize>,
    /// `shown` bytes that the last call handed out, then those held back.
    text: Vec<u8>,
    shown: usize,
    tentative: TentativeTokens,
    tokens: usize,
    ended: bool,
    finish: Option<Finish>,
}

/// What follows from a token.
enum Verdict {
    Continue,
    End(Finish),
    /// The text ends with a banned phrase.
    GoBack {
        /// Its place in the parameters.
        phrase: usize,
        /// Where it begins in the text held back.
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

    /// Takes the next token and the bytes it stands for.
    ///
    /// With [`Progress::rewind`] the matcher has gone back already: the next token to push is the one drawn
    /// anew.
    ///
    /// Once the sequence has ended, tokens are ignored: nothing is shown, and `finish` says again how it
    /// ended (`None` after [`StopMatcher::finish`]).
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
                Verdict::Continue => {}
                Verdict::End(finish) => {
                    self.finish = Some(finish);
                    self.ended = true;
                }
                Verdict::GoBack { phrase, start } => rewind = Some(self.go_back(phrase, start)),
            }
            self.shown = self.text.len() - self.bytes_to_hold();
        }
        Progress { text: &self.text[..self.shown], finish: self.finish, rewind }
    }

    /// Ends the sequence from outside and returns the bytes still held back. No token is taken after it.
    pub fn finish(&mut self) -> &[u8] {
        self.text.drain(..self.shown);
        self.ended = true;
        self.shown = self.text.len();
        &self.text
    }

    /// The bytes held back now: they may be the beginning of a stop string, or be taken back for a banned
    /// phrase.
    pub fn held_back(&self) -> &[u8] {
        &self.text[self.shown..]
    }

    /// Adds the token to the text, or what of it belongs there, and says what follows.
    fn advance(&mut self, token: u32, bytes: &[u8]) -> Verdict {
        let conditions = &*self.conditions;
        let may_stop = self.tokens > conditions.min_tokens;
        let by_id = if may_stop { conditions.finish_by_id(token) } else { None };
        if let Some(finish) = by_id
            && !conditions.include_stop
        {
            return Verdict::End(finish);
        }
        let (stop_states, banned_states) = self.states.split_at_mut(conditions.strings.len());
        for &byte in bytes {
            self.text.push(byte);
            let string = Phrase::first_completed(&conditions.strings, stop_states, byte);
            if let Some(phrase) = Phrase::first_completed(&conditions.banned, banned_states, byte) {
                // All of it is still here: until now it was a beginning of itself, held back.
                return Verdict::GoBack { phrase: phrase.index, start: self.text.len() - phrase.len() };
            }
            if let Some(string) = string
                && may_stop
                && by_id.is_none()
            {
                if !conditions.include_stop {
                    // All of the match is still here: until now it was a prefix of a stop string, held back.
                    self.text.truncate(self.text.len() - string.len());
                }
                return Verdict::End(Finish::StopString { index: string.index });
            }
        }
        let by_length = (self.tokens >= conditions.max_tokens).then_some(Finish::Length);
        by_id.or(by_length).map_or(Verdict::Continue, Verdict::End)
    }

    /// Goes back to before the token that holds the first byte of the phrase.
    fn go_back(&mut self, phrase: usize, start: usize) -> Rewind {
        let taken = self.tentative.take_back(start, &mut self.states);
        self.text.truncate(taken.start);
        self.tokens -= taken.tokens;
        Rewind { length: self.tokens, token: taken.id, phrase }
    }

    /// How much of the text is not shown yet.
    ///
    /// All of it, if it ends in the beginning of a banned phrase: going back leads to a state in which
    /// everything was held back that is now, and it may go on another way from there. Else what a stop string
    /// needs: a state is the longest suffix of the text that is a proper prefix of its string, so the largest
    /// state is the longest for any of them.
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
