//! One group of beams: the texts that have ended, and whether the others can still be better.

use super::candidate::{Candidate, Fate};
use super::{BeamParams, BeamStyle, EarlyStopping, Hypothesis};

#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Beams of this group.
    pub width: usize,
    /// Ended texts, the best first, at most `width`.
    pub ended: Vec<Hypothesis>,
    /// Whether a running text could still become one of the best.
    can_improve: bool,
    pub is_done: bool,
}

/// A text that a candidate would end.
pub(super) struct Ending {
    /// The candidate's place among the others.
    pub rank: usize,
    pub hypothesis: Hypothesis,
}

impl Group {
    pub(super) fn new(width: usize) -> Self {
        Self { width, ended: Vec::new(), can_improve: true, is_done: false }
    }

    /// Takes the endings among the candidates: in Hugging Face's style only those among the `width` best of
    /// the step, and none once nothing can improve.
    pub(super) fn take(&mut self, endings: Vec<Ending>, params: &BeamParams, candidates: &mut [Candidate]) {
        let is_full = self.ended.len() == self.width && params.early_stopping == EarlyStopping::Full;
        if is_full || !self.can_improve {
            return;
        }
        let counts = |rank| params.style == BeamStyle::Vllm || rank < self.width;
        for Ending { rank, hypothesis } in endings.into_iter().filter(|ending| counts(ending.rank)) {
            let place = self.ended.partition_point(|ended| ended.score >= hypothesis.score);
            if place < self.width {
                self.ended.insert(place, hypothesis);
                self.ended.truncate(self.width);
                candidates[rank].fate = Fate::Ended;
            }
        }
    }

    /// Looks whether to go on, `length` tokens into the texts, of at most `longest`. `best` is the sum of the
    /// best running text.
    pub(super) fn judge(&mut self, params: &BeamParams, best: Option<f64>, length: usize, longest: usize) {
        let Some(best) = best else {
            self.is_done = true;
            return;
        };
        if params.style == BeamStyle::Vllm {
            return;
        }
        let is_full = self.ended.len() == self.width;
        let worst = self.ended.last().filter(|_| is_full).map(|ended| ended.score);
        let reach = match params.early_stopping {
            EarlyStopping::Never if params.length_penalty > 0.0 => longest,
            _ => length,
        };
        self.can_improve &= worst.is_none_or(|worst| params.worth(best, reach) > worst);
        self.is_done |= !self.can_improve || (is_full && params.early_stopping == EarlyStopping::Full);
    }
}
