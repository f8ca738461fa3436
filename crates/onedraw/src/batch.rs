//! Many sequences, each with its own parameters, seed and history.

use std::sync::{Mutex, PoisonError, TryLockError};

use rayon::prelude::*;

use crate::engine::local::ShardMemory;
use crate::engine::remote::RemoteDraw;
use crate::engine::shard::Shard;
use crate::engine::split::Shards;
use crate::engine::workspace::Workspace;
use crate::error::{ParamError, RowError};
use crate::explain::Explanation;
use crate::kernels::Kernel;
use crate::kernels::passes::Passes;
use crate::kernels::row::{Row, Rows};
use crate::logprobs::{Distribution, Report, TokenLogprob};
use crate::params::SamplingParams;
use crate::sampled::{Runner, Sampled};
use crate::sequence::{Saved, Sequence, Standing};
use crate::slots::Slots;
use crate::state::path::Rewind;

pub use crate::slots::SequenceId;

/// One sequence's turn: its row of logits, and a grammar's mask if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Whose turn it is.
    pub sequence: SequenceId,
    /// The logits.
    pub row: Row<'a>,
    /// The tokens a grammar allows, 32 per word, lowest bit first.
    pub mask: Option<&'a [u32]>,
}

impl<'a> Step<'a> {
    /// A step without a mask.
    pub fn new(sequence: SequenceId, row: impl Into<Row<'a>>) -> Self {
        Self { sequence, row: row.into(), mask: None }
    }
}

#[derive(Debug)]
struct Member {
    sequence: Sequence,
    /// The last call to `sample` that this sequence took part in.
    last_call: u64,
}

/// Sequences that come and go between steps. A row's token depends on its own sequence alone: not on its
/// neighbours, their order, or the number of threads.
///
/// ```
/// use onedraw::{Batch, SamplingParams, Step};
/// let mut batch = Batch::new();
/// let warm = batch.add(SamplingParams::builder().temperature(1.2).seed(1).build()?)?;
/// let greedy = batch.add(SamplingParams::builder().temperature(0.0).build()?)?;
/// let rows = [[0.5_f32, 2.0, 1.0], [3.0, 0.0, f32::NAN]];
/// let results = batch.sample(&[Step::new(greedy, &rows[0]), Step::new(warm, &rows[1])]);
/// assert_eq!(results[0].as_ref().map(|sampled| sampled.token), Ok(1));
/// assert_eq!(results[1].as_ref().map_err(|error| error.kind()), Err("nan_logit"));
/// # Ok::<(), onedraw::ParamError>(())
/// ```
#[derive(Debug)]
pub struct Batch {
    members: Slots<Member>,
    calls: u64,
    kernel: Kernel,
    shards: Shards,
    pool: Option<rayon::ThreadPool>,
    /// One for each thread; a thread locks its own, so no one waits.
    workspaces: Vec<Mutex<Workspace>>,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

impl Batch {
    /// No sequences yet; draws on the calling thread.
    pub fn new() -> Self {
        let mut batch = Self {
            members: Slots::new(),
            calls: 0,
            kernel: Kernel::Auto,
            shards: Shards::WHOLE,
            pool: None,
            workspaces: Vec::new(),
        };
        batch.make_workspaces();
        batch
    }

    fn make_workspaces(&mut self) {
        let threads = self.pool.as_ref().map_or(1, rayon::ThreadPool::current_num_threads);
        self.workspaces =
            (0..threads).map(|_| Mutex::new(Workspace::new(self.shards.clone(), self.kernel))).collect();
    }

    /// Draws rows on `threads` threads; 0 means one per core. Where the system gives no threads, rows are
    /// drawn on the calling one.
    pub fn threads(mut self, threads: usize) -> Self {
        self.pool = match threads {
            1 => None,
            _ => rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok(),
        };
        self.make_workspaces();
        self
    }

    /// Splits every row into this many shards, in this process. The tokens are the same.
    pub fn shards(self, count: usize) -> Self {
        self.split(Shards::even(count))
    }

    /// Splits every row as `shards` says.
    pub fn split(mut self, shards: Shards) -> Self {
        self.shards = shards;
        self.make_workspaces();
        self
    }

    /// Which instruction set reads the rows; one that this machine lacks counts as [`Kernel::Auto`].
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self.make_workspaces();
        self
    }

    /// Adds the first sequence of the parameters. A bad parameter spoils nothing else.
    pub fn add(&mut self, params: SamplingParams) -> Result<SequenceId, ParamError> {
        let sequence = Sequence::first(&params)?;
        Ok(self.insert(sequence))
    }

    /// Adds all `n` sequences of the parameters, which share one seed.
    pub fn add_all(&mut self, params: SamplingParams) -> Result<Vec<SequenceId>, ParamError> {
        let sequences = Sequence::all(&params)?;
        Ok(sequences.into_iter().map(|sequence| self.insert(sequence)).collect())
    }

    fn insert(&mut self, sequence: Sequence) -> SequenceId {
        self.members.insert(Member { sequence, last_call: 0 })
    }

    /// Removes a sequence; whether it was there.
    pub fn remove(&mut self, id: SequenceId) -> bool {
        self.members.remove(id).is_some()
    }

    /// The number of sequences.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn sequence(&self, id: SequenceId) -> Result<&Sequence, RowError> {
        self.members.get(id).map(|member| &member.sequence).ok_or(RowError::UnknownSequence)
    }

    /// Whether every id of a sequence's parameters and history is a token of such a row.
    pub fn check_vocabulary(&self, id: SequenceId, vocabulary: usize) -> Result<(), RowError> {
        self.sequence(id)?.check_vocabulary(vocabulary)
    }

    /// Appends a token that was chosen elsewhere; whether the sequence was there.
    pub fn accept(&mut self, id: SequenceId, token: u32) -> bool {
        self.change(id, |sequence| sequence.accept(token, None))
    }

    /// Appends a token that [`Batch::peek`] drew at the next position, with what mirostat learned from it;
    /// whether the sequence is there.
    pub fn accept_sampled(&mut self, id: SequenceId, sampled: &Sampled) -> bool {
        self.change(id, |sequence| sequence.accept(sampled.token, sampled.mirostat_mu))
    }

    /// Takes back a sequence's tokens after the first `length` of its output; whether the sequence was there.
    /// An undo, as [`Sampler::rewind`](crate::Sampler::rewind).
    pub fn rewind(&mut self, id: SequenceId, length: usize) -> bool {
        self.change(id, |sequence| sequence.rewind(length))
    }

    /// As [`Sampler::take_back`](crate::Sampler::take_back); whether the sequence is there.
    pub fn take_back(&mut self, id: SequenceId, rewind: &Rewind) -> bool {
        self.change(id, |sequence| sequence.take_back(rewind))
    }

    /// As [`Sampler::set_prompt`](crate::Sampler::set_prompt); whether the sequence is there.
    pub fn set_prompt(&mut self, id: SequenceId, prompt: &[u32]) -> bool {
        self.change(id, |sequence| sequence.set_prompt(prompt))
    }

    /// As [`Sampler::reset`](crate::Sampler::reset); whether the sequence is there.
    pub fn reset(&mut self, id: SequenceId) -> bool {
        self.change(id, Sequence::reset)
    }

    /// What a draw of one sequence works with.
    pub(crate) fn parts(&mut self, id: SequenceId) -> Result<(&mut Sequence, &mut Workspace), RowError> {
        let member = self.members.get_mut(id).ok_or(RowError::UnknownSequence)?;
        // A workspace is overwritten from the start by each draw, so a poisoned one is as good as any.
        let workspace = self.workspaces[0].get_mut().unwrap_or_else(PoisonError::into_inner);
        Ok((&mut member.sequence, workspace))
    }

    /// Changes a sequence, if it is there, and says whether it is.
    fn change(&mut self, id: SequenceId, change: impl FnOnce(&mut Sequence)) -> bool {
        self.members.get_mut(id).map(|member| change(&mut member.sequence)).is_some()
    }

    /// As [`Sampler::save`](crate::Sampler::save); `None` if the sequence is not there.
    pub fn save(&self, id: SequenceId) -> Option<Saved> {
        self.sequence(id).ok().map(Sequence::save)
    }

    /// Adds a sequence that was saved.
    pub fn load(&mut self, saved: &Saved) -> Result<SequenceId, ParamError> {
        let sequence = Sequence::load(saved)?;
        Ok(self.insert(sequence))
    }

    /// Where mirostat stands, in bits, if the sequence is there and has it on.
    pub fn mirostat_mu(&self, id: SequenceId) -> Option<f64> {
        self.sequence(id).ok().and_then(Sequence::mirostat_mu)
    }

    /// Where a sequence stands, for a device that answers for it.
    pub fn standing(&self, id: SequenceId) -> Option<Standing<'_>> {
        self.sequence(id).ok().map(Sequence::standing)
    }

    /// The tokens a sequence has written so far, if it is there.
    pub fn output(&self, id: SequenceId) -> Option<&[u32]> {
        self.sequence(id).ok().map(Sequence::output)
    }

    /// A sequence's seed, if it is there: the one given, or the one drawn from the system.
    pub fn seed(&self, id: SequenceId) -> Option<u64> {
        self.sequence(id).ok().map(Sequence::seed)
    }

    /// A second sequence with the same parameters, seed and history, which goes its own way. The same rows
    /// draw the same tokens from both.
    pub fn fork(&mut self, id: SequenceId) -> Option<SequenceId> {
        let sequence = self.sequence(id).ok()?.clone();
        Some(self.insert(sequence))
    }

    /// The `count` most likely tokens of each step that the chain keeps, in order, with their logprobs after
    /// it.
    pub fn best(&mut self, steps: &[Step<'_>], count: usize) -> Vec<Result<Vec<TokenLogprob>, RowError>> {
        let mut results = Vec::new();
        self.for_each(steps, &mut results, |step, workspace| {
            self.sequence(step.sequence)?.best(step.row, step.mask, count, workspace)
        });
        results
    }

    /// Draws a token for each step and appends it to that sequence. One bad row is one error.
    pub fn sample(&mut self, steps: &[Step<'_>]) -> Vec<Result<Sampled, RowError>> {
        let mut results = Vec::new();
        self.sample_into(steps, &mut results);
        results
    }

    /// As [`Batch::sample`], into memory that is used again. A sequence that has a second step in one call
    /// gets [`RowError::RepeatedSequence`] for it: its position would be unclear.
    pub fn sample_into(&mut self, steps: &[Step<'_>], results: &mut Vec<Result<Sampled, RowError>>) {
        self.draw_into(steps, 0, results);
        self.accept_results(steps.iter().map(|step| step.sequence), results);
    }

    /// Appends the tokens of one step that were drawn for these sequences. The second result of a sequence
    /// becomes [`RowError::RepeatedSequence`].
    pub fn accept_results(
        &mut self,
        sequences: impl IntoIterator<Item = SequenceId>,
        results: &mut [Result<Sampled, RowError>],
    ) {
        self.calls += 1;
        for (sequence, result) in sequences.into_iter().zip(results) {
            let Some(member) = self.members.get_mut(sequence) else { continue };
            if member.last_call == self.calls {
                *result = Err(RowError::RepeatedSequence);
                continue;
            }
            member.last_call = self.calls;
            if let Ok(sampled) = result {
                member.sequence.accept(sampled.token, sampled.mirostat_mu);
            }
        }
    }

    /// [`Sampler::shard`](crate::Sampler::shard) for a sequence of the batch.
    pub fn shard<'a>(
        &'a self,
        step: Step<'a>,
        start: usize,
        memory: &'a mut ShardMemory,
    ) -> Result<Shard<'a>, RowError> {
        self.sequence(step.sequence)?.shard(step.row, start, step.mask, 0, self.passes(), memory)
    }

    /// [`Sampler::draw_over`](crate::Sampler::draw_over) for a sequence of the batch. The draws of all
    /// sequences can be under way at once and share each exchange of messages. The tokens are appended with
    /// [`Batch::accept_sampled`].
    pub fn draw_over(
        &self,
        id: SequenceId,
        vocabulary: usize,
        shards: usize,
        has_mask: bool,
    ) -> Result<RemoteDraw<'_>, RowError> {
        self.sequence(id)?.draw_over(vocabulary, shards, has_mask, self.passes())
    }

    pub(crate) fn pool(&self) -> Option<&rayon::ThreadPool> {
        self.pool.as_ref()
    }

    pub(crate) fn passes(&self) -> Passes {
        Passes::of(self.kernel).unwrap_or_default()
    }

    /// Draws at `ahead` positions after each sequence's next, and leaves the histories as they are.
    pub fn peek(&mut self, steps: &[Step<'_>], ahead: u32) -> Vec<Result<Sampled, RowError>> {
        let mut results = Vec::new();
        self.draw_into(steps, ahead, &mut results);
        results
    }

    fn draw_into(&self, steps: &[Step<'_>], ahead: u32, results: &mut Vec<Result<Sampled, RowError>>) {
        self.for_each(steps, results, |step, workspace| {
            self.sequence(step.sequence)?.draw(step.row, step.mask, ahead, None, workspace)
        });
    }

    /// The tokens that come in first in the race of each step's draw, at most `count`: the one that
    /// [`Batch::sample`] would draw, then what it would have drawn without that one, as far as it is among
    /// the likely tokens. This is what a drafter guesses with: a target whose logits are much the same draws
    /// one of these, for it has the same noise. The histories stay as they are.
    ///
    /// ```
    /// use onedraw::{Batch, SamplingParams, Step};
    /// let mut batch = Batch::new();
    /// let id = batch.add(SamplingParams::builder().seed(3).build()?)?;
    /// let row = [0.5_f32, 2.0, 1.0, 1.5];
    /// let runners = batch.runners(&[Step::new(id, &row)], 3).remove(0)?;
    /// let drawn = batch.peek(&[Step::new(id, &row)], 0).remove(0)?;
    /// assert_eq!((runners.len(), runners[0].token, runners[0].behind), (3, drawn.token, 0.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn runners(&mut self, steps: &[Step<'_>], count: usize) -> Vec<Result<Vec<Runner>, RowError>> {
        let mut results = Vec::new();
        self.for_each(steps, &mut results, |step, workspace| {
            self.sequence(step.sequence)?.runners(step.row, step.mask, count, workspace)
        });
        results
    }

    /// The whole distribution of each step.
    pub fn distributions(&mut self, steps: &[Step<'_>]) -> Vec<Result<Distribution, RowError>> {
        let mut results = Vec::new();
        self.for_each(steps, &mut results, |step, workspace| {
            self.sequence(step.sequence)?.distribution(step.row, step.mask, workspace)
        });
        results
    }

    /// The tokens that the chain keeps at each step with their logprobs, in no particular order.
    pub(crate) fn supports(&mut self, steps: &[Step<'_>]) -> Vec<Result<Vec<(u32, f64)>, RowError>> {
        let mut results = Vec::new();
        self.for_each(steps, &mut results, |step, workspace| {
            self.sequence(step.sequence)?.support(step.row, step.mask, workspace)
        });
        results
    }

    /// What each sequence's chain does to its row, stage by stage; see
    /// [`Sampler::explain`](crate::Sampler::explain).
    pub fn explanations(&mut self, steps: &[Step<'_>], listed: usize) -> Vec<Result<Explanation, RowError>> {
        let mut results = Vec::new();
        self.for_each(steps, &mut results, |step, workspace| {
            self.sequence(step.sequence)?.explain(step.row, step.mask, listed, workspace)
        });
        results
    }

    /// Logprobs of a part of a sequence's prompt, for a model that reads it in parts: row i of the matrix
    /// predicts token `first` + i. As [`Sampler::prompt_logprobs`](crate::Sampler::prompt_logprobs); rows
    /// after the prompt's end are not read.
    pub fn prompt_logprobs(
        &mut self,
        id: SequenceId,
        first: usize,
        rows: Rows<'_>,
    ) -> Vec<Result<Report, RowError>> {
        let Ok(sequence) = self.sequence(id) else {
            return vec![Err(RowError::UnknownSequence); rows.len()];
        };
        let tokens = sequence.prompt().get(first..).unwrap_or_default();
        let steps: Vec<_> =
            tokens.iter().zip(0..rows.len()).map(|(&token, i)| (rows.row(i), token)).collect();
        let mut results = Vec::new();
        self.for_each(&steps, &mut results, |&(row, token), workspace| {
            sequence.prompt_report(row, token, workspace)
        });
        results
    }

    /// Rows are independent, so threads take them in any order. No sum and no choice crosses a row.
    pub(crate) fn for_each<S: Sync, T: Send>(
        &self,
        steps: &[S],
        results: &mut Vec<T>,
        each: impl Fn(&S, &mut Workspace) -> T + Sync,
    ) {
        let on_thread = |step: &S| {
            let thread = rayon::current_thread_index().filter(|_| self.pool.is_some()).unwrap_or(0);
            let workspace = &self.workspaces[thread % self.workspaces.len()];
            match workspace.try_lock() {
                Ok(mut workspace) => each(step, &mut workspace),
                // A workspace is overwritten from the start by each draw, so a poisoned one is as good as
                // any.
                Err(TryLockError::Poisoned(error)) => each(step, &mut error.into_inner()),
                // A user's stage that waits for another pool's threads may be handed a second row meanwhile.
                Err(TryLockError::WouldBlock) => {
                    each(step, &mut Workspace::new(self.shards.clone(), self.kernel))
                }
            }
        };
        match &self.pool {
            Some(pool) => pool.install(|| steps.par_iter().map(on_thread).collect_into_vec(results)),
            None => {
                results.clear();
                results.extend(steps.iter().map(on_thread));
            }
        }
    }
}
