//! The stop matcher against a search of the whole text.

use onedraw::SamplingParams;
use onedraw::stop::{Finish, Rewind, StopConditions, StopMatcher, Utf8Stream};

use super::Bytes;

/// Characters of one to four bytes, the first ones often enough to meet.
const CHARACTERS: [char; 8] = ['a', 'a', 'b', 'c', '\n', 'é', '€', '😀'];
/// The bytes of these, and one that is in no character.
const PIECES: [u8; 14] =
    [b'a', b'a', b'b', b'c', b'\n', 0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0xff];

type Token = (u32, Vec<u8>);

/// Stop ids, stop strings, banned phrases and lengths over tokens of any bytes, against a search of the whole
/// text after every token.
pub fn stop(data: &[u8]) {
    let mut bytes = Bytes(data);
    let flags = bytes.u8();
    let min_tokens = bytes.below(8) as u32;
    let params = SamplingParams {
        min_tokens,
        max_tokens: (min_tokens + bytes.below(24) as u32).max(1),
        ignore_eos: flags & 1 == 1,
        include_stop_str_in_output: flags & 2 == 2,
        eos_token_id: vec![6, 7],
        stop_token_ids: vec![7, 8],
        output_token_ids: vec![0; usize::from(flags >> 6)],
        stop: strings(&mut bytes),
        banned_strings: if flags & 4 == 4 { strings(&mut bytes) } else { Vec::new() },
        ..SamplingParams::default()
    };
    let mut matcher = StopMatcher::new(StopConditions::new(&params).expect("valid parameters"));
    let (mut tokens, mut text, mut shown) = (Vec::new(), Vec::new(), Vec::new());
    let mut stream = Utf8Stream::default();
    let mut read = String::new();
    while !bytes.0.is_empty() {
        let token = bytes.below(16) as u32;
        let piece = bytes.list(8, |bytes| match bytes.u8() {
            byte @ 0..=223 => PIECES[usize::from(byte) % PIECES.len()],
            byte => byte,
        });
        tokens.push((token, piece.clone()));
        let verdict = judge(&params, &tokens);
        let progress = matcher.push(token, &piece);
        shown.extend(progress.text);
        read.push_str(stream.push(progress.text));
        match verdict {
            Verdict::GoOn => assert_eq!((progress.finish, progress.rewind), (None, None), "{params:?}"),
            Verdict::GoBack(rewind) => {
                assert_eq!((progress.finish, progress.rewind), (None, Some(rewind)), "{params:?}");
                // A sampler would now ban the token there; here it may well come again.
                tokens.truncate(rewind.length - params.output_token_ids.len());
            }
            Verdict::End(finish, length) => {
                assert_eq!((progress.finish, progress.rewind), (Some(finish), None), "{params:?}");
                let again = matcher.push(token, &piece);
                assert_eq!((again.text, again.finish), (&b""[..], Some(finish)), "after the end");
                text = text_of(&tokens);
                text.truncate(length);
                break;
            }
        }
        text = text_of(&tokens);
        let certain = certain(&params, &tokens);
        assert_eq!((&shown[..], matcher.held_back()), text.split_at(certain), "{params:?}");
    }
    let rest = matcher.finish();
    shown.extend(rest);
    read.push_str(stream.push(rest));
    read.push_str(stream.finish());
    assert_eq!(shown, text);
    assert_eq!(read, String::from_utf8_lossy(&text));
    for phrase in &params.banned_strings {
        assert!(!text.windows(phrase.len()).any(|window| window == phrase.as_bytes()), "{params:?}");
    }
}

fn strings(bytes: &mut Bytes) -> Vec<String> {
    bytes.list(5, |bytes| (0..=bytes.below(7)).map(|_| CHARACTERS[bytes.below(CHARACTERS.len())]).collect())
}

fn text_of(tokens: &[Token]) -> Vec<u8> {
    tokens.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect()
}

/// The place of the token that holds a byte of the text.
fn holder(tokens: &[Token], byte: usize) -> usize {
    (0..tokens.len()).find(|&place| text_of(&tokens[..=place]).len() > byte).expect("a byte of the text")
}

/// What follows from a token.
enum Verdict {
    GoOn,
    GoBack(Rewind),
    /// The end, and how much of the text belongs to it.
    End(Finish, usize),
}

/// Every rule in its plainest form: what follows from the last of the tokens.
fn judge(params: &SamplingParams, tokens: &[Token]) -> Verdict {
    let (last, before) = tokens.split_last().expect("a token");
    let (token, before, text) = (last.0, text_of(before).len(), text_of(tokens));
    let (written, include) = (params.output_token_ids.len(), params.include_stop_str_in_output);
    let number = written + tokens.len();
    let may_stop = number > params.min_tokens as usize;
    let is_eos = !params.ignore_eos && params.eos_token_id.contains(&token);
    let finish = if is_eos { Finish::Eos { token } } else { Finish::StopToken { token } };
    let by_id = (may_stop && (is_eos || params.stop_token_ids.contains(&token))).then_some(finish);
    if let Some(finish) = by_id.filter(|_| !include) {
        return Verdict::End(finish, before);
    }
    for end in before + 1..=text.len() {
        let completed = |string: &String| text[..end].ends_with(string.as_bytes());
        // The first that begins where the one that begins earliest does.
        let longest = params.banned_strings.iter().filter(|phrase| completed(phrase)).map(String::len).max();
        let is_longest = |phrase: &String| Some(phrase.len()) == longest && completed(phrase);
        if let Some(phrase) = params.banned_strings.iter().position(is_longest) {
            let place = holder(tokens, end - params.banned_strings[phrase].len());
            return Verdict::GoBack(Rewind { length: written + place, token: tokens[place].0, phrase });
        }
        if let Some(index) = params.stop.iter().position(completed).filter(|_| may_stop && by_id.is_none()) {
            let length = if include { end } else { end - params.stop[index].len() };
            return Verdict::End(Finish::StopString { index }, length);
        }
    }
    let by_length = (number >= params.max_tokens as usize).then_some(Finish::Length);
    by_id.or(by_length).map_or(Verdict::GoOn, |finish| Verdict::End(finish, text.len()))
}

/// How much of the text can neither be taken back nor be cut off for a stop string, whatever follows. To go
/// back is to go on from before a token, and from there it may go back again.
fn certain(params: &SamplingParams, tokens: &[Token]) -> usize {
    let mut goes_on_from = vec![false; tokens.len()];
    goes_on_from.push(true);
    let mut certain = usize::MAX;
    for place in (0..=tokens.len()).rev() {
        if !goes_on_from[place] {
            continue;
        }
        let text = text_of(&tokens[..place]);
        let held = if params.include_stop_str_in_output { 0 } else { open(&params.stop, &text) };
        certain = certain.min(text.len() - held);
        for start in 0..text.len() {
            if is_beginning(&params.banned_strings, &text[start..]) {
                goes_on_from[holder(tokens, start)] = true;
            }
        }
    }
    certain
}

/// The length of the longest suffix of `text` that is a proper prefix of a stop string.
fn open(stop: &[String], text: &[u8]) -> usize {
    (0..=text.len()).rev().find(|length| is_beginning(stop, &text[text.len() - length..])).unwrap_or(0)
}

/// Whether the bytes are a proper prefix of a string.
fn is_beginning(strings: &[String], bytes: &[u8]) -> bool {
    strings.iter().any(|string| string.len() > bytes.len() && string.as_bytes().starts_with(bytes))
}
