//! The stop matcher compared with an oracle that looks at the whole text at once.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use onedraw::SamplingParams;
use onedraw::stop::{Finish, Rewind, StopConditions, StopMatcher, Utf8Stream};
use proptest::collection::vec;
use proptest::prelude::*;

type Token = (u32, Vec<u8>);

/// What a sequence shows and how it ends.
#[derive(Debug, PartialEq)]
struct Answer {
    text: Vec<u8>,
    finish: Option<Finish>,
}

/// The first match in `text` whose end is after `free`: by its end, then by the list. (index, start, end)
fn first_match(stop: &[String], text: &[u8], free: usize) -> Option<(usize, usize, usize)> {
    (free + 1..=text.len()).find_map(|end| {
        let index = stop.iter().position(|stop| text[..end].ends_with(stop.as_bytes()))?;
        Some((index, end - stop[index].len(), end))
    })
}

/// The longest suffix of `text` that is a proper prefix of a stop string.
fn open_suffix(stop: &[String], text: &[u8]) -> usize {
    let open = |&length: &usize| {
        let suffix = &text[text.len() - length..];
        stop.iter().any(|stop| stop.len() > length && stop.as_bytes().starts_with(suffix))
    };
    (0..=text.len()).rev().find(open).unwrap_or(0)
}

/// Every rule in its simplest form: the text of all tokens so far is searched again after each token.
fn oracle(params: &SamplingParams, tokens: &[Token]) -> Answer {
    let (mut text, mut free) = (Vec::new(), 0);
    for (number, (token, bytes)) in (1..).zip(tokens) {
        if number > params.min_tokens {
            let eos = !params.ignore_eos && params.eos_token_id.contains(token);
            if eos || params.stop_token_ids.contains(token) {
                let token = *token;
                let finish = Some(if eos { Finish::Eos { token } } else { Finish::StopToken { token } });
                if params.include_stop_str_in_output {
                    text.extend(bytes);
                }
                return Answer { text, finish };
            }
        }
        text.extend(bytes);
        if number <= params.min_tokens {
            free = text.len();
        }
        if let Some((index, start, end)) = first_match(&params.stop, &text, free) {
            text.truncate(if params.include_stop_str_in_output { end } else { start });
            return Answer { text, finish: Some(Finish::StopString { index }) };
        }
        if number == params.max_tokens {
            return Answer { text, finish: Some(Finish::Length) };
        }
    }
    Answer { text, finish: None }
}

/// What the matcher answers. Also checks that it holds back what it must and no byte more: shown text is only
/// ever appended to, so what was shown at any time is a prefix of the answer.
fn answer(params: &SamplingParams, tokens: &[Token]) -> Answer {
    let mut matcher = StopMatcher::new(StopConditions::new(params).unwrap());
    let (mut shown, mut all) = (Vec::new(), Vec::new());
    for (token, bytes) in tokens {
        all.extend(bytes);
        let progress = matcher.push(*token, bytes);
        shown.extend(progress.text);
        let finish = progress.finish;
        if finish.is_some() {
            assert_eq!(matcher.held_back(), b"");
            assert_eq!(matcher.finish(), b"");
            return Answer { text: shown, finish };
        }
        let held = if params.include_stop_str_in_output { 0 } else { open_suffix(&params.stop, &all) };
        assert_eq!(shown, all[..all.len() - held]);
        assert_eq!(matcher.held_back(), &all[all.len() - held..]);
    }
    shown.extend(matcher.finish());
    Answer { text: shown, finish: None }
}

fn text_of(tokens: &[Token]) -> Vec<u8> {
    tokens.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect()
}

/// The index of the token that holds a byte of the text.
fn holder(tokens: &[Token], byte: usize) -> usize {
    (0..tokens.len()).find(|&place| text_of(&tokens[..=place]).len() > byte).unwrap()
}

/// What a decode loop does after a token.
#[derive(Debug, PartialEq)]
enum Verdict {
    GoOn,
    GoBack(Rewind),
    End(Answer),
}

/// Every rule in its simplest form, including those of banned phrases: what follows from the last token.
fn judge(params: &SamplingParams, tokens: &[Token]) -> Verdict {
    let (&(token, _), before) = tokens.split_last().unwrap();
    let (before, text) = (text_of(before).len(), text_of(tokens));
    let number = params.output_token_ids.len() + tokens.len();
    let may_stop = number > params.min_tokens as usize;
    let end = |text: &[u8], finish| Verdict::End(Answer { text: text.to_vec(), finish: Some(finish) });

    let eos = !params.ignore_eos && params.eos_token_id.contains(&token);
    let ends_by_id = may_stop && (eos || params.stop_token_ids.contains(&token));
    let by_id = if eos { Finish::Eos { token } } else { Finish::StopToken { token } };
    let include = params.include_stop_str_in_output;
    if ends_by_id && !include {
        return end(&text[..before], by_id);
    }
    for to in before + 1..=text.len() {
        let completed = |phrase: &String| text[..to].ends_with(phrase.as_bytes());
        let phrases = params.banned_strings.iter().enumerate().filter(|(_, phrase)| completed(phrase));
        if let Some((index, phrase)) = phrases.max_by_key(|(index, phrase)| (phrase.len(), Reverse(*index))) {
            let place = holder(tokens, to - phrase.len());
            let length = params.output_token_ids.len() + place;
            return Verdict::GoBack(Rewind { length, token: tokens[place].0, phrase: index });
        }
        if may_stop
            && !ends_by_id
            && let Some(index) = params.stop.iter().position(completed)
        {
            let to = if include { to } else { to - params.stop[index].len() };
            return end(&text[..to], Finish::StopString { index });
        }
    }
    if ends_by_id {
        return end(&text, by_id);
    }
    if number >= params.max_tokens as usize { end(&text, Finish::Length) } else { Verdict::GoOn }
}

/// How much of the text can neither be taken back nor be cut off for a stop string, whatever follows. Going
/// back means continuing from before a token, and from there the text may go back again.
fn certain(params: &SamplingParams, tokens: &[Token]) -> usize {
    let mut goes_on_from = vec![false; tokens.len()];
    goes_on_from.push(true);
    let mut certain = usize::MAX;
    for place in (0..=tokens.len()).rev() {
        if !goes_on_from[place] {
            continue;
        }
        let text = text_of(&tokens[..place]);
        let held = if params.include_stop_str_in_output { 0 } else { open_suffix(&params.stop, &text) };
        certain = certain.min(text.len() - held);
        for start in 0..text.len() {
            let rest = &text[start..];
            let begins = |phrase: &String| phrase.len() > rest.len() && phrase.as_bytes().starts_with(rest);
            if params.banned_strings.iter().any(begins) {
                goes_on_from[holder(tokens, start)] = true;
            }
        }
    }
    certain
}

/// A model: the next token is a function of the tokens before it and of those banned there.
fn draw(seed: u64, vocabulary: usize, tokens: &[Token], banned: &BTreeSet<u32>) -> Option<u32> {
    let left: Vec<u32> = (0..vocabulary as u32).filter(|token| !banned.contains(token)).collect();
    let mut hasher = DefaultHasher::new();
    (seed, tokens, banned).hash(&mut hasher);
    (!left.is_empty()).then(|| left[(hasher.finish() % left.len() as u64) as usize])
}

/// A decode loop that checks each of its steps. Returns how often it went back. With `forget`, a token that
/// is banned at a position is allowed there again once the text before it has changed.
fn decode(params: &SamplingParams, vocabulary: &[Vec<u8>], seed: u64, forget: bool) -> usize {
    let mut matcher = StopMatcher::new(StopConditions::new(params).unwrap());
    let (mut tokens, mut shown, mut rewinds) = (Vec::new(), Vec::new(), 0);
    let mut banned = vec![BTreeSet::new(); params.max_tokens as usize];
    while let Some(token) = draw(seed, vocabulary.len(), &tokens, &banned[tokens.len()]) {
        let bytes = &vocabulary[token as usize];
        tokens.push((token, bytes.clone()));
        let progress = matcher.push(token, bytes);
        shown.extend(progress.text);
        match judge(params, &tokens) {
            Verdict::GoOn => assert_eq!((progress.finish, progress.rewind), (None, None)),
            Verdict::GoBack(rewind) => {
                assert_eq!((progress.finish, progress.rewind), (None, Some(rewind)));
                let place = rewind.length - params.output_token_ids.len();
                tokens.truncate(place);
                assert!(banned[place].insert(rewind.token), "{rewind:?} again");
                if forget {
                    banned[place + 1..].iter_mut().for_each(BTreeSet::clear);
                }
                rewinds += 1;
            }
            Verdict::End(answer) => {
                assert_eq!((progress.finish, progress.rewind), (answer.finish, None));
                assert_eq!(matcher.held_back(), b"");
                assert_eq!(shown, answer.text);
                assert_none_stands(params, &shown);
                return rewinds;
            }
        }
        let text = text_of(&tokens);
        let certain = certain(params, &tokens);
        assert_eq!((&shown[..], matcher.held_back()), text.split_at(certain));
    }
    // No token is left.
    shown.extend(matcher.finish());
    assert_eq!(shown, text_of(&tokens));
    assert_none_stands(params, &shown);
    rewinds
}

fn assert_none_stands(params: &SamplingParams, text: &[u8]) {
    for phrase in &params.banned_strings {
        assert!(!text.windows(phrase.len()).any(|window| window == phrase.as_bytes()), "{phrase}");
    }
}

fn stops() -> impl Strategy<Value = Vec<String>> {
    let overlapping = prop::sample::subsequence(vec!["aab", "ab", "b", "aaa", "abab", "abcab", "bca"], 0..=7)
        .prop_shuffle();
    prop_oneof![
        overlapping.prop_map(|stops| stops.into_iter().map(str::to_owned).collect()),
        vec("[abc]{1,6}", 0..4),
    ]
}

fn phrases() -> impl Strategy<Value = Vec<String>> {
    prop_oneof![stops(), vec("[abc]{2,6}", 0..6)]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    vec(prop::sample::select(b"aaabbc".to_vec()), 0..60)
}

/// Cuts a text at the given places; pieces may be empty.
fn cut(text: &[u8], places: &[prop::sample::Index]) -> Vec<Token> {
    let mut places: Vec<usize> = places.iter().map(|place| place.index(text.len() + 1)).collect();
    places.extend([0, text.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| (0, text[pair[0]..pair[1]].to_vec())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_text_does_not_depend_on_how_it_is_cut(
        stop in stops(),
        text in text(),
        places in vec(any::<prop::sample::Index>(), 0..40),
        include in any::<bool>(),
    ) {
        let params = SamplingParams {
            stop, include_stop_str_in_output: include, max_tokens: 1000, ..SamplingParams::default()
        };
        let expected = match first_match(&params.stop, &text, 0) {
            None => Answer { text: text.clone(), finish: None },
            Some((index, start, end)) => Answer {
                text: text[..if include { end } else { start }].to_vec(),
                finish: Some(Finish::StopString { index }),
            },
        };
        prop_assert_eq!(&answer(&params, &[(0, text.clone())]), &expected);
        prop_assert_eq!(&answer(&params, &cut(&text, &places)), &expected);
        let bytes: Vec<Token> = text.iter().map(|&byte| (0, vec![byte])).collect();
        prop_assert_eq!(&answer(&params, &bytes), &expected);
    }

    #[test]
    fn ids_strings_and_lengths_together(
        stop in stops(),
        tokens in vec((0u32..30, vec(prop::sample::select(b"abc".to_vec()), 0..5)), 0..20),
        (min_tokens, more_tokens) in (0u32..8, 0u32..14),
        (ignore_eos, include) in any::<(bool, bool)>(),
    ) {
        let params = SamplingParams {
            stop, min_tokens, max_tokens: (min_tokens + more_tokens).max(1), ignore_eos,
            include_stop_str_in_output: include,
            eos_token_id: vec![0, 1], stop_token_ids: vec![1, 2], ..SamplingParams::default()
        };
        prop_assert_eq!(answer(&params, &tokens), oracle(&params, &tokens));
    }

    #[test]
    fn a_decode_loop_writes_no_banned_phrase(
        (stop, banned_strings) in (prop_oneof![Just(vec![]), vec("[abc]{2,6}", 0..3)], phrases()),
        vocabulary in vec(vec(prop::sample::select(b"aabbc".to_vec()), 0..=3), 1..8),
        (min_tokens, more_tokens, written) in (0u32..8, 1u32..20, 0usize..4),
        (ends, include, forget) in any::<(bool, bool, bool)>(),
        seed in any::<u64>(),
    ) {
        let max_tokens = min_tokens + more_tokens;
        let params = SamplingParams {
            stop, banned_strings, min_tokens, max_tokens, include_stop_str_in_output: include,
            eos_token_id: if ends { vec![5] } else { vec![] },
            stop_token_ids: if ends { vec![6] } else { vec![] },
            output_token_ids: vec![0; written.min(max_tokens as usize - 1)], ..SamplingParams::default()
        };
        let rewinds = decode(&params, &vocabulary, seed, forget);
        if !forget {
            // Each time it goes back, it bans a token at a position where that token was not banned.
            prop_assert!(rewinds <= vocabulary.len() * max_tokens as usize);
        }
    }

    /// Checks that no token is held back without need: each can be taken back by what may follow.
    #[test]
    fn what_is_held_back_can_be_taken_back(
        phrases in phrases(),
        tokens in vec((0u32..30, vec(prop::sample::select(b"abc".to_vec()), 0..4)), 0..20),
    ) {
        // A phrase that has another inside it, before its last byte, is never completed, because the other
        // one is completed first.
        let inside = |phrase: &String| phrases.iter().any(|other| phrase[..phrase.len() - 1].contains(other));
        let banned_strings = phrases.iter().filter(|phrase| !inside(phrase)).cloned().collect();
        let params = SamplingParams { banned_strings, max_tokens: 1000, ..SamplingParams::default() };
        let mut matcher = StopMatcher::new(StopConditions::new(&params).unwrap());
        let (mut written, mut shown) = (Vec::new(), 0);
        for (token, bytes) in tokens {
            written.push((token, bytes.clone()));
            let progress = matcher.push(token, &bytes);
            shown += progress.text.len();
            if let Some(rewind) = progress.rewind {
                written.truncate(rewind.length);
            }
            let (mut trial, mut left) = (matcher.clone(), written.clone());
            while text_of(&left).len() > shown {
                let text = text_of(&left);
                let open = open_suffix(&params.banned_strings, &text);
                prop_assert!(open > 0, "held back without need: {:?}", text);
                let begun = &text[text.len() - open..];
                let goes_on =
                    |phrase: &&String| phrase.len() > open && phrase.as_bytes().starts_with(begun);
                let phrase = params.banned_strings.iter().find(goes_on).unwrap();
                let progress = trial.push(99, &phrase.as_bytes()[open..]);
                prop_assert_eq!(progress.text, b"");
                let rewind = progress.rewind.unwrap();
                prop_assert!(rewind.length < left.len());
                left.truncate(rewind.length);
            }
            prop_assert_eq!(text_of(&left).len(), shown);
        }
    }

    #[test]
    fn text_in_pieces_is_the_text(
        pieces in vec(prop_oneof![vec(any::<u8>(), 0..4), "\\PC".prop_map(String::into_bytes)], 0..20),
        places in vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let bytes = pieces.concat();
        let mut stream = Utf8Stream::default();
        let mut text = String::new();
        for (_, piece) in cut(&bytes, &places) {
            text.push_str(stream.push(&piece));
        }
        text.push_str(stream.finish());
        prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
    }
}
