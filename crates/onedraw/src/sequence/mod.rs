//! One sequence without the memory to draw in: a plan, a history and a seed.

mod tell;

use std::fmt::Write;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::engine::draw::{Draw, DrawMemory, Moment};
use crate::engine::exchange::{Agreement, Drawing, Rank, Turn};
use crate::engine::local::{self, LocalRow, Setting, ShardMemory};
use crate::engine::opening::opening;
use crate::engine::remote::{RemoteDraw, next_draw};
use crate::engine::report;
use crate::engine::shard::Shard;
use crate::engine::workspace::Workspace;
use crate::error::{ParamError, RowError};
use crate::kernels::passes::Passes;
use crate::kernels::row::Row;
use crate::logits::access::{RowAccess, answered};
use crate::logprobs;
use crate::numeric::digest::Digest;
use crate::numeric::float_mode::Standard;
use crate::numeric::mass::MAX_VOCABULARY;
use crate::numeric::math::exp;
use crate::numeric::noise::Noise;
use crate::params::{KeptMode, SamplingParams};
use crate::plan::{Operation, Plan, Segment, keep_a_prefix};
use crate::sampled::Sampled;
use crate::stages::edit::Edit;
use crate::stages::edit::context::Context;
use crate::stages::truncate::mirostat::Mirostat;
use crate::state::history::History;
use crate::state::path::{Path, Rewind};

/// What a token depends on, beside the row and the position.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    /// One for all `n` sequences.
    plan: Arc<Plan>,
    /// As they were given, but for the seed, which is known now.
    params: Arc<SamplingParams>,
    history: History,
    path: Path,
    /// The path when the sequence was made or loaded.
    beginning: Arc<Path>,
    mirostat: Option<Mirostat>,
    seed: u64,
    sequence: u32,
    /// Whether a draw says with which probability it came to its token, which needs the whole mass.
    tells_probability: bool,
    /// The largest id of the prompt.
    largest_prompt: Option<u32>,
    /// The largest id of the output.
    largest_output: Option<u32>,
    /// A number that stands for the parameters, once it is asked for.
    settings: OnceLock<Digest>,
    /// Tokens to make room for when the first is appended, so that the next ones allocate nothing:
    /// `max_tokens`, of which no more than a thousand are paid for in advance.
    room: usize,
}

/// A sequence at rest: everything a later draw depends on, to be written and read again. As JSON where the
/// order holds no stage of a user's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Saved {
    /// The parameters, with the seed and all tokens so far.
    params: SamplingParams,
    /// Which of the `n` sequences it is.
    sequence: u32,
    path: Path,
}

/// Where a sequence stands: what another device needs to know to answer for it.
#[derive(Clone, Debug)]
pub struct Standing<'a> {
    /// The parameters as they were given.
    pub params: &'a SamplingParams,
    /// The seed.
    pub seed: u64,
    /// Which of the `n` sequences of the parameters it is.
    pub sequence: u32,
    /// The tokens of the prompt.
    pub prompt: &'a [u32],
    /// The tokens written so far.
    pub output: &'a [u32],
    /// How often text was taken back because of what was drawn, which changes the noise.
    pub round: u32,
    /// The tokens that must not be drawn next, because text was taken back to here.
    pub banned: Vec<u32>,
}

/// How many tokens are paid for in advance.
fn room(params: &SamplingParams) -> usize {
    (params.max_tokens as usize).min(1024)
}

/// A mask must reach to the end of the vocabulary; it may be longer.
fn check_mask(mask: Option<&[u32]>, vocabulary: usize) -> Result<(), RowError> {
    let needed = vocabulary.div_ceil(32);
    match mask.map(<[u32]>::len) {
        Some(words) if words < needed => Err(RowError::MaskTooShort { words, needed }),
        _ => Ok(()),
    }
}

impl Sequence {
    /// The `n` sequences of the parameters: one seed, told apart by the sequence word of the noise.
    pub(crate) fn all(params: &SamplingParams) -> Result<Vec<Self>, ParamError> {
        let first = Self::first(params)?;
        Ok((0..params.n).map(|sequence| Self { sequence, ..first.clone() }).collect())
    }

    /// The first of the `n` sequences.
    pub(crate) fn first(params: &SamplingParams) -> Result<Self, ParamError> {
        let plan = Plan::new(params)?;
        let seed = match params.seed {
            Some(seed) => seed,
            None => getrandom::u64().map_err(|error| {
                ParamError::new("seed", format!("the system gave no random number: {error}"))
            })?,
        };
        let path = Path::new(params.mirostat_mu.unwrap_or(2.0 * params.mirostat_tau));
        Ok(Self {
            plan: Arc::new(plan),
            params: Arc::new(SamplingParams { seed: Some(seed), ..params.clone() }),
            history: History::new(&params.prompt_token_ids, &params.output_token_ids, params.penalty_window),
            beginning: Arc::new(path.clone()),
            path,
            mirostat: Mirostat::new(params),
            seed,
            sequence: 0,
            tells_probability: params.tells_probability(),
            largest_prompt: params.prompt_token_ids.iter().max().copied(),
            largest_output: params.output_token_ids.iter().max().copied(),
            settings: OnceLock::new(),
            room: room(params),
        })
    }

    /// One of the `n` sequences.
    pub(crate) fn one(params: &SamplingParams, sequence: u32) -> Result<Self, ParamError> {
        if sequence >= params.n {
            let message = format!("must be below n ({}), not {sequence}", params.n);
            return Err(ParamError::new("sequence", message));
        }
        Ok(Self { sequence, ..Self::first(params)? })
    }

    /// The same sequence, where a draw tells its probability wherever it tells a logprob. In raw modes that
    /// is a second sum over the row, which a batch makes only if it is asked for.
    pub(crate) fn alone(self) -> Self {
        Self { tells_probability: self.tells_probability || self.params.logprobs.is_some(), ..self }
    }

    pub(crate) fn check_vocabulary(&self, vocabulary: usize) -> Result<(), RowError> {
        self.plan.check_ids(vocabulary, self.largest_prompt, self.largest_output)
    }

    /// Appends a token; `mu` is where mirostat stands then, `None`: where it stood.
    pub(crate) fn accept(&mut self, token: u32, mu: Option<f64>) {
        let room = std::mem::take(&mut self.room);
        self.history.reserve(room);
        // Mirostat's mu changes with every token.
        self.path.reserve(self.mirostat.map_or(0, |_| room));
        self.history.push(token);
        self.path.push(self.history.output().len(), mu.unwrap_or(self.path.state().mu));
        self.largest_output = self.largest_output.max(Some(token));
    }

    pub(crate) fn rewind(&mut self, length: usize) {
        if length < self.history.output().len() {
            self.path.rewind(length);
            self.truncate(length);
        }
    }

    pub(crate) fn take_back(&mut self, rewind: &Rewind) {
        if rewind.length <= self.history.output().len() {
            self.path.take_back(rewind.length, rewind.token);
            self.truncate(rewind.length);
        }
    }

    /// Replaces the prompt. The output stays, and so does the position.
    pub(crate) fn set_prompt(&mut self, prompt: &[u32]) {
        self.history = History::new(prompt, self.history.output(), self.params.penalty_window);
        self.largest_prompt = prompt.iter().max().copied();
        self.room = room(&self.params);
    }

    /// Makes it what it was when it was made or loaded.
    pub(crate) fn reset(&mut self) {
        let SamplingParams { prompt_token_ids, output_token_ids, penalty_window, .. } = &*self.params;
        self.history = History::new(prompt_token_ids, output_token_ids, *penalty_window);
        self.largest_prompt = prompt_token_ids.iter().max().copied();
        self.largest_output = output_token_ids.iter().max().copied();
        self.path = Path::clone(&self.beginning);
        self.room = room(&self.params);
    }

    fn truncate(&mut self, length: usize) {
        self.history.truncate_output(length);
        self.largest_output = self.history.output().iter().max().copied();
    }

    /// Where it stands.
    pub(crate) fn standing(&self) -> Standing<'_> {
        Standing {
            params: &self.params,
            seed: self.seed,
            sequence: self.sequence,
            prompt: self.history.prompt(),
            output: self.history.output(),
            round: self.path.state().round,
            banned: self.path.bans_at(self.position()).collect(),
        }
    }

    pub(crate) fn prompt(&self) -> &[u32] {
        self.history.prompt()
    }

    pub(crate) fn output(&self) -> &[u32] {
        self.history.output()
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn mirostat_mu(&self) -> Option<f64> {
        self.mirostat.map(|_| self.path.state().mu)
    }

    /// Everything a later draw depends on.
    pub(crate) fn save(&self) -> Saved {
        let params = SamplingParams {
            prompt_token_ids: self.history.prompt().to_vec(),
            output_token_ids: self.history.output().to_vec(),
            ..(*self.params).clone()
        };
        Saved { params, sequence: self.sequence, path: self.path.clone() }
    }

    pub(crate) fn load(saved: &Saved) -> Result<Self, ParamError> {
        let Saved { params, sequence, path } = saved;
        if !path.fits(params.output_token_ids.len()) {
            return Err(ParamError::new("path", "does not belong to the output"));
        }
        let beginning = Arc::new(path.clone());
        Ok(Self { path: path.clone(), beginning, ..Self::one(params, *sequence)? })
    }

    pub(crate) fn noise(&self, position: u32) -> Noise {
        Noise { seed: self.seed, position, sequence: self.sequence, round: self.path.state().round }
    }

    /// What the messages of a draw over shards call it: its noise. A greedy draw uses none, so its seed does
    /// not count, and every process may have its own.
    fn draw_name(&self, position: u32) -> Noise {
        let noise = self.noise(position);
        if self.plan.is_greedy() { Noise { seed: 0, ..noise } } else { noise }
    }

    fn moment(&self, vocabulary: usize, position: u32) -> Moment<'_> {
        Moment { noise: self.noise(position), history: &self.history, vocabulary, mu: self.path.state().mu }
    }

    pub(crate) fn position(&self) -> u32 {
        self.history.output().len() as u32
    }

    /// The chain for rows of that length and mask, if they can be drawn from at all.
    fn chain(&self, vocabulary: usize, mask: Option<&[u32]>) -> Result<&[Segment], RowError> {
        self.check_vocabulary(vocabulary)?;
        check_mask(mask, vocabulary)?;
        self.plan.segments(mask.is_some())
    }

    /// Loads the row, whole or in shards, and hands it to `use_row`. The row has been checked.
    fn with_row<T>(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        position: u32,
        segments: &[Segment],
        workspace: &mut Workspace,
        use_row: impl FnOnce(&mut LocalRow<'_>, &mut DrawMemory) -> Result<T, RowError>,
    ) -> Result<T, RowError> {
        let _mode = Standard::enter();
        let Workspace { shards, memory, draw, traffic } = workspace;
        memory.resize_with(shards.count(), ShardMemory::default);
        let setting = self.setting(mask, position, segments, draw.passes);
        let mut row = LocalRow::load(row, shards, setting, memory);
        let result = use_row(&mut row, draw);
        *traffic = row.traffic();
        result
    }

    fn setting<'a>(
        &'a self,
        mask: Option<&'a [u32]>,
        position: u32,
        segments: &'a [Segment],
        passes: Passes,
    ) -> Setting<'a> {
        let context = Context { history: &self.history, mask, bans: &self.path.bans, position };
        Setting { segments, context, noise: self.noise(position), passes }
    }

    /// Draws at `ahead` positions after the history's end; the history stays as it is.
    pub(crate) fn draw(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        ahead: u32,
        uniform: Option<f64>,
        workspace: &mut Workspace,
    ) -> Result<Sampled, RowError> {
        let position = self.position().wrapping_add(ahead);
        let vocabulary = row.len();
        let segments = self.chain(vocabulary, mask)?;
        let takes_the_first = uniform.is_none() && self.takes_the_first(segments, position);
        if takes_the_first && let Some(token) = workspace.first(row) {
            return Ok(self.sampled(token, position, None));
        }
        let choice = uniform.map_or(Choice::Race, Choice::At);
        self.with_row(row, mask, position, segments, workspace, |row, memory| {
            answered(self.drawn(row, segments, vocabulary, position, memory, choice))
        })
    }

    /// What a draw of the next token would report if it came to `token`.
    pub(crate) fn report(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        token: u32,
        workspace: &mut Workspace,
    ) -> Result<Sampled, RowError> {
        let (position, vocabulary) = (self.position(), row.len());
        let segments = self.chain(vocabulary, mask)?;
        let is_told = self.tells_probability || self.params.kept != KeptMode::None;
        if self.params.logprobs.is_none() && self.mirostat.is_none() && !is_told {
            return Ok(self.sampled(token, position, None));
        }
        self.with_row(row, mask, position, segments, workspace, |row, memory| {
            answered(self.drawn(row, segments, vocabulary, position, memory, Choice::Token(token)))
        })
    }

    /// Whether the draw is the largest logit of the unmodified row, and nothing else is asked.
    fn takes_the_first(&self, segments: &[Segment], position: u32) -> bool {
        let is_bare = match segments {
            [Segment { edits, operations }] => {
                edits.iter().all(|edit| matches!(edit, Edit::Bans))
                    && operations.iter().all(Operation::keeps_the_first)
            }
            _ => false,
        };
        let is_asked_more =
            self.params.logprobs.is_some() || self.tells_probability || self.path.has_bans_at(position);
        let is_asked_more = is_asked_more || self.params.kept != KeptMode::None;
        self.plan.is_greedy() && is_bare && !is_asked_more
    }

    fn sampled(&self, token: u32, position: u32, mirostat_mu: Option<f64>) -> Sampled {
        Sampled {
            token,
            seed: self.seed,
            position,
            sequence: self.sequence,
            probability: None,
            logprob: None,
            rank: None,
            logprobs: Vec::new(),
            mirostat_mu,
            kept: None,
        }
    }

    /// Draws from a row by asking it; `choice` says which token the draw comes to.
    async fn drawn<R: RowAccess>(
        &self,
        row: &mut R,
        segments: &[Segment],
        vocabulary: usize,
        position: u32,
        memory: &mut DrawMemory,
        choice: Choice,
    ) -> Result<Sampled, RowError> {
        let moment = self.moment(vocabulary, position);
        let mut draw = Draw::through(row, segments, self.plan.is_greedy(), &moment, memory).await?;
        let key = match choice {
            Choice::Race => draw.winner().await?,
            Choice::At(uniform) => report::at(&mut draw, uniform).await?,
            Choice::Token(token) => report::key_of(&mut draw, token).await?,
        };
        let token = key.token();
        let mirostat_mu = match self.mirostat {
            Some(mirostat) => Some(mirostat.learned(moment.mu, report::logprob(&mut draw, key).await?)),
            None => None,
        };
        let mut sampled = self.sampled(token, position, mirostat_mu);
        if self.tells_probability {
            sampled.probability = Some(exp(report::logprob(&mut draw, key).await?));
        }
        sampled.kept = report::kept(&mut draw, self.params.kept, keep_a_prefix(segments)).await?;
        if let Some(count) = self.params.logprobs {
            let mode = self.params.logprobs_mode;
            let report = if mode.is_raw() {
                let mut raw = Draw::raw(row, memory).await?;
                logprobs::report(&mut raw, token, count, mode).await?
            } else {
                logprobs::report(&mut draw, token, count, mode).await?
            };
            sampled.logprob = Some(report.logprob);
            sampled.rank = Some(report.rank);
            sampled.logprobs = report.logprobs;
        }
        Ok(sampled)
    }

    /// This process's part of the row `ahead` positions after the next.
    pub(crate) fn shard<'a>(
        &'a self,
        part: Row<'a>,
        start: usize,
        mask: Option<&'a [u32]>,
        ahead: u32,
        passes: Passes,
        memory: &'a mut ShardMemory,
    ) -> Result<Shard<'a>, RowError> {
        let _mode = Standard::enter();
        let vocabulary = start.saturating_add(part.len());
        if vocabulary > MAX_VOCABULARY {
            return Err(RowError::VocabularyTooLarge { vocabulary });
        }
        check_mask(mask, vocabulary)?;
        let segments = self.plan.segments(mask.is_some())?;
        let position = self.position().wrapping_add(ahead);
        let setting = self.setting(mask, position, segments, passes);
        Ok(Shard::new(local::load(part, start, setting, memory), self.draw_name(position)))
    }

    /// Begins to draw the next token of a row that others hold.
    pub(crate) fn draw_over(
        &self,
        vocabulary: usize,
        shards: usize,
        has_mask: bool,
        passes: Passes,
    ) -> Result<RemoteDraw<'_>, RowError> {
        self.check_vocabulary(vocabulary)?;
        let segments = self.plan.segments(has_mask)?;
        let position = self.position();
        let name = self.draw_name(position);
        Ok(RemoteDraw::start(vocabulary, shards, next_draw(), name, move |mut row| async move {
            let mut memory = DrawMemory::with(passes);
            self.drawn(&mut row, segments, vocabulary, position, &mut memory, Choice::Race).await
        }))
    }

    /// This rank's turn in the draw of a row, `ahead` positions after the next, with its part of the row.
    pub(crate) fn turn<'a, P>(
        &'a self,
        part: impl FnOnce() -> Result<P, RowError>,
        mask: Option<&[u32]>,
        rank: &Rank,
        ahead: u32,
        passes: Passes,
    ) -> Result<Turn<'a, P>, RowError> {
        let Rank { vocabulary, count, .. } = *rank;
        let segments = self.chain(vocabulary, mask)?;
        let part = part()?;
        let position = self.position().wrapping_add(ahead);
        let open = opening(segments, self.plan.is_greedy(), self.params.logprobs.is_some());
        let name = self.draw_name(position);
        let agreement = self.agreement(rank, mask, name);
        // All ranks have the same number, and need no count of their steps for it.
        let draw = agreement.settings ^ agreement.history;
        let remote = RemoteDraw::start(vocabulary, count, draw, name, move |mut row| async move {
            let mut memory = DrawMemory::with(passes);
            row.open(open).await?;
            self.drawn(&mut row, segments, vocabulary, position, &mut memory, Choice::Race).await
        });
        Ok(Turn::Drawing(Box::new(Drawing { part, draw: remote, agreement })))
    }

    /// What the ranks of a draw must have in common.
    fn agreement(&self, rank: &Rank, mask: Option<&[u32]>, name: Noise) -> Agreement {
        let settings = self.settings.get_or_init(|| {
            // The tokens and the seed are history; tokens may have been written since.
            let (seed, prompt_token_ids, output_token_ids) = (None, Vec::new(), Vec::new());
            let settings =
                SamplingParams { seed, prompt_token_ids, output_token_ids, ..(*self.params).clone() };
            let mut digest = Digest::default();
            // A digest takes any text.
            let _ = write!(digest, "{settings:?}");
            digest.and(self.tells_probability.into())
        });
        let settings = settings.and(rank.vocabulary as u64).and(rank.count as u64).and(mask.is_some().into());
        let Noise { seed, position, sequence, round } = name;
        let mut history = Digest::default()
            .and(self.history.digest())
            .and(seed)
            .and(u64::from(position) << 32 | u64::from(sequence))
            .and(u64::from(round))
            .and(self.path.state().mu.to_bits());
        for ban in &self.path.bans {
            history = history.and(u64::from(ban.position) << 32 | u64::from(ban.token));
        }
        for &word in mask.unwrap_or_default().iter().take(rank.vocabulary.div_ceil(32)) {
            history = history.and(word.into());
        }
        Agreement { settings: settings.number(), history: history.number() }
    }
}

/// Which token a draw comes to.
#[derive(Clone, Copy)]
enum Choice {
    /// The winner of the race.
    Race,
    /// The one at this share of the mass.
    At(f64),
    /// This one, which was chosen elsewhere.
    Token(u32),
}
