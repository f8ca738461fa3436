//! A draw over shards that others hold. It stops at every question until the replies are there.
//!
//! The draw itself is the straight code of `engine/draw.rs`, compiled as a coroutine: where it asks a
//! question it is suspended, and [`RemoteDraw::resume`] lets it go on. There is no thread and no executor, so
//! one exchange of messages can serve the draws of a whole batch:
//!
//! ```text
//! draws = one RemoteDraw for each row
//! while some draw has a question:
//!     send the questions of all draws to all shards, and collect the replies
//!     resume each draw with the replies to its question
//! ```

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::engine::wire::{self, Expected, Stamp};
use crate::error::RowError;
use crate::fault::Problem;
use crate::logits::access::RowAccess;
use crate::logits::answer::{Held, Lists, merged};
use crate::logits::known::{Known, Opening};
use crate::logits::query::{Open, Query};
use crate::numeric::float_mode::Standard;
use crate::numeric::key::Key;
use crate::numeric::mass::{Interval, Softmax};
use crate::numeric::noise::Noise;
use crate::sampled::Sampled;

/// The reply of one shard to the question of a draw.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    /// The shard's number, from 0.
    pub shard: usize,
    /// What it sent.
    pub message: &'a [u8],
}

/// What passes between a draw and whoever carries its messages.
#[derive(Debug, Default)]
struct Mailbox {
    /// The question that waits for replies.
    question: Vec<u8>,
    /// The replies, until the draw takes them.
    replies: Option<Vec<(usize, Vec<u8>)>>,
}

/// A draw over shards in other processes. Made by [`Sampler::draw_over`](crate::Sampler::draw_over).
pub struct RemoteDraw<'a> {
    draw: Pin<Box<dyn Future<Output = Result<Sampled, RowError>> + Send + 'a>>,
    mailbox: Arc<Mutex<Mailbox>>,
    /// The question that waits for replies.
    question: Vec<u8>,
    /// No reply can be this long.
    longest_reply: usize,
    result: Option<Result<Sampled, RowError>>,
}

impl<'a> RemoteDraw<'a> {
    /// Starts the draw that `drawn` makes of a row which `shards` shards hold, up to its first question.
    /// `draw` is its number, which no other draw that may be under way has.
    pub(crate) fn start<F>(
        vocabulary: usize,
        shards: usize,
        draw: u64,
        noise: Noise,
        drawn: impl FnOnce(RemoteRow) -> F,
    ) -> Self
    where
        F: Future<Output = Result<Sampled, RowError>> + Send + 'a,
    {
        let mailbox = Arc::new(Mutex::new(Mailbox::default()));
        let row = RemoteRow {
            mailbox: Arc::clone(&mailbox),
            stamp: Stamp { draw, number: 0, noise },
            vocabulary: vocabulary as u32,
            shards,
            held: Vec::new(),
            known: None,
        };
        let mut remote = Self {
            draw: Box::pin(drawn(row)),
            mailbox,
            question: Vec::new(),
            longest_reply: wire::longest_reply(vocabulary) + 1,
            result: None,
        };
        remote.go_on();
        remote
    }

    /// The question that every shard must be asked now, as a message; `None` once the draw has ended.
    pub fn question(&self) -> Option<&[u8]> {
        self.result.is_none().then_some(&self.question[..])
    }

    /// Goes on with the replies of all shards, in any order, to the next question or to the end. A reply that
    /// is missing or cannot be used ends the draw with an error. After the end this does nothing.
    pub fn resume(&mut self, replies: &[Reply<'_>]) {
        if self.result.is_none() {
            // A message that is too long is refused without copying all of it.
            let copy = |message: &[u8]| message[..message.len().min(self.longest_reply)].to_vec();
            let replies = replies.iter().map(|reply| (reply.shard, copy(reply.message))).collect();
            lock(&self.mailbox).replies = Some(replies);
            self.go_on();
        }
    }

    /// The drawn token; `None` while a question waits for its replies. Nothing was appended to the history.
    pub fn result(self) -> Option<Result<Sampled, RowError>> {
        self.result
    }

    fn go_on(&mut self) {
        let _mode = Standard::enter();
        match self.draw.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => self.result = Some(result),
            Poll::Pending => std::mem::swap(&mut self.question, &mut lock(&self.mailbox).question),
        }
    }
}

/// A number that no other draw of this process has.
pub(crate) fn next_draw() -> u64 {
    static DRAWS: AtomicU64 = AtomicU64::new(1);
    DRAWS.fetch_add(1, Ordering::Relaxed)
}

/// No code panics while it holds the lock, so a poisoned mailbox can be used.
fn lock(mailbox: &Mutex<Mailbox>) -> MutexGuard<'_, Mailbox> {
    mailbox.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A row that shards in other processes hold.
pub(crate) struct RemoteRow {
    mailbox: Arc<Mutex<Mailbox>>,
    /// Of the last question.
    stamp: Stamp,
    vocabulary: u32,
    shards: usize,
    /// The tokens of every shard, known from the first replies on.
    held: Vec<Held>,
    /// What the shards said at the opening, until the row changes.
    known: Option<Known>,
}

impl RowAccess for RemoteRow {
    async fn ask<Q: Query>(&mut self, query: &Q, lists: &mut Lists) -> Result<Q::Answer, RowError> {
        lists.clear();
        if let Some(answer) = self.known.as_ref().and_then(|known| query.known(known, lists)) {
            return Ok(answer);
        }
        if Q::CHANGES_ROW {
            self.known = None;
        }
        let replies = self.put(query).await;
        let parts = self.parts(&replies, &Expected { stamp: self.stamp, kind: Q::KIND, name: Q::NAME })?;
        let answers = parts.iter().enumerate().map(|(shard, (held, body))| {
            let answer = wire::read_body(query, held, body, lists);
            answer.map_err(|problem| RowError::reply(shard, problem))
        });
        merged(answers)
    }

    fn bounds(&self, last: Key, softmax: Softmax) -> Option<Interval> {
        self.known.as_ref()?.bounds(last, softmax)
    }
}

impl RemoteRow {
    /// Asks every shard for its opening. Later questions that the openings answer are not asked.
    pub(crate) async fn open(&mut self, open: Open) -> Result<(), RowError> {
        let replies = self.put(&open).await;
        let expected = Expected { stamp: self.stamp, kind: Open::KIND, name: Open::NAME };
        let mut openings = Vec::with_capacity(self.shards);
        for (shard, (held, body)) in self.parts(&replies, &expected)?.into_iter().enumerate() {
            let mut lists = Lists::default();
            let opened = wire::read_body(&open, &held, body, &mut lists);
            let opened = opened.map_err(|problem| RowError::reply(shard, problem))?;
            let opening = Opening::new(&open, held, opened, &lists);
            openings.push(opening.ok_or(RowError::reply(shard, Problem::Impossible("an opening")))?);
        }
        self.known = Some(Known::new(open, self.stamp.noise, openings));
        Ok(())
    }

    /// Puts a question to every shard.
    async fn put<Q: Query>(&mut self, query: &Q) -> Vec<(usize, Vec<u8>)> {
        self.stamp.number += 1;
        wire::write_question(query, &self.stamp, &mut lock(&self.mailbox).question);
        self.replies().await
    }

    /// The replies, once somebody has brought them, in the order of the shards.
    async fn replies(&self) -> Vec<(usize, Vec<u8>)> {
        let mut replies = poll_fn(|_| match lock(&self.mailbox).replies.take() {
            Some(replies) => Poll::Ready(replies),
            None => Poll::Pending,
        })
        .await;
        replies.sort_by_key(|&(shard, _)| shard);
        replies
    }

    /// Of each shard the tokens that it holds and the body of its reply, if there is one reply from each.
    fn parts<'m>(
        &mut self,
        replies: &'m [(usize, Vec<u8>)],
        expected: &Expected,
    ) -> Result<Vec<(Held, &'m [u8])>, RowError> {
        if let Some(&(shard, _)) = replies.iter().find(|&&(shard, _)| shard >= self.shards) {
            return Err(RowError::reply(shard, Problem::Unknown));
        }
        if let Some(pair) = replies.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(RowError::reply(pair[0].0, Problem::Repeated));
        }
        let mut parts = Vec::with_capacity(replies.len());
        for shard in 0..self.shards {
            let reply = replies.get(shard).filter(|&&(sender, _)| sender == shard);
            let (_, message) = reply.ok_or(RowError::reply(shard, Problem::Missing))?;
            let part = wire::read_header(expected, message);
            parts.push(part.map_err(|problem| RowError::reply(shard, problem))?);
        }
        // Before anything is added up: what the shards hold bounds every sum.
        self.check_held(parts.iter().map(|&(held, _)| held).collect())?;
        Ok(parts)
    }

    /// All shards together hold every token of the vocabulary once, and each holds the same tokens throughout
    /// the draw.
    fn check_held(&mut self, held: Vec<Held>) -> Result<(), RowError> {
        let fault =
            |shard: usize, Held { start, length }| RowError::reply(shard, Problem::Tokens { start, length });
        if self.held.is_empty() {
            let mut shards: Vec<(usize, Held)> = held.iter().copied().enumerate().collect();
            shards.sort_by_key(|&(_, held)| (held.start, held.length));
            let mut next = 0;
            for &(shard, own) in shards.iter().filter(|(_, held)| held.length > 0) {
                let end = own.start.checked_add(own.length).filter(|&end| end <= self.vocabulary);
                next = end.filter(|_| own.start == next).ok_or_else(|| fault(shard, own))?;
            }
            if next < self.vocabulary {
                let last =
                    shards.iter().rfind(|(_, held)| held.length > 0).map(|&(shard, own)| fault(shard, own));
                return Err(last.unwrap_or(RowError::contradiction("no shard holds a token")));
            }
            self.held = held;
        } else if let Some(shard) = (0..held.len()).find(|&shard| held[shard] != self.held[shard]) {
            return Err(fault(shard, held[shard]));
        }
        Ok(())
    }
}
