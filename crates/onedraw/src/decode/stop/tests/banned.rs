//! Banned phrases, one test per rule.

use crate::SamplingParams;
use crate::decode::stop::{Finish, Progress, Rewind, StopConditions, StopMatcher};

fn ban(phrases: &[&str]) -> SamplingParams {
    let banned_strings = phrases.iter().map(|&text| text.to_owned()).collect();
    SamplingParams { banned_strings, max_tokens: 100, ..SamplingParams::default() }
}

fn matcher(params: &SamplingParams) -> StopMatcher {
    StopMatcher::new(StopConditions::new(params).unwrap())
}

fn back(length: usize, token: u32, phrase: usize) -> Option<Rewind> {
    Some(Rewind { length, token, phrase })
}

/// Pushes the pieces as tokens 10, 11, 12, …, and checks what each shows and what it leaves held back. None
/// of them goes back or ends the sequence.
#[track_caller]
fn follow(matcher: &mut StopMatcher, steps: &[(&str, &str, &str)]) {
    for (token, (piece, shown, held)) in (10..).zip(steps) {
        let progress = matcher.push(token, piece.as_bytes());
        assert_eq!(progress, Progress { text: shown.as_bytes(), finish: None, rewind: None }, "{piece}");
        assert_eq!(matcher.held_back(), held.as_bytes(), "{piece}");
    }
}

/// Pushes the pieces as tokens 10, 11, 12, …. The last one goes back, the others do not.
#[track_caller]
fn goes_back(params: &SamplingParams, pieces: &[&str], rewind: Option<Rewind>) -> StopMatcher {
    let mut matcher = matcher(params);
    for (number, (token, piece)) in (1..).zip((10..).zip(pieces)) {
        let progress = matcher.push(token, piece.as_bytes());
        let expected = if number == pieces.len() { rewind } else { None };
        assert_eq!((progress.rewind, progress.finish), (expected, None), "{pieces:?} at {number}");
        assert!(expected.is_none() || progress.text.is_empty(), "{pieces:?}");
    }
    matcher
}

#[test]
fn the_first_token_is_the_one_with_the_first_byte() {
    let params = ban(&["pause"]);
    for (pieces, rewind) in [
        (&["pause"][..], back(0, 10, 0)),
        (&["a ", "unpaused clock"], back(1, 11, 0)),
        (&["pau", "se"], back(0, 10, 0)),
        // The phrase begins in the middle of one token and ends in the middle of another.
        (&["a", " menop", "a", "uses"], back(1, 11, 0)),
        // The first beginning does not become the phrase.
        (&["pau", "pau", "s", "e"], back(1, 11, 0)),
        (&["x", "p", "a", "u", "s", "e"], back(1, 11, 0)),
    ] {
        goes_back(&params, pieces, rewind);
    }
    // Exact bytes only.
    goes_back(&params, &["pau", "s", "E", " Pause pau se"], None);
}

#[test]
fn an_empty_token_is_never_the_first() {
    let params = ban(&["ab"]);
    goes_back(&params, &["", "", "a", "", "b"], back(2, 12, 0));
    goes_back(&params, &["x", "", "ab"], back(2, 12, 0));
    goes_back(&params, &["xa", "", "", "b"], back(0, 10, 0));
    // The tokens before the first token of the phrase stay.
    let mut matcher = goes_back(&ban(&["ab", "cab"]), &["c", "", "", "xab"], back(3, 13, 0));
    assert_eq!(matcher.push(1, b"ab").rewind, back(0, 10, 1));
}

#[test]
fn the_matcher_has_gone_back_itself() {
    let mut matcher = goes_back(&ban(&["abcd"]), &["x", "a", "bc", "d"], back(1, 11, 0));
    assert_eq!(matcher.held_back(), b"");
    // The end of the phrase alone completes nothing; the newly drawn token takes position 1.
    follow(&mut matcher, &[("bcd", "bcd", ""), ("ya", "", "ya")]);
    assert_eq!(matcher.push(3, b"bcde").rewind, back(2, 11, 0));
    assert_eq!(matcher.push(4, b"z").text, b"z");
}

#[test]
fn going_back_again_bans_another_token() {
    let mut matcher = goes_back(&ban(&["aa"]), &["x", "a", "a"], back(1, 11, 0));
    assert_eq!(matcher.push(20, b"aa").rewind, back(1, 20, 0));
    assert_eq!(matcher.push(21, b"ya").rewind, None);
    assert_eq!(matcher.push(22, b"a").rewind, back(1, 21, 0));
    assert_eq!(matcher.push(23, b"b").text, b"b");
}

#[test]
fn whole_tokens_are_held_back() {
    let mut matcher = matcher(&ban(&["abc", "é!"]));
    follow(
        &mut matcher,
        &[
            ("zz", "zz", ""),
            ("xxa", "", "xxa"),
            ("b", "", "xxab"),
            ("x", "xxabx", ""),
            // A character that is cut in two.
            ("y\u{e9}", "", "yé"),
            ("?", "yé?", ""),
        ],
    );
    assert_eq!(matcher.push(1, b"\xff\xc3").text, b"");
    assert_eq!(matcher.push(2, b"\xa8").text, b"\xff\xc3\xa8");
    assert_eq!(matcher.push(3, b"\xc3").text, b"");
    assert_eq!(matcher.push(4, b"\xa9").text, b"");
    assert_eq!(matcher.push(5, b"!").rewind, back(8, 3, 1));
    assert_eq!(matcher.push(6, b"\xa9!").text, b"\xa9!");
}

#[test]
fn what_going_back_may_open_again_stays_held_back() {
    let params = ban(&["ab", "cd", "ef"]);
    let mut matcher = matcher(&params);
    // "ac" is no longer the beginning of "ab", but before "c" it was.
    follow(&mut matcher, &[("x", "x", ""), ("a", "", "a"), ("c", "", "ac"), ("e", "", "ace")]);
    assert_eq!(matcher.clone().push(1, b"x").text, b"acex");
    assert_eq!(matcher.push(1, b"f").rewind, back(3, 13, 2));
    assert_eq!(matcher.held_back(), b"ac");
    assert_eq!(matcher.push(2, b"d").rewind, back(2, 12, 1));
    assert_eq!(matcher.held_back(), b"a");
    assert_eq!(matcher.push(3, b"b").rewind, back(1, 11, 0));
    assert_eq!(matcher.held_back(), b"");
    assert_eq!(matcher.push(4, b"b").text, b"b");
}

#[test]
fn overlapping_phrases() {
    // Of phrases that end together the one that begins first counts, then the first in the list.
    goes_back(&ban(&["c", "abc", "bc", "abc"]), &["x", "a", "b", "c"], back(1, 11, 1));
    goes_back(&ban(&["ab", "ab"]), &["ab"], back(0, 10, 0));
    // The phrase completed first counts, though another begins earlier.
    goes_back(&ban(&["abcd", "bc"]), &["a", "b", "cd"], back(1, 11, 1));
    // Several phrases in one token.
    goes_back(&ban(&["ef", "cd", "ab"]), &["x", "-ab-cd-ef"], back(1, 11, 2));
    // After "abc" the beginning of "bcd" is found without its first byte being read again.
    goes_back(&ban(&["abcx", "bcd"]), &["a", "b", "c", "d"], back(1, 11, 1));
}

#[test]
fn a_phrase_that_overlaps_itself() {
    let params = ban(&["aaa"]);
    let mut matcher = goes_back(&params, &["a", "a", "a"], back(0, 10, 0));
    // The state is that of no text, not of "aa".
    follow(&mut matcher, &[("aa", "", "aa"), ("b", "aab", "")]);
    goes_back(&params, &["b", "aaaa"], back(1, 11, 0));
    goes_back(&ban(&["abab"]), &["ab", "b", "a", "b", "ab"], back(2, 12, 0));
    goes_back(&ban(&["aab"]), &["a", "a", "a", "a", "b"], back(2, 12, 0));
}

#[test]
fn a_stop_string_or_a_phrase_whichever_is_completed_first() {
    let both = |stop: &str, phrase: &str| SamplingParams { stop: vec![stop.to_owned()], ..ban(&[phrase]) };
    let stop = Some(Finish::StopString { index: 0 });
    for include in [false, true] {
        let with = |params: SamplingParams| SamplingParams { include_stop_str_in_output: include, ..params };
        goes_back(&with(both("abcd", "bc")), &["a", "bcd"], back(1, 11, 0));
        goes_back(&with(both("bc", "abc")), &["xa", "bc"], back(0, 10, 0));
        goes_back(&with(both("abc", "bc")), &["xa", "bc"], back(1, 11, 0));
        let mut matcher = matcher(&with(both("bc", "abcd")));
        assert_eq!(matcher.push(1, b"xa").text, b"");
        let progress = matcher.push(2, b"bcd");
        let text: &[u8] = if include { b"xabc" } else { b"xa" };
        assert_eq!(progress, Progress { text, finish: stop, rewind: None });
        assert_eq!(matcher.push(3, b"d"), Progress { text: b"", finish: stop, rewind: None });
    }
}

#[test]
fn what_a_stop_string_held_back_stays_so_where_it_may_go_on() {
    let params = SamplingParams { stop: vec!["xyz".to_owned()], ..ban(&["ab"]) };
    let mut matcher = matcher(&params);
    follow(&mut matcher, &[("-x", "-", "x"), ("ya", "", "xya")]);
    assert_eq!(matcher.clone().push(12, b"c").text, b"xyac");
    assert_eq!(matcher.push(12, b"b").rewind, back(1, 11, 0));
    assert_eq!(matcher.held_back(), b"x");
    let progress = matcher.push(13, b"yz");
    assert_eq!(progress.finish, Some(Finish::StopString { index: 0 }));
    assert_eq!(progress.text, b"");

    let include = SamplingParams { include_stop_str_in_output: true, ..params };
    let mut matcher = self::matcher(&include);
    follow(&mut matcher, &[("-x", "-x", ""), ("ya", "", "ya")]);
    assert_eq!(matcher.push(12, b"b").rewind, back(1, 11, 0));
    let progress = matcher.push(13, b"yza");
    assert_eq!(progress.finish, Some(Finish::StopString { index: 0 }));
    assert_eq!(progress.text, b"yz");
}

#[test]
fn ids_are_judged_before_the_text() {
    let params = SamplingParams { eos_token_id: vec![7], stop_token_ids: vec![8], ..ban(&["ab"]) };
    for (token, finish) in [(7, Finish::Eos { token: 7 }), (8, Finish::StopToken { token: 8 })] {
        let mut dropped = matcher(&params);
        assert_eq!(dropped.push(1, b"a").text, b"");
        assert_eq!(dropped.push(token, b"b"), Progress { text: b"a", finish: Some(finish), rewind: None });

        // Text that is shown is searched, and an end that is taken back is no end.
        let include = SamplingParams { include_stop_str_in_output: true, ..params.clone() };
        let mut shown = matcher(&include);
        assert_eq!(shown.push(1, b"a").text, b"");
        assert_eq!(shown.push(token, b"b"), Progress { text: b"", finish: None, rewind: back(0, 1, 0) });
        assert_eq!(shown.push(token, b"xab").rewind, back(0, token, 0));
        assert_eq!(shown.push(token, b"xa"), Progress { text: b"xa", finish: Some(finish), rewind: None });
    }
}

#[test]
fn the_last_token_allowed_may_go_back() {
    let params = SamplingParams { max_tokens: 2, ..ban(&["ab"]) };
    let mut matcher = goes_back(&params, &["a", "b"], back(0, 10, 0));
    assert_eq!(matcher.push(1, b"b").finish, None);
    let end = Progress { text: b"a", finish: Some(Finish::Length), rewind: None };
    assert_eq!(matcher.push(2, b"a"), end);
    assert_eq!(matcher.held_back(), b"");
    assert_eq!(matcher.push(3, b"b"), Progress { text: b"", ..end });
}

#[test]
fn lengths_go_back_too() {
    // The stop string counts from the third token on, counted after the token was taken back.
    let params = SamplingParams { min_tokens: 2, stop: vec!["z".to_owned()], ..ban(&["ab"]) };
    let mut matcher = goes_back(&params, &["x", "a", "b"], back(1, 11, 0));
    follow(&mut matcher, &[("z", "z", "")]);
    assert_eq!(matcher.push(1, b"z").finish, Some(Finish::StopString { index: 0 }));
}

#[test]
fn min_tokens_has_no_say() {
    goes_back(&SamplingParams { min_tokens: 50, ..ban(&["ab"]) }, &["a", "b"], back(0, 10, 0));
}

#[test]
fn tokens_written_before_count_but_begin_no_phrase() {
    let params = SamplingParams { output_token_ids: vec![1, 2, 3], ..ban(&["ab"]) };
    goes_back(&params, &["b", "a", "b"], back(4, 11, 0));
}

#[test]
fn the_end_from_outside_shows_what_was_held_back() {
    let mut matcher = matcher(&ban(&["ab"]));
    assert_eq!(matcher.push(1, b"xa").text, b"");
    assert_eq!(matcher.finish(), b"xa");
    assert_eq!(matcher.push(2, b"b"), Progress { text: b"", finish: None, rewind: None });
}

#[test]
fn a_clone_goes_its_own_way() {
    let mut matcher = matcher(&ban(&["abc"]));
    assert_eq!(matcher.push(1, b"xa").rewind, None);
    let mut trial = matcher.clone();
    assert_eq!(trial.push(2, b"bc").rewind, back(0, 1, 0));
    assert_eq!(matcher.push(3, b"b").rewind, None);
    assert_eq!(matcher.push(4, b"c").rewind, back(0, 1, 0));
}

#[test]
fn a_rewind_in_json() {
    let json = serde_json::to_string(&Rewind { length: 3, token: 17, phrase: 0 }).unwrap();
    assert_eq!(json, r#"{"length":3,"token":17,"phrase":0}"#);
}
