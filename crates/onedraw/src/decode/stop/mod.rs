//! When a sequence ends, when it goes back, and which part of its text may be shown.
//!
//! There is no tokenizer here: the caller passes each new token together with the bytes that it stands for.
//! Strings are compared byte by byte: case matters, and so does how a character is composed.
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
//! that begins there and is completed later counts. (Otherwise a reader would see a whole stop string after
//! the minimum is reached.) An EOS or stop id that comes too early, unmasked, is plain text.
//!
//! Lengths include the tokens that the parameters already hold in `output_token_ids`. The text of those
//! tokens is not known here, so no stop string begins in it.
//!
//! # What goes back
//!
//! A phrase of `banned_strings` must not appear. When one is completed, anywhere in the text, the text goes
//! back to the phrase's first token, the one that holds its first byte. That token and all after it are taken
//! back, and that token is banned at its position, as [`Progress::rewind`] says. The matcher has then gone
//! back itself and waits for the newly drawn token:
//!
//! ```
//! use onedraw::SamplingParams;
//! use onedraw::stop::{Rewind, StopConditions, StopMatcher};
//!
//! let params = SamplingParams::builder().banned_strings(vec!["rich tapestry".to_owned()]).build()?;
//! let mut matcher = StopMatcher::new(StopConditions::new(&params)?);
//! // The tokens in the order in which a model draws them, with those that are taken back.
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
//! - Of several phrases completed by the same byte the longest counts, since it begins first: going back for
//!   it removes the others too. Of two equal phrases, the one named first in the list counts.
//! - Ids are checked before text: if the text of an EOS or stop id is dropped, it completes no phrase. With
//!   `include_stop_str_in_output` it is shown, so it is searched for banned phrases, though not for stop
//!   strings: an ending that would complete a banned phrase is taken back.
//! - If the last token that `max_tokens` allows completes a phrase, it is taken back, and the sequence does
//!   not end. `min_tokens` has no effect on banned phrases.
//! - An empty token holds no first byte. It is taken back if it comes after the token that does.
//! - The text of `output_token_ids` is not known here, so no phrase begins in it.
//!
//! # What is shown
//!
//! Text ends before the stop string, or after it with `include_stop_str_in_output`; what follows it in the
//! same token is dropped. The text of the EOS or stop id itself is dropped, unless
//! `include_stop_str_in_output`. (The token belongs to the list of tokens either way.)
//!
//! Text that may still become a stop string is held back, and no more than that: the longest suffix that is a
//! proper prefix of a stop string. It is shown as soon as it can no longer become one, or when the sequence
//! ends for another reason. With `include_stop_str_in_output` every byte is shown in the end, so nothing is
//! held back for stop strings.
//!
//! Text that may still be taken back is held back too, in whole tokens: all tokens after the last one at
//! whose end the text did not end in a proper prefix of a banned phrase. That may be more than the tokens of
//! one phrase, and less would not be enough. With "ab" and "cd" banned and the tokens `a`, `c`, the text can
//! no longer become "ab". But if `d` follows, `c` is taken back, and if `b` is drawn then, `a` is taken back.
//! What was held back for a stop string before the first such token stays held back for the same reason. So a
//! token that may begin a phrase shows nothing, nor does one that goes back. The first token after which no
//! phrase may have begun shows everything except the beginning of a stop string.
//!
//! Phrases with a leading space, where words have one, begin in fewer places, so they hold back less: over
//! 53,000 tokens of prose, fifty common phrases of two words held back 3.9 tokens at a time on average and 30
//! at most; with a leading space it was 1.2 and 7.
//!
//! In time every token of a position may be banned. The draw there is then
//! [`RowError::NothingLeft`](crate::RowError::NothingLeft): a decode loop ends, with [`StopMatcher::finish`],
//! or goes back further.
//!
//! Shown bytes may end inside a UTF-8 character, since tokens do; [`Utf8Stream`] turns them into text.

mod conditions;
mod finish;
mod matcher;
mod phrase;
mod tentative;
#[cfg(test)]
mod tests;
mod utf8;

pub use self::conditions::StopConditions;
pub use self::finish::{Finish, FinishReason};
pub use self::matcher::{Progress, StopMatcher};
pub use self::utf8::Utf8Stream;
pub use crate::state::path::Rewind;
