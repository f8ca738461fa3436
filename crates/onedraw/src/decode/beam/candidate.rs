//! What a beam could go on with, and what becomes of it.

use std::cmp::Ordering;

use crate::decode::stop::Finish;

/// What a token would do to a text, as the driver sees it, which has the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuation {
    /// The text goes on.
    Goes,
    /// The text has ended.
    Ends(Finish),
    /// The text must not go on so: a banned phrase, or a constraint that could not be a mask.
    Forbidden,
}

/// One token after one beam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The beam's place among those of the step.
    pub beam: usize,
    /// The token.
    pub token: u32,
    /// The sum of logprobs with it.
    pub logprob: f64,
    /// What it is compared by: the same, less the penalties of diversity; of stochastic beams the perturbed
    /// logprob.
    pub score: f64,
    /// What became of it.
    pub fate: Fate,
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is a beam of the next step.
    Kept,
    /// It ended the text, and is among the ended ones.
    Ended,
    /// Others were better.
    Dropped,
}

/// Where a beam of the next step comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The beam's place among those of this step.
    pub beam: usize,
    /// The token it goes on with.
    pub token: u32,
}

/// What one step did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expansion {
    /// Where each beam of the next step comes from, in their order.
    pub branches: Vec<Branch>,
    /// The candidates that were looked at, by group, the best first.
    pub candidates: Vec<Candidate>,
}

impl Candidate {
    /// The better first; of equals the earlier beam, then the lower id.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let by_score = other.score.total_cmp(&self.score);
        by_score.then(self.beam.cmp(&other.beam)).then(self.token.cmp(&other.token))
    }

    pub(super) fn branch(&self) -> Branch {
        Branch { beam: self.beam, token: self.token }
    }
}
