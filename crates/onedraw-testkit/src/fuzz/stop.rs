//! The stop matcher against a search of the whole text.

use onedraw::SamplingParams;
use onedraw::stop::{Finish, StopConditions, StopMatcher, Utf8Stream};

use super::Bytes;

/// Characters of one to four bytes, the first ones often enough to meet.
const CHARACTERS: [char; 8] = ['a', 'a', 'b', 'c', '\n', 'é', '€', '😀'];
/// The bytes of these, and one that is in no character.
const PIECES: [u8; 14] =
    [b'a', b'a', b'b', b'c', b'\n', 0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0xff];

/// Stop ids, stop strings and lengths over tokens of any bytes, against a search of the whole text after every token.
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
        stop: bytes.list(5, |bytes| {
            (0..=bytes.below(7)).map(|_| CHARACTERS[bytes.below(CHARACTERS.len())]).collect()
        }),
        ..SamplingParams::default()
    };
    let mut matcher = StopMatcher::new(StopConditions::new(&params).expect("valid parameters"));
    let (mut text, mut shown, mut free) = (Vec::new(), Vec::<u8>::new(), 0);
    let mut stream = Utf8Stream::default();
    let mut read = String::new();
    let mut written = params.output_token_ids.len() as u32;
    while !bytes.0.is_empty() {
        let token = bytes.below(16) as u32;
        let piece = bytes.list(8, |bytes| match bytes.u8() {
            byte @ 0..=223 => PIECES[usize::from(byte) % PIECES.len()],
            byte => byte,
        });
        written += 1;
        let finish = finish(&params, token, &piece, written, &mut text, &mut free);
        let progress = matcher.push(token, &piece);
        shown.extend(progress.text);
        read.push_str(stream.push(progress.text));
        assert_eq!(progress.finish, finish, "{params:?}");
        let held =
            if finish.is_some() || params.include_stop_str_in_output { 0 } else { open(&params.stop, &text) };
        assert_eq!(shown, text[..text.len() - held], "{params:?}");
        assert_eq!(matcher.held_back(), &text[text.len() - held..], "{params:?}");
        if finish.is_some() {
            let again = matcher.push(token, &piece);
            assert_eq!((again.text, again.finish), (&b""[..], finish), "after the end");
            break;
        }
    }
    let rest = matcher.finish();
    shown.extend(rest);
    read.push_str(stream.push(rest));
    read.push_str(stream.finish());
    assert_eq!(shown, text);
    assert_eq!(read, String::from_utf8_lossy(&text));
}

/// Every rule in its plainest form. Adds to `text` what of the token belongs there, and cuts it where it ends. A stop
/// string counts if it ends after the first `free` bytes.
fn finish(
    params: &SamplingParams,
    token: u32,
    piece: &[u8],
    number: u32,
    text: &mut Vec<u8>,
    free: &mut usize,
) -> Option<Finish> {
    let include = params.include_stop_str_in_output;
    if number > params.min_tokens {
        let is_eos = !params.ignore_eos && params.eos_token_id.contains(&token);
        if is_eos || params.stop_token_ids.contains(&token) {
            text.extend(piece.iter().filter(|_| include));
            return Some(if is_eos { Finish::Eos { token } } else { Finish::StopToken { token } });
        }
    }
    text.extend(piece);
    if number <= params.min_tokens {
        *free = text.len();
    }
    for end in *free + 1..=text.len() {
        if let Some(index) = params.stop.iter().position(|stop| text[..end].ends_with(stop.as_bytes())) {
            text.truncate(if include { end } else { end - params.stop[index].len() });
            return Some(Finish::StopString { index });
        }
    }
    (number >= params.max_tokens).then_some(Finish::Length)
}

/// The length of the longest suffix of `text` that is a proper prefix of a stop string.
fn open(stop: &[String], text: &[u8]) -> usize {
    let is_open = |&length: &usize| {
        let suffix = &text[text.len() - length..];
        stop.iter().any(|stop| stop.len() > length && stop.as_bytes().starts_with(suffix))
    };
    (0..=text.len()).rev().find(is_open).unwrap_or(0)
}
