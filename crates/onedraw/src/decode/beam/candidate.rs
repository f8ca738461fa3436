//! The candidates of a step: the tokens that a beam could go on with, and what became of each.

use std::cmp::Ordering;

use crate::decode::stop::Finish;

/// What a token would do to a text. The driver decides it, because the driver has the bytes of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuation {
    /// The text goes on.
    Goes,
    /// The text has ended.
    Ends(Finish),
    /// The text must not continue with this token: it would complete a banned phrase, or break a constraint
    /// that could not be given as a mask.
    Forbidden,
}

/// One token after one beam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The index of the beam in [`BeamSearch::beams`](super::BeamSearch::beams) before the step.
    pub beam: usize,
    /// The token.
    pub token: u32,
    /// The sum of the logprobs of the text, including this token.
    pub logprob: f64,
    /// What candidates are compared by: the sum of logprobs less the penalties of diversity, or with
    /// stochastic beams the perturbed logprob.
    pub score: f64,
    /// What became of the candidate.
    pub fate: Fate,
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is a beam of the next step.
    Kept,
    /// It ended its text by an EOS id, a stop id or a stop string, and that text is among the ended ones.
    Ended,
    /// It is the last token that `max_tokens` allows. Its text, which could have gone on, is among the ended
    /// ones.
    Cut,
    /// It was not used, because others were better.
    Dropped,
}

impl Fate {
    /// The fate of a candidate that is used. `finish` says why its text ended; `None` if the text goes on.
    pub(super) fn of_used(finish: Option<Finish>) -> Self {
        match finish {
            None => Self::Kept,
            Some(Finish::Length) => Self::Cut,
            Some(Finish::Eos { .. } | Finish::StopToken { .. } | Finish::StopString { .. }) => Self::Ended,
        }
    }
}

/// Where a beam of the next step comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The index of the beam that it continues, among the beams before the step.
    pub beam: usize,
    /// The token that is appended.
    pub token: u32,
}

/// The result of one step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expansion {
    /// Where each beam of the next step comes from, in the order of the beams of the next step.
    pub branches: Vec<Branch>,
    /// The candidates that were compared, group by group, the best first.
    pub candidates: Vec<Candidate>,
}

/// A text that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Hypothesis {
    /// Its tokens after the prompt, with the one that ended it.
    pub tokens: Vec<u32>,
    /// The final score: the sum of logprobs less the penalties of diversity, divided by a power of the
    /// length.
    pub score: f64,
    /// The sum of the logprobs of its tokens.
    pub logprob: f64,
    /// Why the text ended; `None` if the search ended before it did.
    pub finish: Option<Finish>,
}

impl Candidate {
    /// The order of candidates: the higher score first; of equal scores the earlier beam, then the lower id.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let by_score = other.score.total_cmp(&self.score);
        by_score.then(self.beam.cmp(&other.beam)).then(self.token.cmp(&other.token))
    }

    /// The beam of the next step that this candidate becomes.
    pub(super) fn branch(&self) -> Branch {
        Branch { beam: self.beam, token: self.token }
    }
}
