//! Texts drawn without replacement: stochastic beam search (Kool, van Hoof and Welling, 2019).
//!
//! Every text of the model has a logprob φ. φ plus Gumbel noise of its own is the perturbed logprob G of the
//! text, and the k texts with the highest G are k draws without replacement. The search finds them from the
//! root: G of a node is the highest G of its leaves. So the children of a node get noise whose maximum is
//! made to be the node's own G, and the k best of all children go on.
//!
//! What is dropped has a G too. The highest of those, κ, is the (k + 1)-th highest G of all leaves. Given κ,
//! a text is among the k with probability 1 − exp(−exp(φ − κ)). That makes sums over the texts unbiased:
//! weigh f by p / inclusion.
//!
//! `children` finds the children of a node that can be among the k best; the rest is here.

use super::candidate::{Candidate, Continuation, Expansion, Fate};
use super::children::{Parent, gumbel};
use super::params::BeamParams;
use crate::batch::{Batch, SequenceId, Step};
use crate::decode::stop::Finish;
use crate::error::{ParamError, RowError};
use crate::kernels::Kernel;
use crate::kernels::row::Row;
use crate::numeric::float_mode::Standard;
use crate::numeric::math::exp;
use crate::numeric::noise::{Noise, Purpose};
use crate::params::SamplingParams;

/// A text that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// Its tokens after the prompt, with the one that ended it.
    pub tokens: Vec<u32>,
    /// The logarithm of its probability, under temperature and truncations.
    pub logprob: f64,
    /// The logprob with its noise. The draws are sorted by it.
    pub perturbed: f64,
    /// The probability that the text is among the draws, given the highest perturbed logprob that was not
    /// drawn.
    pub inclusion: f64,
    /// Why the text ended; `None` if the search ended before it did.
    pub finish: Option<Finish>,
}

/// A running text.
#[derive(Clone, Debug)]
struct Node {
    id: SequenceId,
    logprob: f64,
    perturbed: f64,
}

/// Stochastic beam search, driven step by step like [`BeamSearch`](super::BeamSearch).
#[derive(Debug)]
pub struct StochasticBeams {
    width: usize,
    batch: Batch,
    seed: u64,
    live: Vec<Node>,
    ended: Vec<Drawn>,
    /// The highest perturbed logprob of what was dropped.
    kappa: f64,
    length: usize,
    longest: usize,
}

impl StochasticBeams {
    /// Starts `width` draws from the distribution of `params`, with its temperature and truncations.
    ///
    /// Mirostat and XTC are errors: Mirostat learns from each draw and XTC tosses coins, so neither gives one
    /// fixed distribution of texts. Other errors name the field and the allowed range.
    pub fn new(params: SamplingParams, width: usize) -> Result<Self, ParamError> {
        let _mode = Standard::enter();
        BeamParams { width, ..BeamParams::default() }.validate(&params)?;
        if params.mirostat != 0 {
            return Err(ParamError::new(
                "mirostat",
                "learns from single draws; stochastic beams cannot use it",
            ));
        }
        if params.xtc_probability > 0.0 {
            return Err(ParamError::new("xtc_probability", "tosses coins; stochastic beams cannot use it"));
        }
        let (begun, longest) = (params.output_token_ids.len(), params.max_tokens as usize);
        let mut batch = Batch::new();
        let id = batch.add(SamplingParams { n: 1, ..params })?;
        let seed = batch.seed(id).unwrap_or(0);
        let words = noise(seed, begun, 0).words(Purpose::Beam, ROOT / 4);
        let root = Node { id, logprob: 0.0, perturbed: gumbel(words[ROOT as usize % 4]) };
        Ok(Self {
            width,
            batch,
            seed,
            live: vec![root],
            ended: Vec::new(),
            kappa: f64::NEG_INFINITY,
            length: begun,
            longest: longest.max(begun),
        })
    }

    /// Sets the instruction set and the number of threads (0 for all cores) that look at rows. Neither
    /// changes a text.
    pub fn on(mut self, kernel: Kernel, threads: usize) -> Self {
        self.batch = self.batch.kernel(kernel).threads(threads);
        self
    }

    /// The seed that was given, or the one drawn from the system.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How many texts are running; [`step`](Self::step) expects one row for each.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether no text is running.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Whether the search has ended.
    pub fn is_done(&self) -> bool {
        self.live.is_empty() || self.length >= self.longest
    }

    /// The tokens that running text number `beam` has written; empty if there is no such text.
    pub fn tokens(&self, beam: usize) -> &[u32] {
        self.live.get(beam).and_then(|node| self.batch.output(node.id)).unwrap_or_default()
    }

    /// The logprob of running text number `beam` and its perturbed logprob; `None` if there is no such text.
    pub fn logprobs(&self, beam: usize) -> Option<(f64, f64)> {
        self.live.get(beam).map(|node| (node.logprob, node.perturbed))
    }

    /// Appends one token to every running text; see [`BeamSearch::step`](super::BeamSearch::step). If a beam
    /// is dropped because its mask or edits leave nothing, there will be fewer texts than asked for: texts
    /// that begin like it do not exist. `continuation` is called for few of the tokens: those that may be
    /// among the best.
    pub fn step(
        &mut self,
        rows: &[Row<'_>],
        masks: &[Option<&[u32]>],
        mut continuation: impl FnMut(usize, u32) -> Continuation,
    ) -> Result<Expansion, RowError> {
        let _mode = Standard::enter();
        if rows.len() != self.live.len() {
            return Err(RowError::UnknownSequence);
        }
        let steps = self.live.iter().zip(rows).enumerate().map(|(beam, (node, &row))| Step {
            sequence: node.id,
            row,
            mask: masks.get(beam).copied().flatten(),
        });
        let steps: Vec<Step<'_>> = steps.collect();
        let mut candidates = Vec::new();
        let mut failure = RowError::NothingLeft { stage: None };
        for (beam, tokens) in self.batch.supports(&steps).into_iter().enumerate() {
            let tokens = match tokens {
                Ok(tokens) => tokens,
                Err(error @ RowError::NothingLeft { .. }) => {
                    failure = error;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Node { logprob, perturbed, .. } = self.live[beam];
            let parent = Parent { beam, logprob, perturbed, noise: noise(self.seed, self.length, beam) };
            // At most `width` candidates get a place, and the next `width` are returned with them.
            let count = 2 * self.width;
            let is_allowed = |token| continuation(beam, token) != Continuation::Forbidden;
            candidates.extend(parent.leading(&tokens, count, is_allowed));
        }
        if candidates.is_empty() && self.ended.is_empty() {
            self.live.clear();
            return Err(failure);
        }
        candidates.sort_by(Candidate::order);
        // Ended texts and new candidates compete for the `width` places, by perturbed logprob.
        let mut room = self.width;
        let mut still = Vec::new();
        let mut kept = Vec::new();
        let mut ended = std::mem::take(&mut self.ended).into_iter().peekable();
        let mut new = Vec::new();
        for candidate in &mut candidates {
            while room > 0
                && let Some(text) = ended.next_if(|text| text.perturbed >= candidate.score)
            {
                still.push(text);
                room -= 1;
            }
            if room == 0 {
                self.kappa = self.kappa.max(candidate.score);
                break;
            }
            room -= 1;
            let finish = match continuation(candidate.beam, candidate.token) {
                Continuation::Ends(finish) => Some(finish),
                _ if self.length + 1 >= self.longest => Some(Finish::Length),
                _ => None,
            };
            candidate.fate = Fate::of_used(finish);
            match finish {
                Some(finish) => new.push(self.ended_text(candidate, finish)),
                None => kept.push(*candidate),
            }
        }
        for text in ended {
            if room > 0 {
                still.push(text);
                room -= 1;
            } else {
                self.kappa = self.kappa.max(text.perturbed);
            }
        }
        self.ended = still;
        self.ended.append(&mut new);
        self.ended.sort_by(|a, b| b.perturbed.total_cmp(&a.perturbed));
        // Only `width` of the dropped candidates are returned: they are all that `leading` is exact for.
        let looked_at = candidates.iter().rposition(|candidate| candidate.fate != Fate::Dropped);
        candidates.truncate(looked_at.map_or(0, |last| last + 1) + self.width);
        let branches = kept.iter().map(Candidate::branch).collect();
        self.length += 1;
        self.follow(&kept);
        Ok(Expansion { branches, candidates })
    }

    /// The ended text of a candidate.
    fn ended_text(&self, candidate: &Candidate, finish: Finish) -> Drawn {
        Drawn {
            tokens: [self.tokens(candidate.beam), &[candidate.token]].concat(),
            logprob: candidate.logprob,
            perturbed: candidate.score,
            inclusion: 1.0,
            finish: Some(finish),
        }
    }

    /// Replaces the running texts by the kept candidates.
    fn follow(&mut self, kept: &[Candidate]) {
        let grown = kept.iter().filter_map(|&Candidate { beam, token, logprob, score, .. }| {
            let id = self.batch.fork(self.live[beam].id)?;
            self.batch.accept(id, token);
            Some(Node { id, logprob, perturbed: score })
        });
        let grown: Vec<Node> = grown.collect();
        for node in std::mem::replace(&mut self.live, grown) {
            self.batch.remove(node.id);
        }
    }

    /// Returns the texts, the highest perturbed logprob first. Any first few of them are that many draws
    /// without replacement.
    pub fn finish(self) -> Vec<Drawn> {
        let _mode = Standard::enter();
        let running = (0..self.live.len()).map(|beam| Drawn {
            tokens: self.tokens(beam).to_vec(),
            logprob: self.live[beam].logprob,
            perturbed: self.live[beam].perturbed,
            inclusion: 1.0,
            finish: (self.length >= self.longest).then_some(Finish::Length),
        });
        let mut texts: Vec<Drawn> = self.ended.iter().cloned().chain(running).collect();
        texts.sort_by(|a, b| b.perturbed.total_cmp(&a.perturbed));
        for text in &mut texts {
            text.inclusion = inclusion(text.logprob, self.kappa);
        }
        texts
    }
}

/// The probability of inclusion, 1 − exp(−exp(logprob − kappa)).
fn inclusion(logprob: f64, kappa: f64) -> f64 {
    let rate = exp(logprob - kappa);
    // For a small rate the difference from 1 would lose precision, so the first two terms of the series are
    // used.
    if rate < 1e-5 { rate - 0.5 * rate * rate } else { 1.0 - exp(-rate) }
}

/// The index of the noise of the root. No token has this id.
const ROOT: u32 = u32::MAX;

/// The noise of the tokens after a beam.
fn noise(seed: u64, position: usize, beam: usize) -> Noise {
    Noise { seed, position: position as u32, sequence: beam as u32, round: 0 }
}
