//! The interface of a row to a draw: one question at a time, each of which can fail.
//!
//! A row of this process answers at once. A row that shards elsewhere hold answers once all replies have
//! arrived, so asking is asynchronous: a draw is written as straight code, and suspends at a question whose
//! replies are still on their way. There is no executor. [`answered`] runs a draw over a row of this process,
//! which never suspends; `engine/remote.rs` runs the others.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use crate::error::RowError;
use crate::kernels::passes::Passes;
use crate::logits::answer::Lists;
use crate::logits::query::{CountBefore, FindLast, Query, SumMass, SumSpread};
use crate::numeric::key::Key;
use crate::numeric::mass::{Interval, Softmax, Spread};

/// A row that can be asked.
pub(crate) trait RowAccess {
    /// Asks one question. The lists that come with the answer replace what `lists` held.
    async fn ask<Q: Query>(&mut self, query: &Q, lists: &mut Lists) -> Result<Q::Answer, RowError>;

    /// The mass of the tokens up to and including `last`, between two bounds, where that is known without
    /// asking.
    fn bounds(&self, _last: Key, _softmax: Softmax) -> Option<Interval> {
        None
    }
}

/// Runs a draw over a row that answers every question at once.
pub(crate) fn answered<T>(draw: impl Future<Output = T>) -> T {
    match pin!(draw).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("a row of this process answers at once"),
    }
}

/// A row with the memory for its answers.
pub(crate) struct Asker<'a, R> {
    pub row: &'a mut R,
    /// What came with the last answer.
    pub lists: &'a mut Lists,
    /// For work on the lists.
    pub passes: Passes,
}

impl<R: RowAccess> Asker<'_, R> {
    pub(crate) async fn ask<Q: Query>(&mut self, query: &Q) -> Result<Q::Answer, RowError> {
        self.row.ask(query, self.lists).await
    }

    /// The mass up to and including `last`.
    pub(crate) async fn mass(&mut self, last: Key, softmax: Softmax) -> Result<u64, RowError> {
        Ok(self.ask(&SumMass { last, softmax }).await?.total)
    }

    /// How many tokens come before `key`; where there are `enough` or more, it may be `enough`.
    pub(crate) async fn count_before(&mut self, key: Key, enough: u32) -> Result<u32, RowError> {
        Ok(self.ask(&CountBefore { key, enough }).await?.tokens)
    }

    /// Count, mass and the entropy's sum up to and including `last`.
    pub(crate) async fn spread(&mut self, last: Key, softmax: Softmax) -> Result<Spread, RowError> {
        self.ask(&SumSpread { last, softmax }).await
    }

    /// The last token that comes no later than `last`. There is one: no truncation removes every token.
    pub(crate) async fn last(&mut self, last: Key) -> Result<Key, RowError> {
        let found = self.ask(&FindLast { last }).await?;
        found.key.ok_or(RowError::contradiction("no token is left, though one was found before"))
    }
}
