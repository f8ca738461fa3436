//! One test per rule.

mod banned;

use std::sync::Arc;

use super::*;
use crate::SamplingParams;

/// Pushes the pieces as tokens 0, 1, 2, … until the end. Returns what was shown for each, and how the
/// sequence ended.
fn run(params: &SamplingParams, pieces: &[&str]) -> (Vec<String>, Option<Finish>) {
    let tokens: Vec<(u32, &str)> = (0..).zip(pieces.iter().copied()).collect();
    run_tokens(params, &tokens)
}

fn run_tokens(params: &SamplingParams, tokens: &[(u32, &str)]) -> (Vec<String>, Option<Finish>) {
    let mut matcher = StopMatcher::new(StopConditions::new(params).unwrap());
    let mut shown = Vec::new();
    for &(token, bytes) in tokens {
        let progress = matcher.push(token, bytes.as_bytes());
        shown.push(String::from_utf8(progress.text.to_vec()).unwrap());
        if progress.finish.is_some() {
            return (shown, progress.finish);
        }
    }
    (shown, None)
}

fn stop_at(stop: &[&str]) -> SamplingParams {
    let stop = stop.iter().map(|&text| text.to_owned()).collect();
    SamplingParams { stop, max_tokens: 100, ..SamplingParams::default() }
}

const FIRST: Option<Finish> = Some(Finish::StopString { index: 0 });
const SECOND: Option<Finish> = Some(Finish::StopString { index: 1 });

#[test]
fn a_stop_string_may_lie_anywhere_in_the_tokens() {
    let params = stop_at(&["pause"]);
    for (pieces, shown) in [
        (&["pau", "se"][..], &["", ""][..]),
        (&["p", "ausefully"], &["", ""]),
        (&["meno", "p", "auses"], &["meno", "", ""]),
        (&["p", "au", "sed"], &["", "", ""]),
        (&["pause", "here"], &[""]),
        (&["unpaused clock"], &["un"]),
        (&["a p", "", "ause"], &["a ", "", ""]),
    ] {
        let shown: Vec<String> = shown.iter().map(|&text| text.to_owned()).collect();
        assert_eq!(run(&params, pieces), (shown, FIRST), "{pieces:?}");
    }
    assert_eq!(run(&params, &["pau", "pau", "s", "e"]).1, FIRST);
    assert_eq!(run(&params, &["pau", "per", "a us", "Pause"]).1, None);
}

#[test]
fn a_stop_string_that_begins_twice_is_found() {
    let params = stop_at(&["<|im_end|>", "pause", "th e"]);
    let text = "<|im_start|><|im_end|<|im_end|>";
    assert_eq!(run(&params, &[text]), (vec!["<|im_start|><|im_end|".to_owned()], FIRST));
    let bytes: Vec<String> = text.chars().map(String::from).collect();
    let (shown, finish) = run(&params, &bytes.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((shown.concat().as_str(), finish), ("<|im_start|><|im_end|", FIRST));
    for text in ["the", "thE ", "|im_end|>"] {
        assert_eq!(run(&params, &[text]).1, None, "{text}");
    }
    assert_eq!(run(&stop_at(&["aab"]), &["aaa", "ab"]), (vec!["a".to_owned(), "a".to_owned()], FIRST));
}

#[test]
fn only_what_may_become_a_stop_string_is_held_back() {
    let mut matcher = StopMatcher::new(StopConditions::new(&stop_at(&["abcabd", "bcx"])).unwrap());
    for (bytes, shown, held) in [
        ("zz", "zz", ""),
        ("a", "", "a"),
        ("bcab", "", "abcab"),
        // The first "abc" can no longer become a stop string, the second can.
        ("c", "abc", "abc"),
        // "bca" is no beginning of a stop string, "a" is.
        ("a", "", "abca"),
        ("a", "abca", "a"),
        ("yb", "ay", "b"),
    ] {
        assert_eq!(
            matcher.push(1, bytes.as_bytes()),
            Progress { text: shown.as_bytes(), finish: None, rewind: None }
        );
        assert_eq!(matcher.held_back(), held.as_bytes());
    }
    let progress = matcher.push(1, b"cxx");
    assert_eq!(progress, Progress { text: b"", finish: SECOND, rewind: None });
}

#[test]
fn the_stop_string_completed_first_wins_then_the_first_in_the_list() {
    let shown = |stop: &[&str], text: &str| {
        let (shown, finish) = run(&stop_at(stop), &[text]);
        (shown.concat(), finish)
    };
    // "bc" ends before "abcd", which begins earlier and is named earlier.
    assert_eq!(shown(&["abcd", "bc"], "xabcd"), ("xa".to_owned(), SECOND));
    assert_eq!(shown(&["ab", "aab"], "xaab"), ("xa".to_owned(), FIRST));
    assert_eq!(shown(&["aab", "ab"], "xaab"), ("x".to_owned(), FIRST));
    assert_eq!(shown(&["ab", "ab"], "ab"), (String::new(), FIRST));
}

#[test]
fn the_stop_string_stays_if_asked_and_nothing_is_held_back() {
    let params = SamplingParams { include_stop_str_in_output: true, ..stop_at(&["stop"]) };
    let expected = vec!["ast".to_owned(), "o".to_owned(), "p".to_owned()];
    assert_eq!(run(&params, &["ast", "o", "ped"]), (expected, FIRST));
}

#[test]
fn ids_end_the_sequence_and_their_text_is_dropped() {
    let params =
        SamplingParams { eos_token_id: vec![7, 8], stop_token_ids: vec![8, 9], ..stop_at(&["stop"]) };
    let end = |params: &SamplingParams, token| {
        let (shown, finish) = run_tokens(params, &[(1, "a st"), (token, "op")]);
        (shown.concat(), finish)
    };
    // The text held back does not become a stop string: the id is checked before the text.
    assert_eq!(end(&params, 7), ("a st".to_owned(), Some(Finish::Eos { token: 7 })));
    assert_eq!(end(&params, 8), ("a st".to_owned(), Some(Finish::Eos { token: 8 })));
    assert_eq!(end(&params, 9), ("a st".to_owned(), Some(Finish::StopToken { token: 9 })));

    let include = SamplingParams { include_stop_str_in_output: true, ..params.clone() };
    assert_eq!(end(&include, 7), ("a stop".to_owned(), Some(Finish::Eos { token: 7 })));

    let ignore = SamplingParams { ignore_eos: true, ..params };
    assert_eq!(end(&ignore, 7), ("a ".to_owned(), FIRST));
    assert_eq!(end(&ignore, 8), ("a st".to_owned(), Some(Finish::StopToken { token: 8 })));
}

#[test]
fn the_length_comes_last_and_shows_what_was_held_back() {
    let params = SamplingParams { max_tokens: 2, eos_token_id: vec![7], ..stop_at(&["stop"]) };
    let shown = |first: &str, second: &str| vec![first.to_owned(), second.to_owned()];
    assert_eq!(run(&params, &["a", "b st", "op"]), (shown("a", "b st"), Some(Finish::Length)));
    assert_eq!(run(&params, &["a st", "op"]), (shown("a ", ""), FIRST));
    assert_eq!(
        run_tokens(&params, &[(1, "a"), (7, "</s>")]),
        (shown("a", ""), Some(Finish::Eos { token: 7 }))
    );
    let params = SamplingParams { output_token_ids: vec![1], ..params };
    assert_eq!(run(&params, &["a st", "op"]), (vec!["a st".to_owned()], Some(Finish::Length)));
    let params = SamplingParams { output_token_ids: vec![1; 5], ..params };
    assert_eq!(run(&params, &["a"]), (vec!["a".to_owned()], Some(Finish::Length)));
}

#[test]
fn the_first_min_tokens_cannot_stop() {
    let params = |min_tokens| SamplingParams { min_tokens, eos_token_id: vec![99], ..stop_at(&["e"]) };
    let pieces = [" is", " Lee", ",", " and", " I", "'m", " a", " student", " in"];
    let text = |min_tokens| run(&params(min_tokens), &pieces).0.concat();
    assert_eq!(text(0), " is L");
    assert_eq!(text(1), " is L");
    assert_eq!(text(2), " is Lee, and I'm a stud");
    assert_eq!(text(5), " is Lee, and I'm a stud");

    let early = [(99, "x"), (99, "y"), (99, "z")];
    assert_eq!(run_tokens(&params(0), &early), (vec![String::new()], Some(Finish::Eos { token: 99 })));
    let expected = ["x", "y", ""].map(str::to_owned).to_vec();
    assert_eq!(run_tokens(&params(2), &early), (expected, Some(Finish::Eos { token: 99 })));

    let exact = SamplingParams { max_tokens: 2, ..params(2) };
    assert_eq!(run(&exact, &["e", "e"]), (vec!["e".to_owned(); 2], Some(Finish::Length)));
    let written = SamplingParams { output_token_ids: vec![1, 1], ..params(2) };
    assert_eq!(run(&written, &["e"]), (vec![String::new()], FIRST));
}

#[test]
fn a_stop_string_may_begin_within_min_tokens() {
    let params = SamplingParams { min_tokens: 2, ..stop_at(&["abab"]) };
    // The second token completes it too early, so it is text. Its "ab" is a beginning again, and the third
    // token completes that.
    let expected = ["x", "ab", ""].map(str::to_owned).to_vec();
    assert_eq!(run(&params, &["xa", "bab", "ab"]), (expected, FIRST));
}

#[test]
fn tokens_after_the_end_are_ignored() {
    let conditions = Arc::new(StopConditions::new(&stop_at(&["stop"])).unwrap());
    let mut matcher = StopMatcher::new(conditions.clone());
    assert_eq!(matcher.push(1, b"stop").finish, FIRST);
    assert_eq!(matcher.push(2, b"more"), Progress { text: b"", finish: FIRST, rewind: None });
    assert_eq!(matcher.held_back(), b"");
    assert_eq!(matcher.finish(), b"");

    let mut matcher = StopMatcher::new(conditions);
    assert_eq!(matcher.push(1, b"no sto").text, b"no ");
    assert_eq!(matcher.finish(), b"sto");
    assert_eq!(matcher.held_back(), b"");
    assert_eq!(matcher.finish(), b"");
    assert_eq!(matcher.push(2, b"p"), Progress { text: b"", finish: None, rewind: None });
}

#[test]
fn bytes_may_be_any() {
    let mut matcher = StopMatcher::new(StopConditions::new(&stop_at(&["é!"])).unwrap());
    assert_eq!(matcher.push(u32::MAX, b"\xff\xc3").text, b"\xff");
    assert_eq!(matcher.push(0, b"\xa9").text, b"");
    assert_eq!(matcher.push(0, b"\xa9\x00").text, b"\xc3\xa9\xa9\x00");
}

#[test]
fn bad_parameters_are_named() {
    assert_eq!(StopConditions::new(&stop_at(&["a", ""])).unwrap_err().field(), "stop[1]");
    let params = SamplingParams { min_tokens: 17, ..SamplingParams::default() };
    assert_eq!(StopConditions::new(&params).unwrap_err().field(), "min_tokens");
}

#[test]
fn reasons_have_their_names_in_json() {
    let reasons = [Finish::Eos { token: 1 }, Finish::StopToken { token: 1 }, FIRST.unwrap(), Finish::Length];
    let names = serde_json::to_string(&reasons.map(Finish::reason)).unwrap();
    assert_eq!(names, r#"["eos","stop","stop","length"]"#);
}

#[test]
fn characters_wait_for_their_last_byte() {
    let mut stream = Utf8Stream::default();
    assert_eq!(stream.push(b"a\xe2\x82"), "a");
    assert_eq!(stream.push(b""), "");
    assert_eq!(stream.push(b"\xac\xf0\x9f"), "€");
    assert_eq!(stream.push(b"b\xff"), "\u{fffd}b\u{fffd}");
    assert_eq!(stream.push(b"\xc3"), "");
    assert_eq!(stream.finish(), "\u{fffd}");
    assert_eq!(stream.finish(), "");
    assert_eq!(stream.push(b"c"), "c");
}
