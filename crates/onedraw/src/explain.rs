//! What the chain does to a row, stage by stage.

use serde::Serialize;

use crate::clock::Instant;
use crate::engine::draw::{Draw, DrawMemory, Moment};
use crate::engine::report;
use crate::error::RowError;
use crate::logits::access::RowAccess;
use crate::logits::query::{ListKept, Place};
use crate::numeric::key::Key;
use crate::numeric::mass::{Softmax, Spread};
use crate::numeric::math::exp;
use crate::plan::{Operation, Segment};
use crate::stages::truncate::Truncation;

/// A chain at work on one row. Stages that their parameters leave idle are not in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The unmodified row, then each stage in the order of the chain.
    pub stages: Vec<StageEffect>,
    /// The token that is drawn here.
    pub token: u32,
    /// Its probability in the distribution it is drawn from.
    pub probability: f64,
    /// The position that is drawn.
    pub position: u32,
    /// The seed.
    pub seed: u64,
}

/// What one stage did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageEffect {
    /// The stage's name; `row` for the unmodified row.
    pub stage: String,
    /// Tokens left after it.
    pub tokens: u32,
    /// The share of the probability before it that the tokens left had.
    pub mass: f64,
    /// How many tokens went.
    pub gone: u32,
    /// The most likely of them.
    pub removed: Vec<Candidate>,
    /// Where it cut the order at one place: the last token that stayed, with its probability before the stage. `None`
    /// if no token went, or if some went that come before others that stayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub border: Option<Candidate>,
    /// The best token after it.
    pub best: Candidate,
    /// The most likely tokens after it, the best first.
    pub leading: Vec<Candidate>,
    /// The entropy after it, in bits.
    pub entropy: f64,
    /// The temperature in force after it.
    pub temperature: f64,
    /// What it decided at this draw, where that is not in the parameters: a coin, a temperature, a state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// The time to find what is left. A draw only asks about its winner, and takes less.
    pub nanoseconds: u64,
}

/// A token and its probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// The id.
    pub token: u32,
    /// Its probability: before the stage for a token that goes, after it for one that stays.
    pub probability: f64,
}

/// Watches a draw go through the chain.
pub(crate) struct Explainer {
    /// Tokens to name at each stage.
    listed: usize,
    started: Instant,
    stages: Vec<StageEffect>,
    /// What was left after the last stage, and how it weighed.
    before: Vec<Key>,
    softmax: Softmax,
    total: u64,
}

impl Explainer {
    pub(crate) fn new(listed: usize) -> Self {
        let (stages, before) = (Vec::new(), Vec::new());
        Self { listed, started: Instant::now(), stages, before, softmax: Softmax::new(0.0, 1.0), total: 0 }
    }

    /// Takes a draw through the chain, as [`Draw::through`] does, and notes what every stage did.
    pub(crate) async fn explain<R: RowAccess>(
        &mut self,
        row: &mut R,
        segments: &[Segment],
        is_greedy: bool,
        moment: &Moment<'_>,
        memory: &mut DrawMemory,
    ) -> Result<Explanation, RowError> {
        let mut draw = Draw::begin(row, segments.first(), is_greedy, memory).await?;
        for (i, segment) in segments.iter().enumerate() {
            if i > 0 {
                draw.enter(i, segment).await?;
            }
            // The fine plan has one edit per segment, and none before an operation that edits.
            match segment.edits.first() {
                Some(edit) => self.note(&mut draw, edit.stage().name(), None, moment).await?,
                None if i == 0 => self.note(&mut draw, "row", None, moment).await?,
                None => {}
            }
            for (j, operation) in segment.operations.iter().enumerate() {
                let place = Place { segment: i as u32, operation: j as u32 };
                draw.take(operation, place, moment).await?;
                let decision = decision(operation, draw.is_greedy, moment);
                self.note(&mut draw, operation.stage().name(), decision, moment).await?;
            }
        }
        let key = draw.winner().await?;
        let probability = exp(report::logprob(&mut draw, key).await?);
        let (position, seed) = (moment.noise.position, moment.noise.seed);
        let stages = std::mem::take(&mut self.stages);
        Ok(Explanation { stages, token: key.token(), probability, position, seed })
    }

    async fn note<R: RowAccess>(
        &mut self,
        draw: &mut Draw<'_, R>,
        stage: &str,
        decision: Option<String>,
        moment: &Moment<'_>,
    ) -> Result<(), RowError> {
        let last = draw.cut().await?;
        let nanoseconds = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let softmax = draw.softmax();
        let spread = draw.row.spread(last, softmax).await?;
        draw.row.ask(&ListKept { last }).await?;
        let left = &draw.row.lists.keys;
        let effect = self.effect(stage.to_owned(), left, moment.vocabulary, softmax, &spread);
        self.before.clone_from(left);
        let temperature = draw.temperature.value;
        self.stages.push(StageEffect { decision, temperature, nanoseconds, ..effect });
        (self.softmax, self.total) = (softmax, spread.total);
        self.started = Instant::now();
        Ok(())
    }

    /// Compares what is left with what was.
    fn effect(
        &self,
        stage: String,
        left: &[Key],
        vocabulary: usize,
        softmax: Softmax,
        spread: &Spread,
    ) -> StageEffect {
        let mut stays = vec![false; vocabulary];
        left.iter().for_each(|key| stays[key.token() as usize] = true);
        let gone = self.before.iter().copied().filter(|key| !stays[key.token() as usize]);
        let mut gone: Vec<Key> = gone.collect();
        let count = gone.len() as u32;
        let first_gone = gone.iter().min().copied();
        let lost: u64 = gone.iter().map(|key| self.softmax.weight(key.logit())).sum();
        let mut leading = left.to_vec();
        self.keep_listed(&mut gone);
        self.keep_listed(&mut leading);
        let share = |weight: u64, total: u64| weight as f64 / total as f64;
        let candidate = |key: &Key, softmax: Softmax, total| Candidate {
            token: key.token(),
            probability: share(softmax.weight(key.logit()), total),
        };
        let best = left.iter().min().map(|key| candidate(key, softmax, spread.total));
        let cuts_after =
            |last: &Key| first_gone.is_some_and(|gone| gone > *last) && self.before.contains(last);
        let border = left.iter().max().filter(|last| cuts_after(last));
        let removed = gone.iter().map(|key| candidate(key, self.softmax, self.total));
        StageEffect {
            stage,
            tokens: left.len() as u32,
            mass: if self.stages.is_empty() { 1.0 } else { share(self.total - lost, self.total) },
            gone: count,
            removed: removed.collect(),
            border: border.map(|key| candidate(key, self.softmax, self.total)),
            best: best.unwrap_or(Candidate { token: 0, probability: 0.0 }),
            leading: leading.iter().map(|key| candidate(key, softmax, spread.total)).collect(),
            entropy: spread.entropy() / std::f64::consts::LN_2,
            temperature: 1.0,
            decision: None,
            nanoseconds: 0,
        }
    }

    /// Those that are named, in order; only they need one.
    fn keep_listed(&self, keys: &mut Vec<Key>) {
        if self.listed < keys.len() {
            keys.select_nth_unstable(self.listed);
            keys.truncate(self.listed);
        }
        keys.sort_unstable();
    }
}

/// What an operation decided that the parameters do not say.
fn decision(operation: &Operation, is_greedy: bool, moment: &Moment<'_>) -> Option<String> {
    match operation {
        Operation::Heat(_) if is_greedy => Some("greedy".to_owned()),
        Operation::Truncate(_, Truncation::Xtc(xtc)) => {
            Some(if xtc.acts(&moment.noise) { "the coin says yes" } else { "the coin says no" }.to_owned())
        }
        Operation::Truncate(_, Truncation::Mirostat(_)) => Some(format!("mu {}", moment.mu)),
        _ => None,
    }
}
