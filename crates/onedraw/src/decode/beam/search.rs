//! The search for the best texts.

use std::collections::BTreeMap;

use super::candidate::{Candidate, Continuation, Expansion, Fate};
use super::group::{Ending, Group};
use super::{BeamParams, BeamStyle, Hypothesis};
use crate::batch::{Batch, SequenceId, Step};
use crate::decode::stop::Finish;
use crate::error::{ParamError, RowError};
use crate::kernels::Kernel;
use crate::kernels::row::Row;
use crate::logprobs::TokenLogprob;
use crate::numeric::float_mode::Standard;
use crate::params::SamplingParams;

/// A text that goes on.
#[derive(Clone, Debug)]
pub struct Beam {
    id: SequenceId,
    /// The sum of the logprobs of its tokens.
    pub logprob: f64,
    /// The same, less the penalties of diversity.
    pub score: f64,
    /// Its group.
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
    /// Texts to return.
    n: usize,
    /// Tokens of the prompt.
    prompt: usize,
    /// Tokens that each beam has written.
    length: usize,
    /// The most they may write.
    longest: usize,
    /// Ids that end a text.
    ends: usize,
}

impl BeamSearch {
    /// Checks the parameters. Of `params` the edits act, with `max_tokens`, `n` (how many texts to return)
    /// and the histories; the draw's own settings do not.
    pub fn new(params: SamplingParams, beams: BeamParams) -> Result<Self, ParamError> {
        beams.validate(&params)?;
        let SamplingParams { n, max_tokens, .. } = params;
        let ends = params.eos_token_id.len();
        let (prompt, begun) = (params.prompt_token_ids.len(), params.output_token_ids.len());
        let mut batch = Batch::new().threads(1);
        // A seed is never used, but one that must be asked of the system could fail.
        let first = batch.add(SamplingParams { seed: Some(0), n: 1, ..params.without_draw() })?;
        // One beam of each group begins.
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

    /// Looks at rows with this instruction set, on so many threads (0: all cores). Changes no text.
    pub fn on(mut self, kernel: Kernel, threads: usize) -> Self {
        self.batch = self.batch.kernel(kernel).threads(threads);
        self
    }

    /// The texts that go on, in the order in which [`step`](Self::step) wants their rows: by group, the best
    /// first.
    pub fn beams(&self) -> &[Beam] {
        &self.beams
    }

    /// The tokens that a beam has written.
    pub fn tokens(&self, beam: usize) -> &[u32] {
        self.beams.get(beam).and_then(|beam| self.batch.output(beam.id)).unwrap_or_default()
    }

    /// Whether the search has ended.
    pub fn is_done(&self) -> bool {
        self.beams.is_empty() || self.length >= self.longest
    }

    /// One token more for every beam. `rows[i]` are the logits after beam i, `masks[i]` what a grammar allows
    /// there (`masks` may be empty); `continuation` says what a token does to a beam's text.
    ///
    /// A beam whose mask or edits leave nothing is dropped. If nothing else is left it is an error, and so is
    /// a bad row; the search is then over.
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
        let mut trouble = None;
        // How often earlier groups have chosen a token at this step.
        let mut chosen: BTreeMap<u32, u32> = BTreeMap::new();
        for number in 0..self.groups.len() {
            if self.groups[number].is_done {
                continue;
            }
            let looked = self.look(number, rows, masks, &chosen, &mut continuation)?;
            trouble = trouble.or(looked.trouble);
            let mut candidates = looked.candidates;
            let group = &mut self.groups[number];
            group.take(looked.endings, &self.params, &mut candidates);
            let best = looked.kept.first().map(|&rank| candidates[rank].score);
            group.judge(&self.params, best, self.length + 1, self.longest);
            for rank in looked.kept.into_iter().filter(|_| !group.is_done) {
                candidates[rank].fate = Fate::Kept;
                *chosen.entry(candidates[rank].token).or_default() += 1;
                kept.push((candidates[rank], number));
            }
            expansion.candidates.append(&mut candidates);
        }
        if kept.is_empty() && self.groups.iter().all(|group| group.ended.is_empty()) {
            self.beams.clear();
            return Err(trouble.unwrap_or(RowError::NothingLeft { stage: None }));
        }
        expansion.branches = kept.iter().map(|(candidate, _)| candidate.branch()).collect();
        self.length += 1;
        self.follow(&kept);
        Ok(expansion)
    }

    /// The candidates of a group, and what the best of them do.
    fn look(
        &mut self,
        number: usize,
        rows: &[Row<'_>],
        masks: &[Option<&[u32]>],
        chosen: &BTreeMap<u32, u32>,
        continuation: &mut impl FnMut(usize, u32) -> Continuation,
    ) -> Result<Looked, RowError> {
        let members: Vec<usize> = (0..rows.len()).filter(|&beam| self.beams[beam].group == number).collect();
        let steps = members.iter().map(|&beam| Step {
            sequence: self.beams[beam].id,
            row: rows[beam],
            mask: masks.get(beam).copied().flatten(),
        });
        let steps: Vec<Step<'_>> = steps.collect();
        let width = self.groups[number].width;
        // Enough for `width` to go on though every beam ends with every id that ends a text.
        let mut keep = match self.params.style {
            BeamStyle::Vllm => 2 * width,
            BeamStyle::Hf | BeamStyle::Gnmt => width * (1 + self.ends).max(2),
        };
        loop {
            // Tokens that lose by the diversity penalty may fall behind as many others.
            let count = keep + chosen.len();
            let mut looked = Looked::default();
            let mut is_all = true;
            for (&beam, best) in members.iter().zip(self.batch.best(&steps, count)) {
                let best = match best {
                    Ok(best) => best,
                    Err(error @ RowError::NothingLeft { .. }) => {
                        looked.trouble.get_or_insert(error);
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                is_all &= best.len() < count;
                looked.candidates.extend(best.iter().map(|token| self.candidate(beam, token, chosen)));
            }
            looked.candidates.sort_by(Candidate::order);
            looked
                .candidates
                .retain(|candidate| continuation(candidate.beam, candidate.token) != Continuation::Forbidden);
            if self.params.style != BeamStyle::Vllm {
                is_all &= looked.candidates.len() <= keep;
                looked.candidates.truncate(keep);
            }
            self.divide(&mut looked, width, continuation);
            let found = if self.is_last() { looked.endings.len() } else { looked.kept.len() };
            if found >= width || is_all {
                return Ok(looked);
            }
            keep = keep.saturating_mul(2);
        }
    }

    /// Whether the next token is the last there is room for.
    fn is_last(&self) -> bool {
        self.length + 1 >= self.longest
    }

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

    /// Which candidates go on, and which end their text.
    fn divide(
        &self,
        looked: &mut Looked,
        width: usize,
        continuation: &mut impl FnMut(usize, u32) -> Continuation,
    ) {
        let is_last = self.is_last();
        for (rank, candidate) in looked.candidates.iter().enumerate() {
            let finish = match continuation(candidate.beam, candidate.token) {
                Continuation::Ends(finish) => Some(finish),
                Continuation::Goes if looked.kept.len() < width && is_last => Some(Finish::Length),
                _ => None,
            };
            match finish {
                Some(finish) => {
                    let hypothesis = self.ended(candidate, finish);
                    looked.endings.push(Ending { rank, hypothesis });
                }
                None if looked.kept.len() < width && !is_last => looked.kept.push(rank),
                None => {}
            }
        }
    }

    /// The text that a candidate ends.
    fn ended(&self, candidate: &Candidate, finish: Finish) -> Hypothesis {
        let tokens = [self.tokens(candidate.beam), &[candidate.token]].concat();
        let length = match (self.params.style, finish) {
            (BeamStyle::Vllm, Finish::Eos { .. }) => self.prompt + tokens.len() - 1,
            (BeamStyle::Vllm, _) => self.prompt + tokens.len(),
            _ => tokens.len(),
        };
        let score = self.params.worth(candidate.score, length);
        Hypothesis { tokens, score, logprob: candidate.logprob, finish: Some(finish) }
    }

    /// The candidates become the beams.
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

    /// The `n` best texts, the best first. Of a search that was left before its end, running texts are among
    /// them where too few have ended.
    pub fn finish(self) -> Vec<Hypothesis> {
        let _mode = Standard::enter();
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
                let score = self.params.worth(beam.score, length);
                Hypothesis { tokens, score, logprob: beam.logprob, finish: None }
            }));
        }
        // Stable: of equals the earlier group's.
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(self.n);
        found
    }
}

/// What a group finds at a step.
#[derive(Default)]
struct Looked {
    /// The best first.
    candidates: Vec<Candidate>,
    /// The places of those that go on.
    kept: Vec<usize>,
    endings: Vec<Ending>,
    /// Why a beam had no candidate.
    trouble: Option<RowError>,
}
