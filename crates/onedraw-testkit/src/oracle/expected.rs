//! What the oracle answers: a distribution and all that may stand in its place, or why there is none.

use onedraw::{RowError, Stage};

/// One distribution: tokens in order (logit descending, id ascending) and their probabilities.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The support, best token first.
    pub tokens: Vec<u32>,
    /// The probability of each, in the same order. A token far below the best may have 0 and is still in the
    /// support.
    pub probabilities: Vec<f64>,
}

/// What the engine should answer for a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The support, best token first.
    pub tokens: Vec<u32>,
    /// The probability of each, in the same order.
    pub probabilities: Vec<f64>,
    /// Whether a decision near a border could change the answer: a mass within 1e-6 of p, a probability
    /// within 1e-6 of a bar relative to it, and so on. Then `alternatives` hold the other answers.
    pub uncertain: bool,
    /// The answers that differ from the one above because a token near a border was decided the other way.
    pub alternatives: Vec<Outcome>,
    /// 0 where `alternatives` are complete. Otherwise so many tokens lay near a border that only the smallest
    /// and the largest support are listed; an answer between them differs in probability by less than this. 1
    /// says that a later stage may turn such a difference into anything.
    pub slack: f64,
    /// How far off a probability may be besides the caller's own tolerance. It is 0 unless the entropy set a
    /// temperature (`dynatemp_range`): its error is then multiplied by the logits.
    pub tolerance: f64,
    /// Whether logits so near to each other that their order is uncertain are in the answer. It happens only
    /// where an edit follows a temperature that the entropy set and rounds what it divided.
    pub order_in_doubt: bool,
}

impl Expected {
    pub(super) fn only(outcome: Outcome, allowance: Allowance) -> Self {
        let Outcome { tokens, probabilities } = outcome;
        let Allowance { slack, tolerance, order_in_doubt } = allowance;
        let uncertain = slack > 0.0;
        Self { tokens, probabilities, uncertain, alternatives: Vec::new(), slack, tolerance, order_in_doubt }
    }
}

/// What an answer may differ by: the fields of the same names in [`Expected`].
#[derive(Clone, Copy, Default)]
pub(super) struct Allowance {
    pub slack: f64,
    pub tolerance: f64,
    pub order_in_doubt: bool,
}

/// Why a row has no distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The logit of this token, the lowest bad one, is NaN.
    Nan(u32),
    /// The logit of this token, the lowest bad one, is +inf.
    Infinite(u32),
    /// The row has no logits.
    Empty,
    /// Every token is masked; the stage masked the last one, or the row came with nothing but −inf.
    NothingLeft(Option<Stage>),
}

impl Failure {
    /// The same failure as the engine reports it; `None` for errors that the oracle does not model.
    pub fn of(error: &RowError) -> Option<Self> {
        match error {
            RowError::NanLogit { token } => Some(Self::Nan(*token)),
            RowError::InfiniteLogit { token } => Some(Self::Infinite(*token)),
            RowError::EmptyRow => Some(Self::Empty),
            RowError::NothingLeft { stage } => Some(Self::NothingLeft(stage.clone())),
            _ => None,
        }
    }
}
