//! One step of a batch whose vocabulary is split over ranks: every rank holds a part of each row, and every
//! rank gets all tokens.
//!
//! No questions are sent. Every rank runs the same draws, so each knows what is asked, answers for its own
//! part, and all answers of all rows go into one message. Whatever carries it (an all-gather) brings every
//! rank the messages of all:
//!
//! ```text
//! exchange = one draw for each row
//! while exchange has a message:
//!     send it to all ranks, receive those of all ranks
//!     give them to the exchange
//! ```
//!
//! The first message opens every draw, in slots of a fixed length; it ends most draws (`logits/known.rs`).
//! Rows that are still open ask on, all in one message, until the last has its token.
//!
//! A rank answers with a [`Part`] of each row: a [`Shard`] of this process, or one that lies on a device. A
//! device makes the slots of all rows at once, from [`Exchange::first_questions`].
//!
//! # The messages
//!
//! Everything is little-endian. The first message has a slot of [`Exchange::SLOT`] bytes for each row: two
//! numbers of 8 bytes that stand for the row's parameters and its history, then the length of the reply in
//! 4 bytes, the reply as in [`wire`](crate::wire), and zeros. A later message has, for each row that is
//! still open, the length of the reply in 4 bytes and the reply. It may end in any number of zeros.
//!
//! # Ranks that disagree
//!
//! Every rank draws its own conclusion from the same messages, so they come to the same one. Ranks that
//! have other parameters or another history for a row than rank 0 are found by the two numbers; ranks whose
//! parts do not make up the vocabulary by the tokens that each reply names. A rank that cannot answer at
//! all sends the reason. All of these are errors of that row, on every rank, that name the rank.

use crate::engine::remote::{RemoteDraw, Reply};
use crate::engine::shard::Shard;
use crate::engine::wire;
use crate::error::RowError;
use crate::fault::Problem;
use crate::logits::answer::Held;
use crate::logits::query::{Open, Question};
use crate::sampled::Sampled;

/// This process's place among the ranks, and the part of the vocabulary that it holds: its rows are the
/// logits of the tokens from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// How many ranks there are.
    pub count: usize,
    /// The number of logits in a whole row.
    pub vocabulary: usize,
    /// The first token of this rank's part.
    pub start: usize,
}

/// A part of a row, wherever it is held: it answers the questions of a draw.
pub trait Part {
    /// Its tokens.
    fn held(&self) -> Held;

    /// The reply to a question, both as messages ([`wire`](crate::wire)).
    fn reply(&mut self, question: &[u8]) -> Vec<u8>;
}

impl Part for Shard<'_> {
    fn held(&self) -> Held {
        Shard::held(self)
    }

    fn reply(&mut self, question: &[u8]) -> Vec<u8> {
        Shard::reply(self, question)
    }
}

/// What a slot of the first message is made from, for a part that makes it elsewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstQuestion {
    /// What the slot has before and after the length of the reply: two numbers of 8 bytes, and the header of
    /// the reply.
    pub head: [u8; Self::HEAD],
    /// The question.
    pub open: Open,
}

impl FirstQuestion {
    /// The bytes of `head`.
    pub const HEAD: usize = AGREEMENT + wire::REPLY_HEADER;
}

/// Two numbers that ranks compare before they draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// Parameters, vocabulary and the number of ranks.
    pub settings: u64,
    /// Tokens, position, seed, mask, and what else a sequence has learned.
    pub history: u64,
}

impl Agreement {
    fn bytes(self) -> [u8; AGREEMENT] {
        let Self { settings, history } = self;
        (u128::from(settings) | u128::from(history) << 64).to_le_bytes()
    }
}

/// The bytes of the two numbers.
const AGREEMENT: usize = 16;
/// The bytes of a length.
const LENGTH: usize = 4;
/// The bytes of a row in the first message.
const SLOT: usize = AGREEMENT + LENGTH + wire::LONGEST_OPENING;

/// One row's draw, on one rank.
pub(crate) struct Drawing<'a, P> {
    /// The rank's own part of the row.
    pub part: P,
    pub draw: RemoteDraw<'a>,
    pub agreement: Agreement,
}

impl<P: Part> Drawing<'_, P> {
    /// The reply of the rank's own part to the question that the draw asks now, if it asks one.
    fn reply(&mut self) -> Option<Vec<u8>> {
        self.draw.question().map(|question| self.part.reply(question))
    }

    /// The question that the draw begins with, if it does.
    fn first_question(&self) -> Option<FirstQuestion> {
        let question = self.draw.question()?;
        let Some(Question::Open(open)) = wire::read_question(question) else { return None };
        let mut head = self.agreement.bytes().to_vec();
        head.extend_from_slice(&wire::reply_header(question, self.part.held())?);
        Some(FirstQuestion { head: head.try_into().ok()?, open })
    }
}

/// One row's draw, as far as it has come.
pub(crate) enum Turn<'a, P> {
    /// It is under way, or has ended.
    Drawing(Box<Drawing<'a, P>>),
    /// This rank cannot take part, or the ranks do not agree.
    Failed(RowError),
}

impl<P: Part> Turn<'_, P> {
    /// This rank's slot of the first message, also for a row that it cannot answer.
    pub(crate) fn slot(&mut self) -> Vec<u8> {
        match self {
            Self::Drawing(drawing) => slot(drawing.agreement, &drawing.reply().unwrap_or_default()),
            Self::Failed(error) => refusal(&error.to_string()),
        }
    }
}

/// One step of a batch over ranks. Made by [`Batch::exchange`](crate::Batch::exchange), and with parts that
/// lie elsewhere by [`Batch::exchange_parts`](crate::Batch::exchange_parts).
pub struct Exchange<'a, P = Shard<'a>> {
    ranks: usize,
    turns: Vec<Turn<'a, P>>,
    /// The largest vocabulary bounds every reply.
    vocabulary: usize,
    has_begun: bool,
    message: Vec<u8>,
}

impl Exchange<'_> {
    /// The bytes of a row in the first message.
    pub const SLOT: usize = SLOT;

    /// The first message of a rank that cannot take part in a step of so many rows, and why. Without one
    /// the other ranks would wait for it.
    pub fn refusal(rows: usize, reason: &str) -> Vec<u8> {
        refusal(reason).repeat(rows)
    }
}

impl<'a, P: Part> Exchange<'a, P> {
    /// The turn of every row, with the first message; without one if the parts make it elsewhere.
    pub(crate) fn new(rank: &Rank, turns: Vec<Turn<'a, P>>, message: Vec<u8>) -> Self {
        let Rank { count: ranks, vocabulary, .. } = *rank;
        Self { ranks, turns, vocabulary, has_begun: false, message }
    }

    /// For parts that make their slots elsewhere: what each row is asked first, or the whole slot of a row
    /// that this rank cannot answer.
    pub fn first_questions(&self) -> impl Iterator<Item = Result<FirstQuestion, Vec<u8>>> {
        self.turns.iter().map(|turn| match turn {
            Turn::Drawing(drawing) => {
                drawing.first_question().ok_or_else(|| refusal("the draw does not begin with an opening"))
            }
            Turn::Failed(error) => Err(refusal(&error.to_string())),
        })
    }

    /// What to send to all ranks, this one included; `None` once every row has its result.
    pub fn message(&self) -> Option<&[u8]> {
        (!self.message.is_empty()).then_some(&self.message[..])
    }

    /// No rank's message is longer than this now. It is the same number on every rank, so a transport that
    /// needs messages of one length can fill them up with zeros to it. In the first round it is the length.
    pub fn room(&self) -> usize {
        if !self.has_begun {
            return self.turns.len() * SLOT;
        }
        let longest = |question: &[u8]| LENGTH + wire::longest_reply_to(question, self.vocabulary);
        self.questions().map(longest).sum()
    }

    fn questions(&self) -> impl Iterator<Item = &[u8]> {
        self.turns.iter().filter_map(|turn| match turn {
            Turn::Drawing(drawing) => drawing.draw.question(),
            Turn::Failed(_) => None,
        })
    }

    /// How many rows have no result yet.
    pub fn open_rows(&self) -> usize {
        if self.has_begun { self.questions().count() } else { self.turns.len() }
    }

    /// The messages of all ranks, in their order. Rows whose results follow from them are done; the others
    /// have a next message.
    pub fn receive<M: AsRef<[u8]>>(&mut self, messages: &[M]) {
        let messages: Vec<&[u8]> = messages.iter().map(AsRef::as_ref).collect();
        if std::mem::replace(&mut self.has_begun, true) {
            self.go_on(&messages);
        } else {
            self.begin(&messages);
        }
        self.message.clear();
        for turn in &mut self.turns {
            if let Turn::Drawing(drawing) = turn
                && let Some(reply) = drawing.reply()
            {
                self.message.extend_from_slice(&(reply.len() as u32).to_le_bytes());
                self.message.extend_from_slice(&reply);
            }
        }
    }

    /// Takes the first messages.
    fn begin(&mut self, messages: &[&[u8]]) {
        let length = self.turns.len() * SLOT;
        let is_whole = |(rank, message): (usize, &&[u8])| match message.len() {
            _ if rank >= self.ranks => Err(RowError::reply(rank, Problem::Unknown)),
            actual if actual < length => Err(RowError::reply(rank, Problem::Cut)),
            actual if actual > length => Err(RowError::reply(rank, Problem::TooLong)),
            _ => Ok(()),
        };
        let all = messages.iter().enumerate().try_for_each(is_whole);
        for (row, turn) in self.turns.iter_mut().enumerate() {
            let Turn::Drawing(drawing) = turn else { continue };
            let slots: Result<Vec<Slot<'_>>, RowError> = all.clone().and_then(|()| {
                let slots = messages.iter().map(|message| &message[row * SLOT..][..SLOT]);
                let slots = slots
                    .enumerate()
                    .map(|(rank, slot)| Slot::read(slot).ok_or(RowError::reply(rank, Problem::Cut)));
                slots.collect()
            });
            match slots.and_then(|slots| agreed(&slots).map(|()| slots)) {
                Ok(slots) => resume(&mut drawing.draw, slots.iter().map(|slot| slot.reply)),
                Err(error) => *turn = Turn::Failed(error),
            }
        }
    }

    /// Takes later messages.
    fn go_on(&mut self, messages: &[&[u8]]) {
        let mut rests = messages.to_vec();
        for turn in &mut self.turns {
            let Turn::Drawing(drawing) = turn else { continue };
            if drawing.draw.question().is_none() {
                continue;
            }
            let taken = rests.iter_mut().enumerate().map(|(rank, rest)| take_reply(rest).ok_or(rank));
            match taken.collect::<Result<Vec<&[u8]>, usize>>() {
                Ok(replies) => resume(&mut drawing.draw, replies.into_iter()),
                Err(rank) => *turn = Turn::Failed(RowError::reply(rank, Problem::Cut)),
            }
        }
    }

    /// Goes on to the end, and returns the results. `gather` gets this rank's message and the longest that any
    /// rank's message can be, and returns the messages of all ranks, in their order; its error ends the
    /// exchange.
    pub fn finish<M: AsRef<[u8]>, E>(
        mut self,
        mut gather: impl FnMut(&[u8], usize) -> Result<Vec<M>, E>,
    ) -> Result<Vec<Result<Sampled, RowError>>, E> {
        while let Some(message) = self.message() {
            let messages = gather(message, self.room())?;
            self.receive(&messages);
        }
        Ok(self.results())
    }

    /// The token of each row, or its error. A row that still has a question has none.
    pub fn results(self) -> Vec<Result<Sampled, RowError>> {
        let unfinished = || Err(RowError::contradiction("the exchange ended before the draw"));
        let result = |turn| match turn {
            Turn::Drawing(drawing) => drawing.draw.result().unwrap_or_else(unfinished),
            Turn::Failed(error) => Err(error),
        };
        self.turns.into_iter().map(result).collect()
    }
}

/// One rank's part of a first message, for one row.
struct Slot<'m> {
    agreement: Agreement,
    reply: &'m [u8],
}

impl<'m> Slot<'m> {
    fn read(slot: &'m [u8]) -> Option<Self> {
        let (settings, rest) = slot.split_first_chunk()?;
        let (history, mut rest) = rest.split_first_chunk()?;
        let agreement =
            Agreement { settings: u64::from_le_bytes(*settings), history: u64::from_le_bytes(*history) };
        Some(Self { agreement, reply: take_reply(&mut rest)? })
    }
}

/// A slot of a first message. A reason that is too long is cut.
fn slot(agreement: Agreement, reply: &[u8]) -> Vec<u8> {
    let reply = &reply[..reply.len().min(wire::LONGEST_OPENING)];
    let mut slot = Vec::with_capacity(SLOT);
    slot.extend_from_slice(&agreement.bytes());
    slot.extend_from_slice(&(reply.len() as u32).to_le_bytes());
    slot.extend_from_slice(reply);
    slot.resize(SLOT, 0);
    slot
}

/// The slot of a rank that cannot answer, and why.
fn refusal(reason: &str) -> Vec<u8> {
    slot(Agreement { settings: 0, history: 0 }, &wire::failure(reason))
}

/// The next reply of a message, after its length. A message that is cut is empty afterwards.
fn take_reply<'m>(rest: &mut &'m [u8]) -> Option<&'m [u8]> {
    let taken = rest
        .split_first_chunk()
        .and_then(|(length, after)| after.split_at_checked(u32::from_le_bytes(*length) as usize));
    let (reply, after) = taken.unwrap_or((&[], &[]));
    *rest = after;
    taken.is_some().then_some(reply)
}

/// Whether all ranks can answer and mean the same draw. Rank 0 is the one that the others are compared
/// with, so that every rank names the same one.
fn agreed(slots: &[Slot<'_>]) -> Result<(), RowError> {
    for (rank, slot) in slots.iter().enumerate() {
        if let Some(text) = wire::failed(slot.reply) {
            return Err(RowError::reply(rank, Problem::Failed(text)));
        }
    }
    let Some(first) = slots.first() else { return Ok(()) };
    for (rank, slot) in slots.iter().enumerate() {
        let about = match slot.agreement {
            Agreement { settings, .. } if settings != first.agreement.settings => "parameters",
            Agreement { history, .. } if history != first.agreement.history => "history",
            _ => continue,
        };
        return Err(RowError::reply(rank, Problem::Disagrees(about)));
    }
    Ok(())
}

fn resume<'m>(draw: &mut RemoteDraw<'_>, replies: impl Iterator<Item = &'m [u8]>) {
    let replies: Vec<Reply<'_>> =
        replies.enumerate().map(|(shard, message)| Reply { shard, message }).collect();
    draw.resume(&replies);
}
