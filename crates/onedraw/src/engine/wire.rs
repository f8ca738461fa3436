//! Messages between a draw and the shards of its row, where these are in other processes or on other devices.
//!
//! A draw puts each question to every shard; each shard sends one reply back. The format has a version, and
//! everything in it has a fixed width, little-endian:
//!
//! - A *question* has a header of 34 bytes: version u8, kind u8, draw u64, number u32, then seed u64,
//!   position u32, sequence u32 and round u32 of the draw's noise. The fields of the question follow.
//! - A *reply* has a header of 42 bytes: that of the question, then start u32 and length u32 of the tokens
//!   that the shard holds. The fields of the answer follow, then its list, 8 bytes per entry. The number of
//!   entries follows from the question where they are sums; before keys it is written as u32. The points
//!   that come with an opening are the last, 2 bytes each.
//! - A *failure* has the header of a reply, with kind 255, then a text that says why there is no answer.
//!
//! `draw` is another number for every draw of the asking process, also for one that is repeated (where
//! every rank draws, it stands for the parameters and the history), and `number` counts its questions: the
//! asker knows by them which question a reply answers. The noise is what a shard checks: it says which row
//! of which sequence the question is about. Kinds are in the table of `logits/query.rs`.
//!
//! A reply is checked before it is used: version, kind, draw and number, length to the byte, and that every
//! token and every sum in it is one that the shard's tokens can have. What fails a check is a
//! [`Fault`](crate::fault::Fault) that names the shard.

use crate::fault::Problem;
use crate::logits::answer::{Answer, Held, Lists};
use crate::logits::code::{Field, Reader, Sink};
use crate::logits::query::{LONGEST_SUMS, Open, Query, Question};
use crate::numeric::key::Key;
use crate::numeric::noise::Noise;

/// The version of the format.
pub const VERSION: u8 = 1;

/// The kind of a reply that is no answer.
const FAILURE: u8 = 255;

/// More than any answer takes without its list.
const LARGEST_ANSWER: usize = 64;

/// The most bytes of a failure's text.
const LONGEST_FAILURE: usize = 1000;

/// The bytes of a question's header.
const QUESTION_HEADER: usize = 34;

/// The bytes of a reply's header: that of the question, and the tokens of the shard.
pub(crate) const REPLY_HEADER: usize = QUESTION_HEADER + 8;

/// Which question of which draw a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// The draw: no other draw of the asking process has this number.
    pub draw: u64,
    /// Counts the questions of a draw.
    pub number: u32,
    /// The noise of the draw; of a greedy one, without the seed.
    pub noise: Noise,
}

impl Stamp {
    fn write(&self, kind: u8, to: &mut impl Sink) {
        let Noise { seed, position, sequence, round } = self.noise;
        VERSION.write(to);
        kind.write(to);
        self.draw.write(to);
        self.number.write(to);
        seed.write(to);
        position.write(to);
        sequence.write(to);
        round.write(to);
    }

    /// The stamp and the kind, of the version that was read already.
    fn read(from: &mut Reader<'_>) -> Option<(Self, u8)> {
        let kind = u8::read(from)?;
        let (draw, number) = (u64::read(from)?, u32::read(from)?);
        let noise = Noise {
            seed: u64::read(from)?,
            position: u32::read(from)?,
            sequence: u32::read(from)?,
            round: u32::read(from)?,
        };
        Some((Self { draw, number, noise }, kind))
    }
}

/// The most bytes that a reply about a row of `vocabulary` logits can have.
pub(crate) fn longest_reply(vocabulary: usize) -> usize {
    REPLY_HEADER + LARGEST_ANSWER + 8 * vocabulary.max(LONGEST_SUMS)
}

/// The most bytes that a reply to an [`Open`] can have: the header, the answer, the number of keys, the best
/// tokens and finishers, and the points.
pub(crate) const LONGEST_OPENING: usize =
    REPLY_HEADER + 26 + 4 + 8 * (Open::MAX_BEST as usize + Open::FINISHERS) + 2 * Open::POINTS;

/// The question of a message of this process.
pub(crate) fn read_question(question: &[u8]) -> Option<Question> {
    let mut from = Reader(question);
    u8::read(&mut from)?;
    let (_, kind) = Stamp::read(&mut from)?;
    Question::read(kind, &mut from)
}

/// The header of an answer to a question, from a shard that holds these tokens.
pub(crate) fn reply_header(question: &[u8], held: Held) -> Option<[u8; REPLY_HEADER]> {
    let mut header = question.get(..QUESTION_HEADER)?.to_vec();
    held.write(&mut header);
    header.try_into().ok()
}

/// The most bytes that a reply to a question about a row of `vocabulary` logits can have, as message.
pub(crate) fn longest_reply_to(question: &[u8], vocabulary: usize) -> usize {
    let entries = read_question(question).map_or(0, |question| question.most_entries(vocabulary));
    (REPLY_HEADER + LARGEST_ANSWER + 8 * entries).max(REPLY_HEADER + LONGEST_FAILURE)
}

/// A question as a message.
pub(crate) fn write_question<Q: Query>(query: &Q, stamp: &Stamp, to: &mut Vec<u8>) {
    to.clear();
    stamp.write(Q::KIND, to);
    query.write(to);
}

/// The question that a reply must answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub stamp: Stamp,
    pub kind: u8,
    pub name: &'static str,
}

/// The tokens that a shard holds and the body of its reply, if the reply answers this question.
pub(crate) fn read_header<'m>(expected: &Expected, message: &'m [u8]) -> Result<(Held, &'m [u8]), Problem> {
    let mut from = Reader(message);
    let version = u8::read(&mut from).ok_or(Problem::Cut)?;
    if version != VERSION {
        return Err(Problem::Version(version));
    }
    let (stamp, kind) = Stamp::read(&mut from).ok_or(Problem::Cut)?;
    let held = Held::read(&mut from).ok_or(Problem::Cut)?;
    if kind == FAILURE {
        return Err(Problem::Failed(failure_text(from.0)));
    }
    if stamp != expected.stamp {
        return Err(Problem::OtherDraw);
    }
    if kind != expected.kind {
        return Err(Problem::Kind { asked: expected.name, answered: Question::name_of(kind) });
    }
    Ok((held, from.0))
}

/// The answer of a shard that holds these tokens. The list that comes with it is added to `lists`.
pub(crate) fn read_body<Q: Query>(
    query: &Q,
    held: &Held,
    body: &[u8],
    lists: &mut Lists,
) -> Result<Q::Answer, Problem> {
    let mut from = Reader(body);
    let answer = Q::Answer::read(&mut from).ok_or(Problem::Cut)?;
    if !query.fits(&answer, held) {
        return Err(Problem::Impossible("an answer"));
    }
    let points = from.take_last(2 * query.points()).ok_or(Problem::Cut)?;
    lists.points.extend(points.as_chunks().0.iter().map(|&point| u16::from_le_bytes(point)));
    if Q::LISTS_KEYS {
        // What is weighed is at most as large as the largest logit of the row.
        let highest = query.softmax().map_or(f32::INFINITY, |softmax| softmax.x_max);
        read_keys(held, query.most_keys(held.length), highest, &mut from, &mut lists.keys)?;
    } else {
        read_sums(query.sums(), query.largest_sum(held.length), from.0, lists)?;
    }
    Ok(answer)
}

/// Keys of the shard's tokens, at most so many, whose logits are at most `highest`.
fn read_keys(
    held: &Held,
    most: u32,
    highest: f32,
    from: &mut Reader<'_>,
    keys: &mut Vec<Key>,
) -> Result<(), Problem> {
    let count = u32::read(from).ok_or(Problem::Cut)?;
    if count > most {
        return Err(Problem::Impossible("a number of tokens"));
    }
    let entries = read_entries(from.0, count as usize)?;
    keys.reserve(entries.len());
    for key in entries.iter().map(|&entry| Key::from_number(u64::from_le_bytes(entry))) {
        let is_possible = key <= Key::END && !key.logit().is_nan() && key.logit() <= highest;
        if !is_possible || !held.has(key.token()) {
            return Err(Problem::Impossible("a token"));
        }
        keys.push(key);
    }
    Ok(())
}

/// So many sums, none of which is above `largest`.
fn read_sums(count: usize, largest: u64, bytes: &[u8], lists: &mut Lists) -> Result<(), Problem> {
    let entries = read_entries(bytes, count)?;
    if count == 0 {
        return Ok(());
    }
    for (sum, &entry) in lists.sums_of(count).iter_mut().zip(entries) {
        let number = u64::from_le_bytes(entry);
        if number > largest {
            return Err(Problem::Impossible("a sum"));
        }
        *sum += number;
    }
    Ok(())
}

/// The `count` entries of a list, to the last byte of the message.
fn read_entries(bytes: &[u8], count: usize) -> Result<&[[u8; 8]], Problem> {
    match bytes.as_chunks() {
        (entries, []) if entries.len() == count => Ok(entries),
        (entries, _) if entries.len() >= count => Err(Problem::TooLong),
        _ => Err(Problem::Cut),
    }
}

/// The text of a failure, at most a few lines of it.
fn failure_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST_FAILURE)]).into_owned()
}

/// The bytes of a failure's text, at most so many that it can be read.
fn cut_text(text: String) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    bytes.truncate(LONGEST_FAILURE);
    bytes
}

/// A reply that is no answer, to whatever was asked.
pub(crate) fn failure(text: &str) -> Vec<u8> {
    let noise = Noise { seed: 0, position: 0, sequence: 0, round: 0 };
    let mut message = Vec::new();
    Stamp { draw: 0, number: 0, noise }.write(FAILURE, &mut message);
    Held { start: 0, length: 0 }.write(&mut message);
    message.extend_from_slice(&cut_text(text.to_owned()));
    message
}

/// The text of a reply that is no answer; `None` if it is one, or cannot be read.
pub(crate) fn failed(reply: &[u8]) -> Option<String> {
    let is_failure = reply.first() == Some(&VERSION) && reply.get(1) == Some(&FAILURE);
    is_failure.then(|| failure_text(reply.get(REPLY_HEADER..).unwrap_or_default()))
}

/// Answers a question that came as a message, for the shard that holds these tokens in the draw with this
/// noise. What cannot be read or answered becomes a failure, which the asker reports with the shard's number.
///
/// `answer` finds the answer and fills the lists. Most shards are a [`Shard`](crate::Shard), which calls
/// this; a shard on a device calls it with an `answer` of its own.
pub fn reply(
    noise: Noise,
    held: Held,
    question: &[u8],
    answer: impl FnOnce(&Question, &mut Lists) -> Result<Answer, String>,
) -> Vec<u8> {
    let (stamp, kind, body) = match answer_message(noise, question, answer) {
        Ok((stamp, kind, body)) => (stamp, kind, body),
        Err((stamp, text)) => (stamp, FAILURE, cut_text(text)),
    };
    let mut message = Vec::with_capacity(REPLY_HEADER + body.len());
    stamp.write(kind, &mut message);
    held.write(&mut message);
    message.extend_from_slice(&body);
    message
}

/// The stamp, kind and body of the reply, or a text that says why there is none.
fn answer_message(
    noise: Noise,
    question: &[u8],
    answer: impl FnOnce(&Question, &mut Lists) -> Result<Answer, String>,
) -> Result<(Stamp, u8, Vec<u8>), (Stamp, String)> {
    let unknown = Stamp { draw: 0, number: 0, noise };
    let mut from = Reader(question);
    let version = u8::read(&mut from).ok_or((unknown, "the question is empty".to_owned()))?;
    if version != VERSION {
        return Err((unknown, format!("the question is in version {version} of the format, not {VERSION}")));
    }
    let (stamp, kind) = Stamp::read(&mut from).ok_or((unknown, "the question is cut short".to_owned()))?;
    if stamp.noise != noise {
        let (asked, own) = (stamp.noise.position, noise.position);
        let text = format!("the question is about another draw: position {asked}, here {own}");
        return Err((stamp, text));
    }
    let question = Question::read(kind, &mut from)
        .ok_or_else(|| (stamp, format!("the question of kind {kind} cannot be read")))?;
    let mut lists = Lists::default();
    let answer = answer(&question, &mut lists).map_err(|text| (stamp, text))?;
    if !question.is_answered_by(&answer, &lists) {
        return Err((stamp, format!("the answer to {} is of another kind", question.name())));
    }
    let mut body = Vec::new();
    answer.write(&mut body);
    if question.lists_keys() {
        (lists.keys.len() as u32).write(&mut body);
    }
    lists.keys.iter().for_each(|key| key.write(&mut body));
    lists.sums.iter().for_each(|sum| sum.write(&mut body));
    lists.points.iter().for_each(|point| point.write(&mut body));
    Ok((stamp, kind, body))
}
