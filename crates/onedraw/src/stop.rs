//! When a sequence ends, and which of its text may be shown.
//!
//! No tokenizer lives here: the caller hands over each new token together with the bytes it stands for.
//! [`StopConditions`] are made once from the parameters; a [`StopMatcher`] follows one sequence.
//!
//! ```
//! use onedraw::SamplingParams;
//! use onedraw::stop::{Finish, StopConditions, StopMatcher};
//!
//! let params = SamplingParams::builder().stop(vec!["\nUser:".to_owned()]).build()?;
//! let mut matcher = StopMatcher::new(StopConditions::new(&params)?);
//! assert_eq!(matcher.push(17, b"Hello.\nUs").text, b"Hello.");
//! assert_eq!(matcher.push(18, b"e ").text, b"\nUse ");
//! assert_eq!(matcher.push(19, b"it.\n").text, b"it.");
//! let last = matcher.push(20, b"User: yes");
//! assert_eq!((last.text, last.finish), (&b""[..], Some(Finish::StopString { index: 0 })));
//! # Ok::<(), onedraw::ParamError>(())
//! ```
//!
//! # What ends a sequence
//!
//! For each token, in this order:
//!
//! 1. an EOS id, unless `ignore_eos`;
//! 2. a stop id;
//! 3. a stop string, wherever in the text it is completed: over several tokens, or in the middle of one;
//! 4. `max_tokens`. So a stop on the last token allowed is a stop.
//!
//! Among stop strings the one completed first wins, that is, the one whose last byte comes first; of several
//! with the same last byte, the one named first in the list.
//!
//! **`min_tokens`.** The first `min_tokens` tokens cannot stop the sequence; token number `min_tokens` + 1 is
//! the first that can. That is how long the sampler masks the EOS and stop ids, and it is vLLM's rule for
//! stop strings too: a string that is completed within the first `min_tokens` tokens is plain text, while one
//! that begins there and is completed later counts. (Were it not to count, a reader would see a whole stop
//! string pass by after the minimum is reached.) An EOS or stop id that comes too early, unmasked, is plain
//! text.
//!
//! Lengths count what the parameters already hold in `output_token_ids`; the text of those is not known here,
//! so no stop string begins in it.
//!
//! # What is shown
//!
//! Text ends before the stop string, or after it with `include_stop_str_in_output`; what follows it in the
//! same token is dropped. The text of the EOS or stop id itself is dropped, unless
//! `include_stop_str_in_output`. (The token belongs to the list of tokens either way.)
//!
//! Text that may yet become a stop string is held back, and no more than that: the longest suffix that is a
//! proper prefix of a stop string. It is shown once it can be none, or when the sequence ends otherwise. With
//! `include_stop_str_in_output` every byte is shown in the end, so nothing is held back.
//!
//! Shown bytes may end inside a UTF-8 character, since tokens do; [`Utf8Stream`] makes text of them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::ParamError;
use crate::params::SamplingParams;

/// Why a sequence ended, as it is named in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FinishReason {
    /// A stop id or a stop string.
    Stop,
    /// `max_tokens` are written.
    Length,
    /// An EOS id.
    Eos,
}

/// Why a sequence ended, and on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finish {
    /// An EOS id was drawn.
    Eos {
        /// The id.
        token: u32,
    },
    /// A stop id was drawn.
    StopToken {
        /// The id.
        token: u32,
    },
    /// A stop string was completed.
    StopString {
        /// Its place in [`SamplingParams::stop`].
        index: usize,
    },
    /// `max_tokens` are written.
    Length,
}

impl Finish {
    /// The reason, without what it was.
    pub fn reason(self) -> FinishReason {
        match self {
            Self::Eos { .. } => FinishReason::Eos,
            Self::StopToken { .. } | Self::StopString { .. } => FinishReason::Stop,
            Self::Length => FinishReason::Length,
        }
    }
}

/// A decision to take text back: a banned string was completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rewind {
    /// Keep so many output tokens.
    pub length: usize,
    /// The token that stood there, banned at that position from now on.
    pub token: u32,
    /// The index in `banned_strings`.
    pub phrase: usize,
}

/// What one token did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The bytes to show now, after those shown before.
    pub text: &'a [u8],
    /// Set if the sequence ended.
    pub finish: Option<Finish>,
}

/// The stop conditions of the parameters, ready to be matched. Sequences may share one through an [`Arc`].
#[derive(Clone, Debug)]
pub struct StopConditions {
    /// Empty with `ignore_eos`.
    eos: Vec<u32>,
    stop_ids: Vec<u32>,
    /// In the order of the parameters.
    strings: Vec<StopString>,
    include_stop: bool,
    /// The tokens already in the parameters.
    written: usize,
    min_tokens: usize,
    max_tokens: usize,
}

impl StopConditions {
    /// Checks the parameters and takes from them what ends a sequence.
    pub fn new(params: &SamplingParams) -> Result<Self, ParamError> {
        params.validate()?;
        Ok(Self {
            eos: if params.ignore_eos { Vec::new() } else { params.eos_token_id.clone() },
            stop_ids: params.stop_token_ids.clone(),
            strings: params.stop.iter().map(|stop| StopString::new(stop.as_bytes())).collect(),
            include_stop: params.include_stop_str_in_output,
            written: params.output_token_ids.len(),
            min_tokens: params.min_tokens as usize,
            max_tokens: params.max_tokens as usize,
        })
    }

    fn finish_by_id(&self, token: u32) -> Option<Finish> {
        if self.eos.contains(&token) {
            return Some(Finish::Eos { token });
        }
        self.stop_ids.contains(&token).then_some(Finish::StopToken { token })
    }
}

/// Follows one sequence, token by token, and says what to show and when to end.
///
/// The buffers grow to the longest token plus the longest stop string; after that a step allocates nothing.
#[derive(Clone, Debug)]
pub struct StopMatcher {
    conditions: Arc<StopConditions>,
    /// How many bytes of each stop string the text ends with.
    states: Vec<usize>,
    /// `shown` bytes that the last call handed out, then those held back.
    text: Vec<u8>,
    shown: usize,
    tokens: usize,
    ended: bool,
    finish: Option<Finish>,
}

impl StopMatcher {
    /// Starts a sequence.
    pub fn new(conditions: impl Into<Arc<StopConditions>>) -> Self {
        let conditions = conditions.into();
        Self {
            states: vec![0; conditions.strings.len()],
            text: Vec::new(),
            shown: 0,
            tokens: conditions.written,
            ended: false,
            finish: None,
            conditions,
        }
    }

    /// Takes the next token and the bytes it stands for.
    ///
    /// Once the sequence has ended, tokens are ignored: nothing is shown, and `finish` says again how it
    /// ended (`None` after [`StopMatcher::finish`]).
    pub fn push(&mut self, token: u32, bytes: &[u8]) -> Progress<'_> {
        self.text.drain(..self.shown);
        self.shown = 0;
        if !self.ended {
            self.tokens = self.tokens.saturating_add(1);
            self.finish = self.advance(token, bytes);
            self.ended = self.finish.is_some();
            self.shown = self.text.len() - self.bytes_to_hold();
        }
        Progress { text: &self.text[..self.shown], finish: self.finish }
    }

    /// Ends the sequence from outside and returns the bytes still held back. No token is taken after it.
    pub fn finish(&mut self) -> &[u8] {
        self.text.drain(..self.shown);
        self.ended = true;
        self.shown = self.text.len();
        &self.text
    }

    /// The bytes held back now: they may be the beginning of a stop string.
    pub fn held_back(&self) -> &[u8] {
        &self.text[self.shown..]
    }

    /// Adds the token to the text, or what of it belongs there, and says whether it ends the sequence.
    fn advance(&mut self, token: u32, bytes: &[u8]) -> Option<Finish> {
        let conditions = &*self.conditions;
        let may_stop = self.tokens > conditions.min_tokens;
        if may_stop && let Some(finish) = conditions.finish_by_id(token) {
            if conditions.include_stop {
                self.text.extend_from_slice(bytes);
            }
            return Some(finish);
        }
        for &byte in bytes {
            self.text.push(byte);
            // No early way out of the inner loop but the end itself: every state has to see every byte.
            for (index, (string, state)) in conditions.strings.iter().zip(&mut self.states).enumerate() {
                if string.advance(state, byte) && may_stop {
                    if !conditions.include_stop {
                        // All of the match is still here: until now it was a prefix of a stop string, held
                        // back.
                        self.text.truncate(self.text.len() - string.bytes.len());
                    }
                    return Some(Finish::StopString { index });
                }
            }
        }
        (self.tokens >= conditions.max_tokens).then_some(Finish::Length)
    }

    /// A state is the longest suffix of the text that is a proper prefix of its string, so the largest state
    /// is the longest for any of them.
    fn bytes_to_hold(&self) -> usize {
        if self.ended || self.conditions.include_stop {
            return 0;
        }
        self.states.iter().copied().max().unwrap_or(0)
    }
}

/// A stop string as the automaton of Knuth, Morris and Pratt.
///
/// The state is the number of bytes of the string that the text ends with. If the next byte does not go on
/// with them, the next shorter suffix of the text that is a prefix of the string is tried, and so on: the
/// string's own shape says which that is, so the text is never read again. A step costs O(1) on average over
/// the text.
///
/// One automaton a string rather than one for all: there are few of them, and the state is just what has to
/// be known to hold back no byte too many.
#[derive(Clone, Debug)]
struct StopString {
    bytes: Vec<u8>,
    /// `shorter[k]`: the longest proper suffix of the first k bytes that is a prefix of them.
    shorter: Vec<usize>,
}

impl StopString {
    /// `bytes` is not empty; [`SamplingParams::validate`] sees to it.
    fn new(bytes: &[u8]) -> Self {
        let mut string = Self { bytes: bytes.to_vec(), shorter: vec![0, 0] };
        // Run over itself, one byte late, the automaton finds the suffixes: it only looks at those found
        // before.
        let mut state = 0;
        for &byte in &bytes[1..] {
            state = string.step(state, byte);
            string.shorter.push(state);
        }
        string
    }

    /// Takes a byte and says whether it completes the string. The state is then that of a proper prefix
    /// again.
    fn advance(&self, state: &mut usize, byte: u8) -> bool {
        *state = self.step(*state, byte);
        let complete = *state == self.bytes.len();
        if complete {
            *state = self.shorter[*state];
        }
        complete
    }

    /// The state after a byte; `state` is less than the length.
    fn step(&self, mut state: usize, byte: u8) -> usize {
        while state > 0 && self.bytes[state] != byte {
            state = self.shorter[state];
        }
        state + usize::from(self.bytes[state] == byte)
    }
}

/// Makes text of bytes that come in pieces: a character cut in two waits for its other half.
///
/// Bytes that are no UTF-8 become U+FFFD. The text in all is what [`String::from_utf8_lossy`] makes of all
/// the bytes, however they were cut.
#[derive(Clone, Debug, Default)]
pub struct Utf8Stream {
    /// The beginning of a character, at most three bytes between calls.
    bytes: Vec<u8>,
    text: String,
}

impl Utf8Stream {
    /// Takes the next bytes and returns the text they complete.
    pub fn push(&mut self, bytes: &[u8]) -> &str {
        self.bytes.extend_from_slice(bytes);
        self.text.clear();
        let mut chunks = self.bytes.utf8_chunks().peekable();
        let mut unfinished = 0;
        while let Some(chunk) = chunks.next() {
            self.text.push_str(chunk.valid());
            let bad = chunk.invalid();
            // Bad bytes at the very end, unless they are bad whatever follows, begin a character.
            if chunks.peek().is_none() && str::from_utf8(bad).is_err_and(|error| error.error_len().is_none())
            {
                unfinished = bad.len();
            } else if !bad.is_empty() {
                self.text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        self.bytes.drain(..self.bytes.len() - unfinished);
        &self.text
    }

    /// Ends the stream: a character that never came whole is U+FFFD.
    pub fn finish(&mut self) -> &str {
        self.text.clear();
        if !self.bytes.is_empty() {
            self.bytes.clear();
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
        &self.text
    }
}

#[cfg(test)]
mod tests;
