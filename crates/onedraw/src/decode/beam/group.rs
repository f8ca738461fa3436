//! One group of beams: its ended texts, and whether a running text can still beat them.

use super::candidate::{Candidate, Fate, Hypothesis};
use super::params::{BeamParams, BeamStyle, EarlyStopping};

/// A group of beams. Without diverse beam search there is one group with all the beams.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// The number of beams of this group.
    pub width: usize,
    /// The ended texts, the best first, at most `width` of them.
    pub ended: Vec<Hypothesis>,
    /// Whether a running text can still become one of the best.
    can_improve: bool,
    /// Whether the group takes no further steps.
    pub is_done: bool,
}

/// A text that a candidate would end.
pub(super) struct Ending {
    /// The index of the candidate in the group's list, which is sorted with the best first.
    pub candidate: usize,
    /// The text with the candidate's token.
    pub hypothesis: Hypothesis,
}

impl Group {
    /// A group without ended texts.
    pub(super) fn new(width: usize) -> Self {
        Self { width, ended: Vec::new(), can_improve: true, is_done: false }
    }

    /// Adds the texts that candidates end. In Hugging Face's style only candidates among the `width` best of
    /// the step count, and none once nothing can improve. A candidate whose text is added is marked as ended
    /// or cut.
    pub(super) fn take(&mut self, endings: Vec<Ending>, params: &BeamParams, candidates: &mut [Candidate]) {
        let is_full = self.ended.len() == self.width && params.early_stopping == EarlyStopping::Full;
        if is_full || !self.can_improve {
            return;
        }
        let counts = |place| params.style == BeamStyle::Vllm || place < self.width;
        for Ending { candidate, hypothesis } in endings.into_iter().filter(|ending| counts(ending.candidate))
        {
            let place = self.ended.partition_point(|ended| ended.score >= hypothesis.score);
            if place < self.width {
                candidates[candidate].fate = Fate::of_used(hypothesis.finish);
                self.ended.insert(place, hypothesis);
                self.ended.truncate(self.width);
            }
        }
    }

    /// Decides whether the group is done. The texts have `length` tokens of at most `longest`; `best` is the
    /// sum of the best running text, `None` if no text runs.
    pub(super) fn decide_whether_done(
        &mut self,
        params: &BeamParams,
        best: Option<f64>,
        length: usize,
        longest: usize,
    ) {
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
        self.can_improve &= worst.is_none_or(|worst| params.score(best, reach) > worst);
        self.is_done |= !self.can_improve || (is_full && params.early_stopping == EarlyStopping::Full);
    }
}
