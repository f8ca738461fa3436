//! The stop matcher against an oracle that looks at the whole text at once.

use onedraw::SamplingParams;
use onedraw::stop::{Finish, StopConditions, StopMatcher, Utf8Stream};
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

/// Every rule in its plainest form: the text of all tokens so far, searched anew after each.
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

/// What the matcher says; along the way, that it holds back what it must and no byte more. Shown text is only
/// ever added to, so what was shown at any time is a prefix of the answer.
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

fn stops() -> impl Strategy<Value = Vec<String>> {
    let overlapping = prop::sample::subsequence(vec!["aab", "ab", "b", "aaa", "abab", "abcab", "bca"], 0..=7)
        .prop_shuffle();
    prop_oneof![
        overlapping.prop_map(|stops| stops.into_iter().map(str::to_owned).collect()),
        vec("[abc]{1,6}", 0..4),
    ]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    vec(prop::sample::select(b"aaabbc".to_vec()), 0..60)
}

/// Cuts a text at the places, empty pieces included.
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
