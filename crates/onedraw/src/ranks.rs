//! A batch whose vocabulary is split over ranks: every rank holds a part of each row and gets all tokens.
//!
//! Every rank has a [`Batch`] with the same sequences, added in the same order, and calls the same methods
//! in the same order. `engine/exchange.rs` says what passes between them.

use rayon::prelude::*;

use crate::batch::{Batch, SequenceId, Step};
use crate::engine::exchange::{Exchange, Part, Rank, Turn};
use crate::engine::local::ShardMemory;
use crate::error::RowError;
use crate::sampled::Sampled;

/// One sequence's turn, with a part of its row that is held elsewhere.
#[derive(Clone, Debug)]
pub struct PartStep<'m, P> {
    /// Whose turn it is.
    pub sequence: SequenceId,
    /// The part, or why there is none.
    pub part: Result<P, RowError>,
    /// The tokens a grammar allows in the whole row, 32 per word, lowest bit first.
    pub mask: Option<&'m [u32]>,
}

/// The memory of a rank, kept from step to step.
#[derive(Clone, Debug, Default)]
pub struct RankMemory {
    rows: Vec<ShardMemory>,
}

impl Batch {
    /// Begins to draw a token for each step, at `ahead` positions after each sequence's next. A step's row
    /// is this rank's part of the logits; its mask is that of the whole vocabulary. The first message is
    /// made on the batch's threads. Nothing is appended: [`Batch::accept_sampled`] does that.
    ///
    /// ```
    /// use onedraw::{Batch, Rank, RankMemory, SamplingParams, Step};
    ///
    /// let params = SamplingParams::builder().top_k(3).top_p(0.9).seed(5).build()?;
    /// let row = [0.1_f32, 2.0, 1.5, -1.0, 1.9, 0.4, 2.2];
    ///
    /// // Here both ranks are in one process.
    /// let mut ranks = [(Batch::new(), RankMemory::default()), (Batch::new(), RankMemory::default())];
    /// let parts = [(0, &row[..4]), (4, &row[4..])];
    /// let mut exchanges = Vec::new();
    /// for ((batch, memory), (start, part)) in ranks.iter_mut().zip(parts) {
    ///     let sequence = batch.add(params.clone())?;
    ///     let rank = Rank { count: 2, vocabulary: row.len(), start };
    ///     exchanges.push(batch.exchange(&[Step::new(sequence, part)], &rank, 0, memory));
    /// }
    /// while exchanges[0].message().is_some() {
    ///     let messages: Vec<Vec<u8>> =
    ///         exchanges.iter().flat_map(|exchange| exchange.message()).map(Vec::from).collect();
    ///     exchanges.iter_mut().for_each(|exchange| exchange.receive(&messages));
    /// }
    /// let expected = onedraw::Sampler::new(params)?.sample(&row)?;
    /// for exchange in exchanges {
    ///     assert_eq!(exchange.results(), [Ok(expected.clone())]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn exchange<'a>(
        &'a self,
        steps: &[Step<'a>],
        rank: &Rank,
        ahead: u32,
        memory: &'a mut RankMemory,
    ) -> Exchange<'a> {
        let RankMemory { rows } = memory;
        let passes = self.passes();
        rows.resize_with(steps.len().max(rows.len()), ShardMemory::default);
        let turn = |(step, memory): (&Step<'a>, &'a mut ShardMemory)| {
            let turn = self.sequence(step.sequence).and_then(|sequence| {
                let (row, mask) = (step.row, step.mask);
                sequence.turn(
                    move || sequence.shard(row, rank.start, mask, ahead, passes, memory),
                    mask,
                    rank,
                    ahead,
                    passes,
                )
            });
            let mut turn = turn.unwrap_or_else(Turn::Failed);
            let slot = turn.slot();
            (turn, slot)
        };
        let turns: Vec<_> = match self.pool() {
            Some(pool) => pool.install(|| steps.par_iter().zip(rows).map(turn).collect()),
            None => steps.iter().zip(rows).map(turn).collect(),
        };
        let (turns, slots): (_, Vec<_>) = turns.into_iter().unzip();
        Exchange::new(rank, turns, slots.concat())
    }

    /// As [`Batch::exchange`], with parts that are held elsewhere, on a device for example. They make the
    /// first message from [`Exchange::first_questions`], so the exchange has none; it goes on with
    /// [`Exchange::receive`].
    pub fn exchange_parts<'a, P: Part>(
        &'a self,
        steps: impl IntoIterator<Item = PartStep<'a, P>>,
        rank: &Rank,
        ahead: u32,
    ) -> Exchange<'a, P> {
        let turn = |PartStep { sequence, part, mask }| {
            let turn = self
                .sequence(sequence)
                .and_then(|sequence| sequence.turn(|| part, mask, rank, ahead, self.passes()));
            turn.unwrap_or_else(Turn::Failed)
        };
        Exchange::new(rank, steps.into_iter().map(turn).collect(), Vec::new())
    }

    /// Draws a token for each step, at `ahead` positions after each sequence's next, and leaves the
    /// histories as they are. `gather` gets this rank's message and the longest that any rank's message can
    /// be, and returns the messages of all ranks, in their order; its error ends the call.
    pub fn peek_over<M: AsRef<[u8]>, E>(
        &self,
        steps: &[Step<'_>],
        rank: &Rank,
        ahead: u32,
        memory: &mut RankMemory,
        gather: impl FnMut(&[u8], usize) -> Result<Vec<M>, E>,
    ) -> Result<Vec<Result<Sampled, RowError>>, E> {
        self.exchange(steps, rank, ahead, memory).finish(gather)
    }

    /// As [`Batch::peek_over`] at the next position, and appends each token to its sequence. Where `gather`
    /// fails, nothing is appended. A sequence that has a second step in one call gets
    /// [`RowError::RepeatedSequence`] for it, as in [`Batch::sample_into`].
    pub fn sample_over<M: AsRef<[u8]>, E>(
        &mut self,
        steps: &[Step<'_>],
        rank: &Rank,
        memory: &mut RankMemory,
        gather: impl FnMut(&[u8], usize) -> Result<Vec<M>, E>,
    ) -> Result<Vec<Result<Sampled, RowError>>, E> {
        let mut results = self.peek_over(steps, rank, 0, memory, gather)?;
        self.accept_results(steps.iter().map(|step| step.sequence), &mut results);
        Ok(results)
    }
}
