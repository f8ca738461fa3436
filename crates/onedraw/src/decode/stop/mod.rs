//! When a sequence ends, when it goes back, and which of its text may be shown.
//!
//! No tokenizer lives here: the caller hands over each new token together with the bytes it stands for.
//! Strings are found by their exact bytes: case matters, and so does how a character is composed.
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
//! # What goes back
//!
//! A phrase of `banned_strings` must not appear. When one is completed, wherever in the text, the text goes
//! back to the phrase's first token, the one that holds its first byte: that token and all after it are taken
//! back, and it is banned where it stood, as [`Progress::rewind`] says. The matcher has then gone back itself
//! and waits for the token drawn anew:
//!
//! ```
//! use onedraw::SamplingParams;
//! use onedraw::stop::{Rewind, StopConditions, StopMatcher};
//!
//! let params = SamplingParams::builder().banned_strings(vec!["rich tapestry".to_owned()]).build()?;
//! let mut matcher = StopMatcher::new(StopConditions::new(&params)?);
//! // What a model draws, one after the other; what it draws anew comes after what was taken back.
//! let drawn: [(u32, &str); 7] =
//!     [(5, "A"), (9, " very rich"), (3, " tape"), (4, "stry of"), (8, " fine"), (2, " tap"), (1, "estry")];
//! let (mut output, mut shown) = (Vec::new(), Vec::new());
//! for (token, bytes) in drawn {
//!     output.push(token);
//!     let progress = matcher.push(token, bytes.as_bytes());
//!     shown.extend_from_slice(progress.text);
//!     if let Some(rewind) = progress.rewind {
//!         assert_eq!(rewind, Rewind { length: 1, token: 9, phrase: 0 });
//!         // A sampler would also ban token 9 as the second token; the model goes on from the first.
//!         output.truncate(rewind.length);
//!     }
//! }
//! shown.extend_from_slice(matcher.finish());
//! assert_eq!(output, [5, 8, 2, 1]);
//! assert_eq!(shown, b"A fine tapestry");
//! # Ok::<(), onedraw::ParamError>(())
//! ```
//!
//! - Between a banned phrase and a stop string the one completed first counts; on the same byte, the phrase.
//! - Of several phrases completed by the same byte the longest counts, since it begins first: none of them
//!   stands after going back for it. Of two that are the same, the one named first in the list.
//! - Ids are judged before text: if the text of an EOS or stop id is dropped, it completes no phrase. With
//!   `include_stop_str_in_output` it is shown, so it is searched for banned phrases, though not for stop
//!   strings: what would end the sequence with a banned phrase is taken back.
//! - A phrase that the last token allowed completes is taken back, not an end. `min_tokens` has no say here.
//! - An empty token holds no first byte. It goes if it stands after the one that does.
//! - The text of `output_token_ids` is not known here, so no phrase begins in it.
//!
//! # What is shown
//!
//! Text ends before the stop string, or after it with `include_stop_str_in_output`; what follows it in the
//! same token is dropped. The text of the EOS or stop id itself is dropped, unless
//! `include_stop_str_in_output`. (The token belongs to the list of tokens either way.)
//!
//! Text that may yet become a stop string is held back, and no more than that: the longest suffix that is a
//! proper prefix of a stop string. It is shown once it can be none, or when the sequence ends otherwise. With
//! `include_stop_str_in_output` every byte is shown in the end, so nothing is held back for stop strings.
//!
//! Text that may yet be taken back is held back too, in whole tokens: those since the text last ended, with a
//! token, in nothing that is a proper prefix of a banned phrase. That may be more than the tokens of one
//! phrase, and no less will do. With "ab" and "cd" banned and the tokens `a`, `c`, the text can no longer
//! become "ab"; but if `d` follows, `c` is taken back, and if then `b` is drawn, `a` is. What was held back
//! for a stop string before the first such token stays held back for the same reason. So a token after which
//! a phrase may be beginning shows nothing, nor does one that goes back; the first after which none may shows
//! all but a stop string's beginning. Phrases with a leading space, where words have one, begin in fewer
//! places, so they hold back less: over 53,000 tokens of prose, fifty common phrases of two words held back
//! 3.9 tokens at a time on average and 30 at most, the same with a leading space 1.2 and 7.
//!
//! Every token of a position may come to be banned. The draw there is then
//! [`RowError::NothingLeft`](crate::RowError::NothingLeft): a decode loop ends, with [`StopMatcher::finish`],
//! or goes back further.
//!
//! Shown bytes may end inside a UTF-8 character, since tokens do; [`Utf8Stream`] makes text of them.

mod conditions;
mod matcher;
mod phrase;
mod tentative;
mod utf8;

use serde::{Deserialize, Serialize};

pub use self::conditions::StopConditions;
pub use self::matcher::StopMatcher;
use self::phrase::Phrase;
pub use self::utf8::Utf8Stream;
pub use crate::state::path::Rewind;

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
        /// Its place in [`SamplingParams::stop`](crate::SamplingParams::stop).
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

/// What one token did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The bytes to show now, after those shown before.
    pub text: &'a [u8],
    /// Set if the sequence ended.
    pub finish: Option<Finish>,
    /// Set if the token completed a banned phrase and tokens are taken back, this one among them. The
    /// sequence has then not ended, and `text` is empty.
    pub rewind: Option<Rewind>,
}

#[cfg(test)]
mod tests;
