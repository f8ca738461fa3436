//! The search for the best texts.

use std::collections::BTreeMap;

use super::candidate::{Candidate, Continuation, Expansion, Fate, Hypothesis};
use super::group::{Ending, Group};
use super::params::{BeamParams, BeamStyle};
use crate::batch::{Batch, SequenceId, Step};
use crate::decode::stop::Finish;
use crate::error::{ParamError, RowError};
use crate::kernels::Kernel;
use crate::kernels::row::Row;
use crate::logprobs::TokenLogprob;
use crate::numeric::float_mode::Standard;
use crate::params::SamplingParams;

/// A running text.
#[derive(Clone, Debug)]
pub struct Beam {
    id: SequenceId,
    /// The sum of the logprobs of its tokens.
    pub logprob: f64,
    /// The sum of the logprobs less the penalties of diversity.
    pub score: f64,
    /// The index of its group.
    pub group: usize,
}

/// Beam search, step by step.
///
/// ```
/// use onedraw::SamplingParams;
/// use onedraw::beam::{BeamParams, BeamSearch, Continuation};
/// use onedraw::Finish;
///
/// // A model whose logits do not depend on the text: token 2 ends one.
/// let logits = [0.5_f32, 0.0, 1.0];
/// let params = SamplingParams::builder().max_tokens(3u32).n(2u32).build()?;
/// let mut search = BeamSearch::new(params, BeamParams { width: 2, ..BeamParams::default() })?;
/// while !search.is_done() {
///     let rows: Vec<_> = search.beams().iter().map(|_| (&logits).into()).collect();
///     search.step(&rows, &[], |_, token| match token {
///         2 => Continuation::Ends(Finish::Eos { token }),
///         _ => Continuation::Goes,
///     })?;
/// }
/// let found = search.finish();
/// assert_eq!(found[0].tokens, [2]);
/// assert_eq!(found.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BeamSearch {
    params: BeamParams,
    batch: Batch,
    beams: Vec<Beam>,
    groups: Vec<Group>,
    /// How many texts to return.
    n: usize,
    /// The number of prompt tokens.
    prompt: usize,
    /// The number of tokens that each beam has written.
    length: usize,
    /// The most tokens that a beam may write.
    longest: usize,
    /// How many different ids end a text.
    ends: usize,
}

impl BeamSearch {
    /// Starts a search. Of `params` only the edits, `max_tokens`, `n` (how many texts to return) and the
    /// histories act; the settings of the draw do not.
    ///
    /// Errors name the field and the allowed range.
    pub fn new(params: SamplingParams, beams: BeamParams) -> Result<Self, ParamError> {
        beams.validate(&params)?;
        let SamplingParams { n, max_tokens, .. } = params;
        let ends = params.eos_token_id.len();
        let (prompt, begun) = (params.prompt_token_ids.len(), params.output_token_ids.len());
        let mut batch = Batch::new().threads(1);
        // The seed is never used, but without one the system would be asked for one, which could fail.
        let first = batch.add(SamplingParams { seed: Some(0), n: 1, ..params.without_draw() })?;
        // Each group starts with one beam.
        let groups: Vec<Group> = (0..beams.groups).map(|_| Group::new(beams.width / beams.groups)).collect();
        let mut start = vec![first];
        start.extend((1..beams.groups).filter_map(|_| batch.fork(first)));
        let beam = |(group, id)| Beam { id, logprob: 0.0, score: 0.0, group };
        Ok(Self {
            beams: start.into_iter().enumerate().map(beam).collect(),
            groups,
            batch,
            n: n as usize,
            prompt,
            length: begun,
            longest: (max_tokens as usize).max(begun),
            ends,
            params: beams,
        })
    }

    /// Sets the instruction set and the number of threads (0 for all cores) that look at rows. Neither
    /// changes a text.
    pub fn on(mut self, kernel: Kernel, threads: usize) -> Self {
        self.batch = self.batch.kernel(kernel).threads(threads);
        self
    }

    /// The running texts, in the order in which [`step`](Self::step) expects their rows: group by group, the
    /// best first.
    pub fn beams(&self) -> &[Beam] {
        &self.beams
    }

    /// The tokens that a beam has written; empty if there is no such beam.
    pub fn tokens(&self, beam: usize) -> &[u32] {
        self.beams.get(beam).and_then(|beam| self.batch.output(beam.id)).unwrap_or_default()
    }

    /// Whether the search has ended.
    pub fn is_done(&self) -> bool {
        self.beams.is_empty() || self.length >= self.longest
    }

    /// Appends one token to every beam. `rows[i]` are the logits after beam i, and `masks[i]` is what a
    /// grammar allows there; `masks` may be empty. `continuation` says what a token does to the text of a
    /// beam.
    ///
    /// A beam to which its mask or the edits leave no token is dropped. If that leaves neither a beam nor an
    /// ended text, the step is an error. A bad row is an error too. After an error the search is over.
    pub fn step(
        &mut self,
        rows: &[Row<'_>],
        masks: &[Option<&[u32]>],
        mut continuation: impl FnMut(usize, u32) -> Continuation,
    ) -> Result<Expansion, RowError> {
        let _mode = Standard::enter();
        if rows.len() != self.beams.len() {
            return Err(RowError::UnknownSequence);
        }
        let mut expansion = Expansion::default();
        let mut kept: Vec<(Candidate, usize)> = Vec::new();
        let mut failure = None;
        // How often earlier groups have chosen each token at this step.
        let mut chosen: BTreeMap<u32, u32> = BTreeMap::new();
        for number in 0..self.groups.len() {
            if self.groups[number].is_done {
                continue;
            }
            let found = self.candidates_of(number, rows, masks, &chosen, &mut continuation)?;
            failure = failure.or(found.failure);
            let mut candidates = found.candidates;
            let group = &mut self.groups[number];
            group.take(found.endings, &self.params, &mut candidates);
            let best = found.kept.first().map(|&place| candidates[place].score);
            group.decide_whether_done(&self.params, best, self.length + 1, self.longest);
            for place in found.kept.into_iter().filter(|_| !group.is_done) {
                candidates[place].fate = Fate::Kept;
                *chosen.entry(candidates[place].token).or_default() += 1;
                kept.push((candidates[place], number));
            }
            expansion.candidates.append(&mut candidates);
        }
        if kept.is_empty() && self.groups.iter().all(|group| group.ended.is_empty()) {
            self.beams.clear();
            return Err(failure.unwrap_or(RowError::NothingLeft { stage: None }));
        }
        expansion.branches = kept.iter().map(|(candidate, _)| candidate.branch()).collect();
        self.length += 1;
        self.follow(&kept);
        Ok(expansion)
    }

    /// Finds the candidates of group `number`, and decides which of them go on and which end a text.
    fn candidates_of(
        &mut self,
        number: usize,
        rows: &[Row<'_>],
        masks: &[Option<&[u32]>],
        chosen: &BTreeMap<u32, u32>,
        continuation: &mut impl FnMut(usize, u32) -> Continuation,
    ) -> Result<GroupCandidates, RowError> {
        let members: Vec<usize> = (0..rows.len()).filter(|&beam| self.beams[beam].group == number).collect();
        let steps = members.iter().map(|&beam| Step {
            sequence: self.beams[beam].id,
            row: rows[beam],
            mask: masks.get(beam).copied().flatten(),
        });
        let steps: Vec<Step<'_>> = steps.collect();
        let width = self.groups[number].width;
        // This many candidates are enough for `width` of them to go on even if every beam ends with every id
        // that ends a text.
        let mut keep = match self.params.style {
            BeamStyle::Vllm => 2 * width,
            BeamStyle::Hf | BeamStyle::Gnmt => width * (1 + self.ends).max(2),
        };
        loop {
            // A token that loses score by the diversity penalty may fall behind as many others as tokens were
            // chosen.
            let count = keep + chosen.len();
            let mut group = GroupCandidates::default();
            let mut is_all = true;
            for (&beam, best) in members.iter().zip(self.batch.best(&steps, count)) {
                let best = match best {
                    Ok(best) => best,
                    Err(error @ RowError::NothingLeft { .. }) => {
                        group.failure.get_or_insert(error);
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                is_all &= best.len() < count;
                group.candidates.extend(best.iter().map(|token| self.candidate(beam, token, chosen)));
            }
            group.candidates.sort_by(Candidate::order);
            group
                .candidates
                .retain(|candidate| continuation(candidate.beam, candidate.token) != Continuation::Forbidden);
            if self.params.style != BeamStyle::Vllm {
                is_all &= group.candidates.len() <= keep;
                group.candidates.truncate(keep);
            }
            self.separate(&mut group, width, continuation);
            let found = if self.is_last() { group.endings.len() } else { group.kept.len() };
            if found >= width || is_all {
                return Ok(group);
            }
            keep = keep.saturating_mul(2);
        }
    }

    /// Whether the next token is the last one that `max_tokens` allows.
    fn is_last(&self) -> bool {
        self.length + 1 >= self.longest
    }

    /// The candidate for one token after a beam, with its diversity penalty.
    fn candidate(&self, beam: usize, token: &TokenLogprob, chosen: &BTreeMap<u32, u32>) -> Candidate {
        let times = chosen.get(&token.token).copied().unwrap_or(0);
        let Beam { logprob, score, .. } = self.beams[beam];
        Candidate {
            beam,
            token: token.token,
            logprob: logprob + token.logprob,
            score: score + (token.logprob - self.params.diversity_penalty * f64::from(times)),
            fate: Fate::Dropped,
        }
    }

    /// Separates the candidates that go on from those that end their text.
    fn separate(
        &self,
        group: &mut GroupCandidates,
        width: usize,
        continuation: &mut impl FnMut(usize, u32) -> Continuation,
    ) {
        let is_last = self.is_last();
        for (place, candidate) in group.candidates.iter().enumerate() {
            let finish = match continuation(candidate.beam, candidate.token) {
                Continuation::Ends(finish) => Some(finish),
                Continuation::Goes if group.kept.len() < width && is_last => Some(Finish::Length),
                _ => None,
            };
            match finish {
                Some(finish) => {
                    let hypothesis = self.ended(candidate, finish);
                    group.endings.push(Ending { candidate: place, hypothesis });
                }
                None if group.kept.len() < width && !is_last => group.kept.push(place),
                None => {}
            }
        }
    }

    /// The ended text of a candidate.
    fn ended(&self, candidate: &Candidate, finish: Finish) -> Hypothesis {
        let tokens = [self.tokens(candidate.beam), &[candidate.token]].concat();
        let length = match (self.params.style, finish) {
            (BeamStyle::Vllm, Finish::Eos { .. }) => self.prompt + tokens.len() - 1,
            (BeamStyle::Vllm, _) => self.prompt + tokens.len(),
            _ => tokens.len(),
        };
        let score = self.params.score(candidate.score, length);
        Hypothesis { tokens, score, logprob: candidate.logprob, finish: Some(finish) }
    }

    /// Replaces the beams by the kept candidates.
    fn follow(&mut self, kept: &[(Candidate, usize)]) {
        let grown = kept.iter().filter_map(|&(Candidate { beam, token, logprob, score, .. }, group)| {
            let id = self.batch.fork(self.beams[beam].id)?;
            self.batch.accept(id, token);
            Some(Beam { id, logprob, score, group })
        });
        let grown: Vec<Beam> = grown.collect();
        for beam in std::mem::replace(&mut self.beams, grown) {
            self.batch.remove(beam.id);
        }
    }

    /// Returns the `n` best texts, the best first. If too few texts have ended, because the search was
    /// stopped early or had no token to write, running texts fill the list.
    pub fn finish(self) -> Vec<Hypothesis> {
        let _mode = Standard::enter();
        let finish = (self.length >= self.longest).then_some(Finish::Length);
        let mut found: Vec<Hypothesis> = Vec::new();
        for (number, group) in self.groups.iter().enumerate() {
            found.extend(group.ended.iter().cloned());
            let running = self.beams.iter().enumerate().filter(|(_, beam)| beam.group == number);
            let missing = group.width - group.ended.len();
            found.extend(running.take(missing).map(|(place, beam)| {
                let tokens = self.tokens(place).to_vec();
                let length = match self.params.style {
                    BeamStyle::Vllm => self.prompt + tokens.len(),
                    _ => tokens.len().max(1),
                };
                let score = self.params.score(beam.score, length);
                Hypothesis { tokens, score, logprob: beam.logprob, finish }
            }));
        }
        // The sort is stable, so of equal scores the text of the earlier group comes first.
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(self.n);
        found
    }
}

/// The candidates of one group at one step.
#[derive(Default)]
struct GroupCandidates {
    /// All candidates, the best first.
    candidates: Vec<Candidate>,
    /// The indices of the candidates that go on.
    kept: Vec<usize>,
    /// The texts that candidates end.
    endings: Vec<Ending>,
    /// Why a beam had no candidate, if one had none.
    failure: Option<RowError>,
}
