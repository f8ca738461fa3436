//! One sequence: parameters, history and seed in, tokens out.

use crate::audit::Audit;
use crate::engine::local::ShardMemory;
use crate::engine::remote::{RemoteDraw, Reply};
use crate::engine::shard::Shard;
use crate::engine::split::{Shards, Traffic};
use crate::engine::workspace::Workspace;
use crate::error::{ParamError, RowError};
use crate::explain::Explanation;
use crate::kept::EditedRow;
use crate::kernels::Kernel;
use crate::kernels::row::{Row, Rows};
use crate::logprobs::{Distribution, PromptLogprobs};
use crate::params::SamplingParams;
use crate::sampled::Sampled;
use crate::sequence::{Saved, Sequence, Standing};
use crate::state::path::Rewind;

/// Draws the tokens of one sequence.
///
/// ```
/// use onedraw::{Sampler, SamplingParams};
/// let logits = [1.0_f32, 3.5, 0.2, 2.9];
/// let mut sampler = Sampler::new(SamplingParams::builder().top_k(2).seed(7).build()?)?;
/// let sampled = sampler.sample(&logits)?;
/// assert!([1, 3].contains(&sampled.token));
/// assert_eq!((sampled.seed, sampled.position), (7, 0));
/// assert_eq!(sampler.output(), [sampled.token]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sampler {
    sequence: Sequence,
    workspace: Workspace,
}

impl Sampler {
    /// Checks the parameters. Of `n` sequences this is the first; see [`Sampler::sequences`].
    pub fn new(params: SamplingParams) -> Result<Self, ParamError> {
        Ok(Self { sequence: Sequence::first(&params)?.alone(), workspace: Workspace::default() })
    }

    /// A sampler for each of the `n` sequences. They share the seed and differ in the noise.
    pub fn sequences(params: SamplingParams) -> Result<Vec<Self>, ParamError> {
        let sampler =
            |sequence: Sequence| Self { sequence: sequence.alone(), workspace: Workspace::default() };
        Ok(Sequence::all(&params)?.into_iter().map(sampler).collect())
    }

    /// The sampler of one of the `n` sequences, counted from 0.
    pub fn sequence(params: SamplingParams, number: u32) -> Result<Self, ParamError> {
        Ok(Self { sequence: Sequence::one(&params, number)?.alone(), workspace: Workspace::default() })
    }

    /// Splits every row into shards, in this process. The tokens are the same.
    pub fn shards(mut self, shards: Shards) -> Self {
        self.workspace = self.workspace.split(shards);
        self
    }

    /// Which instruction set reads the rows; one that this machine lacks counts as [`Kernel::Auto`].
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.workspace.use_kernel(kernel);
        self
    }

    /// Draws the next token and appends it to the history.
    pub fn sample<'r>(&mut self, logits: impl Into<Row<'r>>) -> Result<Sampled, RowError> {
        let sampled = self.peek(logits, 0)?;
        self.accept_sampled(&sampled);
        Ok(sampled)
    }

    /// As [`Sampler::sample`], among the tokens whose bit is set in `mask`: 32 tokens a word, lowest bit
    /// first.
    pub fn sample_masked<'r>(
        &mut self,
        logits: impl Into<Row<'r>>,
        mask: &[u32],
    ) -> Result<Sampled, RowError> {
        let sampled = self.peek_masked(logits, mask, 0)?;
        self.accept_sampled(&sampled);
        Ok(sampled)
    }

    /// Draws at `ahead` positions after the next, and leaves the history as it is.
    pub fn peek<'r>(&mut self, logits: impl Into<Row<'r>>, ahead: u32) -> Result<Sampled, RowError> {
        self.sequence.draw(logits.into(), None, ahead, None, &mut self.workspace)
    }

    /// As [`Sampler::peek`], among the tokens whose bit is set in `mask`.
    pub fn peek_masked<'r>(
        &mut self,
        logits: impl Into<Row<'r>>,
        mask: &[u32],
        ahead: u32,
    ) -> Result<Sampled, RowError> {
        self.sequence.draw(logits.into(), Some(mask), ahead, None, &mut self.workspace)
    }

    /// The token at share `uniform` in [0, 1) of the kept mass, for a caller who brings the randomness: the
    /// inverse of the distribution function over the kept tokens, in order. Appends it to the history.
    pub fn sample_uniform<'r>(
        &mut self,
        logits: impl Into<Row<'r>>,
        uniform: f64,
    ) -> Result<Sampled, RowError> {
        let sampled = self.sequence.draw(logits.into(), None, 0, Some(uniform), &mut self.workspace)?;
        self.accept_sampled(&sampled);
        Ok(sampled)
    }

    /// Every token that can be drawn, with its probability.
    pub fn distribution<'r>(&mut self, logits: impl Into<Row<'r>>) -> Result<Distribution, RowError> {
        self.sequence.distribution(logits.into(), None, &mut self.workspace)
    }

    /// As [`Sampler::distribution`], among the tokens whose bit is set in `mask`.
    pub fn distribution_masked<'r>(
        &mut self,
        logits: impl Into<Row<'r>>,
        mask: &[u32],
    ) -> Result<Distribution, RowError> {
        self.sequence.distribution(logits.into(), Some(mask), &mut self.workspace)
    }

    /// Compares a claimed token with the one that is drawn next. The history stays as it is.
    pub fn audit<'r>(&mut self, logits: impl Into<Row<'r>>, token: u32) -> Result<Audit, RowError> {
        self.sequence.audit(logits.into(), None, token, &mut self.workspace)
    }

    /// As [`Sampler::audit`], among the tokens whose bit is set in `mask`.
    pub fn audit_masked<'r>(
        &mut self,
        logits: impl Into<Row<'r>>,
        mask: &[u32],
        token: u32,
    ) -> Result<Audit, RowError> {
        self.sequence.audit(logits.into(), Some(mask), token, &mut self.workspace)
    }

    /// The next row after the edits with which the chain begins: what a summary of a [kept set](crate::Kept) is about.
    pub fn edited<'r>(
        &mut self,
        logits: impl Into<Row<'r>>,
        mask: Option<&[u32]>,
    ) -> Result<EditedRow, RowError> {
        self.sequence.edited(logits.into(), mask, &mut self.workspace)
    }

    /// This process's part of the next row, whose first logit has id `start`, where a vocabulary is split
    /// across processes.
    ///
    /// Every process keeps a sampler of its own with the same parameters, seed and history, and is given the
    /// whole mask, if there is one. `memory` is kept from step to step. An id in the parameters that no
    /// process holds goes unnoticed here; [`Sampler::draw_over`] checks it.
    pub fn shard<'a>(
        &'a self,
        part: impl Into<Row<'a>>,
        start: usize,
        mask: Option<&'a [u32]>,
        memory: &'a mut ShardMemory,
    ) -> Result<Shard<'a>, RowError> {
        self.sequence.shard(part.into(), start, mask, 0, self.workspace.draw.passes, memory)
    }

    /// Begins to draw the next token of a row of `vocabulary` logits that `shards` [`Shard`]s hold between
    /// them. `has_mask` says whether they were given a mask.
    ///
    /// The draw stops at every question until it is [resumed](RemoteDraw::resume) with the replies, so the
    /// draws of many sequences can share each exchange of messages. In the end every process appends the
    /// token with [`Sampler::accept_sampled`]. A reply that is missing or cannot be used is
    /// [`RowError::Shard`]; the history is unchanged then, and the next draw works.
    ///
    /// ```
    /// use onedraw::{RemoteReply, Sampler, SamplingParams, ShardMemory};
    ///
    /// let params = SamplingParams::builder().top_k(3).top_p(0.9).seed(5).build()?;
    /// let row = [0.1_f32, 2.0, 1.5, -1.0, 1.9, 0.4, 2.2];
    /// let mut sampler = Sampler::new(params.clone())?;
    ///
    /// // Here both shards are in one process; elsewhere they are at the two ends of a wire.
    /// let mut memories = [ShardMemory::default(), ShardMemory::default()];
    /// let [low, high] = &mut memories;
    /// let mut shards = [sampler.shard(&row[..4], 0, None, low)?, sampler.shard(&row[4..], 4, None, high)?];
    /// let mut draw = sampler.draw_over(row.len(), 2, false)?;
    /// while let Some(question) = draw.question() {
    ///     let messages: Vec<Vec<u8>> = shards.iter_mut().map(|shard| shard.reply(question)).collect();
    ///     let replies: Vec<_> =
    ///         messages.iter().enumerate().map(|(shard, message)| RemoteReply { shard, message }).collect();
    ///     draw.resume(&replies);
    /// }
    /// let drawn = draw.result().expect("no question is left")?;
    /// assert_eq!(drawn, Sampler::new(params)?.sample(&row)?);
    /// sampler.accept_sampled(&drawn);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn draw_over(
        &self,
        vocabulary: usize,
        shards: usize,
        has_mask: bool,
    ) -> Result<RemoteDraw<'_>, RowError> {
        self.sequence.draw_over(vocabulary, shards, has_mask, self.workspace.draw.passes)
    }

    /// [`Sampler::draw_over`] to its end, then appends the token. `exchange` puts a question to every shard
    /// and returns the replies that came, each with the number of its shard.
    pub fn sample_over(
        &mut self,
        vocabulary: usize,
        shards: usize,
        has_mask: bool,
        mut exchange: impl FnMut(&[u8]) -> Vec<(usize, Vec<u8>)>,
    ) -> Result<Sampled, RowError> {
        let mut draw = self.draw_over(vocabulary, shards, has_mask)?;
        let sampled = loop {
            let Some(question) = draw.question() else { break draw.result() };
            let messages = exchange(question);
            let replies: Vec<_> =
                messages.iter().map(|(shard, message)| Reply { shard: *shard, message }).collect();
            draw.resume(&replies);
        };
        // There is a result as soon as there is no question.
        let sampled = sampled.unwrap_or(Err(RowError::contradiction("the draw ended without a token")))?;
        self.accept_sampled(&sampled);
        Ok(sampled)
    }

    /// Logprobs of the prompt: row i of the matrix predicts token i + 1. One entry a prompt token, none for
    /// the first; raw, with the best `prompt_logprobs` others. Rows after the last that is needed are not
    /// read; a missing one is [`RowError::EmptyRow`].
    pub fn prompt_logprobs(&mut self, rows: Rows<'_>) -> PromptLogprobs {
        let prompt = self.sequence.prompt();
        let mut report = |(i, &token): (usize, &u32)| match i {
            0 => Ok(None),
            i if i > rows.len() => Err(RowError::EmptyRow),
            i => self.sequence.prompt_report(rows.row(i - 1), token, &mut self.workspace).map(Some),
        };
        prompt.iter().enumerate().map(&mut report).collect()
    }

    /// Appends a token that was chosen elsewhere. Mirostat, if it is on, learns nothing from it.
    pub fn accept(&mut self, token: u32) {
        self.sequence.accept(token, None);
    }

    /// Appends a token that [`Sampler::peek`] drew at the next position, with what mirostat learned from it.
    pub fn accept_sampled(&mut self, sampled: &Sampled) {
        self.sequence.accept(sampled.token, sampled.mirostat_mu);
    }

    /// Appends a token that [`Sampler::audit`] was asked about, with what mirostat learns from it.
    pub fn accept_audited(&mut self, audit: &Audit) {
        self.sequence.accept(audit.token, audit.mirostat_mu);
    }

    /// Takes back the tokens after the first `length` of the output; a longer length changes nothing. This is
    /// an undo: the same rows draw the same tokens again.
    pub fn rewind(&mut self, length: usize) {
        self.sequence.rewind(length);
    }

    /// Takes text back because of what was drawn: a banned string was completed, as a
    /// [`StopMatcher`](crate::StopMatcher) decided, or whatever a caller found in it. The token that stood
    /// there is banned at that position, before every stage of the chain, and the noise is fresh: to reuse it
    /// would be a bias. The rewinds so far count as history. Once every token of a position is banned, a draw
    /// there is [`RowError::NothingLeft`].
    pub fn take_back(&mut self, rewind: &Rewind) {
        self.sequence.take_back(rewind);
    }

    /// Replaces the prompt, for a caller who learns it after the sampler was made. The output stays, and so does the
    /// position. [`Sampler::reset`] forgets it.
    pub fn set_prompt(&mut self, prompt: &[u32]) {
        self.sequence.set_prompt(prompt);
    }

    /// Makes the sampler what it was when it was made or loaded: the prompt and the output of its parameters, no bans,
    /// no rewinds, mirostat where it began. The seed stays, one that was drawn from the system too, so the same rows
    /// draw the same tokens again.
    pub fn reset(&mut self) {
        self.sequence.reset();
    }

    /// Stage by stage, what the chain does to a row: how many tokens and how much mass it leaves, which
    /// tokens go, and what is drawn in the end. Of the tokens that go at a stage, and of those that stay, the
    /// `listed` most likely are named.
    ///
    /// ```
    /// use onedraw::{Sampler, SamplingParams};
    /// let params = SamplingParams::builder().temperature(0.5).top_k(3).min_p(0.1).seed(1).build()?;
    /// let explanation = Sampler::new(params)?.explain(&[2.0_f32, 1.0, 0.5, -3.0], 10)?;
    /// let left: Vec<_> = explanation.stages.iter().map(|stage| (stage.stage.as_str(), stage.tokens)).collect();
    /// assert_eq!(left, [("row", 4), ("temperature", 4), ("min_p", 2), ("top_k", 2)]);
    /// assert_eq!(explanation.stages[2].removed[0].token, 2);
    /// assert_eq!(explanation.stages[3].leading.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn explain<'r>(
        &mut self,
        logits: impl Into<Row<'r>>,
        listed: usize,
    ) -> Result<Explanation, RowError> {
        self.sequence.explain(logits.into(), None, listed, &mut self.workspace)
    }

    /// As [`Sampler::explain`], among the tokens whose bit is set in `mask`.
    pub fn explain_masked<'r>(
        &mut self,
        logits: impl Into<Row<'r>>,
        mask: &[u32],
        listed: usize,
    ) -> Result<Explanation, RowError> {
        self.sequence.explain(logits.into(), Some(mask), listed, &mut self.workspace)
    }

    /// Everything a later draw depends on: parameters, seed, tokens, mirostat's state, rewinds and bans.
    ///
    /// ```
    /// use onedraw::{Sampler, SamplingParams, Saved};
    /// let row = [0.3_f32, 2.0, 1.1, 0.4];
    /// let mut sampler = Sampler::new(SamplingParams::builder().mirostat(2).seed(5).build()?)?;
    /// sampler.sample(&row)?;
    /// let json = serde_json::to_string(&sampler.save())?;
    /// let mut again = Sampler::load(&serde_json::from_str::<Saved>(&json)?)?;
    /// assert_eq!(again.sample(&row)?, sampler.sample(&row)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self) -> Saved {
        self.sequence.save()
    }

    /// The sampler that was saved.
    pub fn load(saved: &Saved) -> Result<Self, ParamError> {
        Ok(Self { sequence: Sequence::load(saved)?.alone(), workspace: Workspace::default() })
    }

    /// Where mirostat stands, in bits, if it is on.
    pub fn mirostat_mu(&self) -> Option<f64> {
        self.sequence.mirostat_mu()
    }

    /// The position of the next draw: the number of tokens written so far.
    pub fn position(&self) -> u32 {
        self.sequence.position()
    }

    /// The tokens written so far.
    pub fn output(&self) -> &[u32] {
        self.sequence.output()
    }

    /// Where it stands.
    pub fn standing(&self) -> Standing<'_> {
        self.sequence.standing()
    }

    /// The seed: the one given, or the one drawn from the system.
    pub fn seed(&self) -> u64 {
        self.sequence.seed()
    }

    /// What a draw works with.
    pub(crate) fn parts(&mut self) -> (&mut Sequence, &mut Workspace) {
        (&mut self.sequence, &mut self.workspace)
    }

    /// What the last draw over several shards of this process would have sent.
    pub fn traffic(&self) -> Traffic {
        self.workspace.traffic
    }
}
