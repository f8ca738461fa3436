//! Texts without replacement: stochastic beam search (Kool, van Hoof and Welling, 2019).
//!
//! Every text of the model has a logprob phi; phi plus Gumbel noise of its own is its perturbed logprob G,
//! and the k texts with the highest G are k draws without replacement. They are found from the root: G of a
//! node is the highest G of its leaves, so a node's children are given noise whose maximum is made to be the
//! node's own G, and the k best of all children go on.
//!
//! Whatever is dropped has a G too, and the highest of those, kappa, is the (k + 1)-th highest of all leaves.
//! A text is among the k with probability 1 − exp(−exp(phi − kappa)) given kappa, which makes sums over the
//! texts unbiased: weigh f by p / inclusion.

use super::candidate::{Candidate, Continuation, Expansion, Fate};
use crate::batch::{Batch, SequenceId, Step};
use crate::decode::stop::Finish;
use crate::error::{ParamError, RowError};
use crate::kernels::Kernel;
use crate::kernels::row::Row;
use crate::numeric::float_mode::Standard;
use crate::numeric::math::{exp, ln};
use crate::numeric::noise::{Noise, Purpose, exponential};
use crate::params::SamplingParams;

/// A text that was drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// Its tokens after the prompt, with the one that ended it.
    pub tokens: Vec<u32>,
    /// The logarithm of its probability, under temperature and truncations.
    pub logprob: f64,
    /// With its noise: what the draws are ranked by.
    pub perturbed: f64,
    /// The probability that it is among the draws, given the highest of what was not drawn.
    pub inclusion: f64,
    /// Why it ended; `None` if the search ended first.
    pub finish: Option<Finish>,
}

#[derive(Clone, Debug)]
struct Node {
    id: SequenceId,
    logprob: f64,
    perturbed: f64,
}

/// Stochastic beam search, step by step, as [`BeamSearch`](super::BeamSearch).
#[derive(Debug)]
pub struct StochasticBeams {
    width: usize,
    batch: Batch,
    seed: u64,
    live: Vec<Node>,
    ended: Vec<Drawn>,
    /// The highest G of what was dropped.
    kappa: f64,
    length: usize,
    longest: usize,
}

impl StochasticBeams {
    /// `width` texts from the distribution of `params`, its temperature and truncations included. Mirostat,
    /// which learns from each draw, and XTC, which tosses coins, make no one distribution of texts.
    pub fn new(params: SamplingParams, width: usize) -> Result<Self, ParamError> {
        let _mode = Standard::enter();
        super::BeamParams { width, ..super::BeamParams::default() }.validate(&params)?;
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
        let root = Node { id, logprob: 0.0, perturbed: gumbel(seed, begun, 0, ROOT) };
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

    /// Looks at rows with this instruction set, on so many threads (0: all cores). Changes no text.
    pub fn on(mut self, kernel: Kernel, threads: usize) -> Self {
        self.batch = self.batch.kernel(kernel).threads(threads);
        self
    }

    /// The seed: the one given, or the one drawn from the system.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How many texts go on: [`step`](Self::step) wants a row for each.
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether none goes on.
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Whether the search has ended.
    pub fn is_done(&self) -> bool {
        self.live.is_empty() || self.length >= self.longest
    }

    /// The tokens that a running text has written.
    pub fn tokens(&self, beam: usize) -> &[u32] {
        self.live.get(beam).and_then(|node| self.batch.output(node.id)).unwrap_or_default()
    }

    /// The logprob of a running text, and the same with its noise.
    pub fn logprobs(&self, beam: usize) -> Option<(f64, f64)> {
        self.live.get(beam).map(|node| (node.logprob, node.perturbed))
    }

    /// One token more; as [`BeamSearch::step`](super::BeamSearch::step). A beam that is dropped because
    /// nothing is left to it leaves fewer texts than asked for: what would have begun with it does not exist.
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
        let mut trouble = RowError::NothingLeft { stage: None };
        for (beam, distribution) in self.batch.distributions(&steps).into_iter().enumerate() {
            let distribution = match distribution {
                Ok(distribution) => distribution,
                Err(error @ RowError::NothingLeft { .. }) => {
                    trouble = error;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let children = distribution.tokens.into_iter().zip(distribution.logprobs);
            let allowed = children.filter(|(token, _)| continuation(beam, *token) != Continuation::Forbidden);
            candidates.extend(self.perturbed(beam, allowed));
        }
        if candidates.is_empty() && self.ended.is_empty() {
            self.live.clear();
            return Err(trouble);
        }
        candidates.sort_by(Candidate::order);
        // Ended texts hold their places among the best.
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
            match finish {
                Some(finish) => {
                    candidate.fate = Fate::Ended;
                    new.push(self.text(candidate, finish));
                }
                None => {
                    candidate.fate = Fate::Kept;
                    kept.push(*candidate);
                }
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
        // Of the others only the first can matter to whoever looks; a whole vocabulary of them is not handed
        // out.
        let looked_at = candidates.iter().rposition(|candidate| candidate.fate != Fate::Dropped);
        candidates.truncate(looked_at.map_or(0, |last| last + 1) + self.width);
        let branches = kept.iter().map(Candidate::branch).collect();
        self.length += 1;
        self.follow(&kept);
        Ok(Expansion { branches, candidates })
    }

    /// Children with their perturbed logprobs, whose maximum is made to be that of the parent.
    fn perturbed(&self, beam: usize, children: impl Iterator<Item = (u32, f64)>) -> Vec<Candidate> {
        let Node { logprob, perturbed: top, .. } = self.live[beam];
        let noisy = children.map(|(token, child)| {
            let logprob = logprob + child;
            let score = logprob + gumbel(self.seed, self.length, beam, token);
            Candidate { beam, token, logprob, score, fate: Fate::Dropped }
        });
        let mut noisy: Vec<Candidate> = noisy.collect();
        let highest = noisy.iter().map(|child| child.score).fold(f64::NEG_INFINITY, f64::max);
        for child in &mut noisy {
            // The highest goes to `top`; the others fall below it as truncated Gumbels do.
            let below = top - child.score + ln(1.0 - exp(child.score - highest));
            child.score = top - below.max(0.0) - ln(1.0 + exp(-below.abs()));
        }
        noisy
    }

    fn text(&self, candidate: &Candidate, finish: Finish) -> Drawn {
        Drawn {
            tokens: [self.tokens(candidate.beam), &[candidate.token]].concat(),
            logprob: candidate.logprob,
            perturbed: candidate.score,
            inclusion: 1.0,
            finish: Some(finish),
        }
    }

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

    /// The texts, the highest perturbed logprob first: any first few of them are that many draws without
    /// replacement.
    pub fn finish(self) -> Vec<Drawn> {
        let _mode = Standard::enter();
        let running = (0..self.live.len()).map(|beam| Drawn {
            tokens: self.tokens(beam).to_vec(),
            logprob: self.live[beam].logprob,
            perturbed: self.live[beam].perturbed,
            inclusion: 1.0,
            finish: None,
        });
        let mut texts: Vec<Drawn> = self.ended.iter().cloned().chain(running).collect();
        texts.sort_by(|a, b| b.perturbed.total_cmp(&a.perturbed));
        for text in &mut texts {
            text.inclusion = inclusion(text.logprob, self.kappa);
        }
        texts
    }
}

/// 1 − exp(−exp(logprob − kappa)).
fn inclusion(logprob: f64, kappa: f64) -> f64 {
    let rate = exp(logprob - kappa);
    // Where the difference from 1 would cancel, the series does not.
    if rate < 1e-5 { rate - 0.5 * rate * rate } else { 1.0 - exp(-rate) }
}

/// The index of the root's own noise, which no token has.
const ROOT: u32 = u32::MAX;

/// Gumbel noise of a token after a beam.
fn gumbel(seed: u64, position: usize, beam: usize, token: u32) -> f64 {
    let noise = Noise { seed, position: position as u32, sequence: beam as u32, round: 0 };
    -ln(exponential(noise.words(Purpose::Beam, token / 4)[token as usize % 4]))
}
