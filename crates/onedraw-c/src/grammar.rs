//! Text that keeps to a grammar: vocabularies, grammars and matchers.

use std::ffi::c_char;

use ::onedraw_grammar::{Grammar, Matcher, Vocabulary};
use library::{Constraint, ConstraintKind, ConstraintText};
use serde_json::Value;

use crate::call::call;
use crate::error::{Failure, onedraw_error, onedraw_status};
use crate::table::{Handle, free, give, with};

/// The tokens of a model, prepared once for all grammars. Any number of threads may use one.
pub enum onedraw_vocabulary {}

/// What a text must keep to, compiled for a vocabulary. Any number of threads may use one.
pub enum onedraw_grammar {}

/// A text that follows a grammar. One thread at a time may use it; a second one gets `ONEDRAW_IN_USE`.
pub enum onedraw_matcher {}

impl Handle for Vocabulary {
    type Pointee = onedraw_vocabulary;
    const NAME: &'static str = "vocabulary";
    const WAITS: bool = true;
}

impl Handle for Grammar {
    type Pointee = onedraw_grammar;
    const NAME: &'static str = "grammar";
    const WAITS: bool = true;
}

impl Handle for Matcher {
    type Pointee = onedraw_matcher;
    const NAME: &'static str = "matcher";
}

/// Makes a vocabulary of the bytes of all tokens, one after the other: token i has those from `offsets[i]` up to
/// `offsets[i + 1]`, so there are `count` + 1 offsets. There are as many tokens as the model has logits. Tokens
/// without bytes, and the `special` ones, which are marks and not text, are never allowed. `eos` are those that end
/// a text, at least one. It takes a second or two for 200,000 tokens. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_vocabulary_new(
    bytes: *const u8,
    offsets: *const usize,
    count: usize,
    eos: *const u32,
    eos_count: usize,
    special: *const u32,
    special_count: usize,
    vocabulary: *mut *mut onedraw_vocabulary,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        give(memory, vocabulary, || {
            let past_the_end = || Failure::argument("count", "is larger than memory");
            let offsets = memory.array(offsets, count.checked_add(1).ok_or_else(past_the_end)?, "offsets")?;
            if offsets[0] != 0 || !offsets.is_sorted() {
                return Err(Failure::argument("offsets", "must begin with 0 and not fall"));
            }
            let bytes = memory.array(bytes, offsets[count], "bytes")?;
            let tokens = offsets.array_windows().map(|&[start, end]| &bytes[start..end]);
            let builder = Vocabulary::builder(tokens)
                .eos(memory.array(eos, eos_count, "eos")?.iter().copied())
                .special(memory.array(special, special_count, "special")?.iter().copied());
            Ok(builder.build()?)
        })
    })
}

/// Frees a vocabulary; NULL is nothing. Grammars that were made for it stay. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_vocabulary_free(
    vocabulary: *mut onedraw_vocabulary,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |_| free::<Vocabulary>(vocabulary))
}

/// Compiles a grammar. `kind` says what `text` is: `json_schema`, `compact_json_schema` (without white space between
/// the parts), `regex`, `choices` (a JSON list of texts, one of which is written) or `grammar` (Lark, or llguidance's
/// JSON). Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_grammar_new(
    vocabulary: *const onedraw_vocabulary,
    kind: *const c_char,
    text: *const c_char,
    grammar: *mut *mut onedraw_grammar,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        give(memory, grammar, || {
            let name = memory.text(kind, "kind")?;
            let kind: ConstraintKind = serde_json::from_value(Value::from(name))
                .map_err(|error| Failure::argument("kind", error))?;
            let text = memory.text(text, "text")?.to_owned();
            let vocabulary = with(vocabulary, |vocabulary: &mut Vocabulary| Ok(vocabulary.clone()))?;
            let source = ConstraintText { kind, text, eos_token_ids: vocabulary.eos().to_vec() };
            Ok(Grammar::from_text(&vocabulary, &source)?)
        })
    })
}

/// Frees a grammar; NULL is nothing. Matchers of it stay. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_grammar_free(
    grammar: *mut onedraw_grammar,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |_| free::<Grammar>(grammar))
}

/// Begins a text that follows a grammar. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_matcher_new(
    grammar: *const onedraw_grammar,
    matcher: *mut *mut onedraw_matcher,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| give(memory, matcher, || with(grammar, |grammar: &mut Grammar| Ok(grammar.start()))))
}

/// Makes a matcher at the same place of the text, which goes its own way. One thread at a time may use the first.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_matcher_clone(
    matcher: *const onedraw_matcher,
    clone: *mut *mut onedraw_matcher,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| give(memory, clone, || with(matcher, |matcher: &mut Matcher| Ok(matcher.clone()))))
}

/// The tokens that may come next, 32 in each word, lowest bit first, for `onedraw_row.mask`. There are (tokens + 31) / 32
/// words. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_matcher_mask(
    matcher: *mut onedraw_matcher,
    words: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(words, capacity, count, "words")?;
        with(matcher, |matcher: &mut Matcher| buffer.fill(matcher.mask()?.iter().copied()))
    })
}

/// The tokens that must come next because the grammar leaves no choice, as far as that is known; they need no draw.
/// One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_matcher_forced(
    matcher: *mut onedraw_matcher,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let mut buffer = memory.buffer(tokens, capacity, count, "tokens")?;
        with(matcher, |matcher: &mut Matcher| buffer.fill(matcher.forced()?.into_iter()))
    })
}

/// Adds a token to the text. `ONEDRAW_BAD_TEXT` if it does not fit, which changes nothing. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_matcher_accept(
    matcher: *mut onedraw_matcher,
    token: u32,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |_| with(matcher, |matcher: &mut Matcher| Ok(matcher.accept(token)?)))
}

/// Takes the last `tokens` tokens back. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_matcher_rollback(
    matcher: *mut onedraw_matcher,
    tokens: usize,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |_| with(matcher, |matcher: &mut Matcher| Ok(matcher.rollback(tokens)?)))
}

/// Whether the text may end here: 1 or 0. One thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_matcher_may_end(
    matcher: *mut onedraw_matcher,
    may_end: *mut i32,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |memory| {
        let place = memory.place(may_end, "may_end")?;
        with(matcher, |matcher: &mut Matcher| {
            place.write(matcher.may_end()?.into());
            Ok(())
        })
    })
}

/// Frees a matcher; NULL is nothing. Any thread may call it.
#[unsafe(no_mangle)]
pub extern "C" fn onedraw_matcher_free(
    matcher: *mut onedraw_matcher,
    error: *mut onedraw_error,
) -> onedraw_status {
    call(error, |_| free::<Matcher>(matcher))
}
