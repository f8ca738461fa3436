//! A text that is written once more, with the claimed tokens: what each of them is compared with, and whether the text
//! goes back and ends where it would.

use std::collections::VecDeque;

use onedraw::{
    Audit, Constraint, ConstraintError, Finish, FinishReason, Rewind, Row, RowError, Sampler, SamplingParams,
    StopConditions, StopMatcher,
};

use crate::audit::error::AuditError;
use crate::model::Vocabulary;
use crate::trace::{Leg, Trace};

/// How many logits a pass gives at most, and how many are held for a diagnosis: 256 MiB.
pub(super) const MOST_LOGITS: usize = 64 << 20;

/// A claimed token beside the one that is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checked {
    /// Its place in the output.
    pub place: usize,
    /// How often text had been taken back before it was drawn.
    pub leg: usize,
    /// The comparison.
    pub audit: Audit,
}

/// A text under audit.
pub(super) struct Replay<'a> {
    sampler: Sampler,
    constraint: Option<Box<dyn Constraint>>,
    /// Tokens that the constraint forces next, as it said before the first of them.
    forced_next: VecDeque<u32>,
    vocabulary: &'a dyn Vocabulary,
    stops: StopMatcher,
    /// How the text ended.
    finish: Option<Finish>,
    /// Where the text goes back to, once it must.
    rewind: Option<Rewind>,
    /// Why the text cannot go on.
    error: Option<AuditError>,
    pub checked: Vec<Checked>,
    /// The first rows that were drawn from, for a diagnosis.
    pub rows: Vec<f32>,
    pub forced: usize,
    pub left_constraint: Option<usize>,
}

impl<'a> Replay<'a> {
    pub fn new(
        params: &SamplingParams,
        sequence: u32,
        constraint: Option<Box<dyn Constraint>>,
        vocabulary: &'a dyn Vocabulary,
    ) -> Result<Self, AuditError> {
        Ok(Self {
            sampler: Sampler::sequence(params.clone(), sequence)?,
            constraint,
            forced_next: VecDeque::new(),
            vocabulary,
            stops: StopMatcher::new(StopConditions::new(params)?),
            finish: None,
            rewind: None,
            error: None,
            checked: Vec::new(),
            rows: Vec::new(),
            forced: 0,
            left_constraint: None,
        })
    }

    /// Compares the token at `place` of a leg, before which the model gave `row`.
    pub fn check(&mut self, row: &[f32], number: usize, leg: &Leg, place: usize) -> Result<(), AuditError> {
        if self.left_constraint.is_some() {
            return Ok(());
        }
        let (token, output) = (leg.tokens[place], leg.start + place);
        if self.finish.is_some() {
            return malformed(format!("output token {output} follows the end of the text"));
        }
        if self.rewind.is_some() {
            return malformed(format!("the text before output token {output} ends with a banned phrase"));
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let failed = |cause: RowError| AuditError::Row { place: output, cause };
        let mut is_allowed = true;
        if leg.is_forced[place] {
            if !self.is_forced(token).map_err(failed)? {
                return malformed(format!(
                    "output token {output} is marked as forced, and the constraint does not force it"
                ));
            }
            self.sampler.accept(token);
            self.forced += 1;
        } else {
            self.forced_next.clear();
            let audit = match &mut self.constraint {
                None => self.sampler.audit(Row::from(row), token),
                Some(constraint) => match constraint.mask() {
                    Ok(mask) => self.sampler.audit_masked(Row::from(row), mask, token),
                    Err(error) => Err(error.of_row()),
                },
            };
            let audit = audit.map_err(failed)?;
            is_allowed = audit.gap.is_finite();
            self.sampler.accept_audited(&audit);
            self.checked.push(Checked { place: output, leg: number, audit });
            if self.rows.len() + row.len() <= MOST_LOGITS {
                self.rows.extend_from_slice(row);
            }
        }
        let progress = self.stops.push(token, self.vocabulary.bytes(token));
        (self.finish, self.rewind) = (progress.finish, progress.rewind);
        // A constraint never sees a token that ends the text or is taken back.
        let goes_on = self.finish.is_none() && self.rewind.is_none();
        if let Some(constraint) = self.constraint.as_mut().filter(|_| goes_on)
            && let Err(error) = constraint.accept(token)
        {
            match is_allowed {
                false => self.left_constraint = Some(output),
                // The constraint gives up after a token that it allows, as it did when the text was written.
                true => self.error = Some(failed(error.of_row())),
            }
        }
        Ok(())
    }

    /// Whether the constraint forces this token next.
    fn is_forced(&mut self, token: u32) -> Result<bool, RowError> {
        if self.forced_next.is_empty() {
            let forced = self.constraint.as_mut().map_or(Ok(Vec::new()), |constraint| constraint.forced());
            self.forced_next = forced.map_err(ConstraintError::of_row)?.into();
        }
        Ok(self.forced_next.pop_front() == Some(token))
    }

    /// Goes back to the first `start` tokens of the output, as the writer did because of a banned phrase.
    pub fn take_back(&mut self, given: usize, start: usize, removed: Vec<u32>) -> Result<(), AuditError> {
        if self.left_constraint.is_some() {
            return Ok(());
        }
        let Some(rewind) = self.rewind.take().filter(|rewind| rewind.length == given + start) else {
            return malformed(format!(
                "text was taken back to output token {start}, and no banned phrase begins there"
            ));
        };
        self.forced_next.clear();
        self.sampler.take_back(&rewind);
        if let Some(constraint) = &mut self.constraint {
            constraint
                .rollback(removed.len() - 1)
                .map_err(|error| AuditError::Row { place: start, cause: error.of_row() })?;
        }
        Ok(())
    }

    /// Checks that the text ends where and as the trace says.
    pub fn check_end(&mut self, trace: &Trace, context: usize) -> Result<(), AuditError> {
        // A text may also have been ended before its first token.
        let is_cancelled = trace.output_token_ids.is_empty() && trace.finish_reason.is_none();
        if self.left_constraint.is_some() || trace.error.is_some() || is_cancelled {
            return Ok(());
        }
        if self.rewind.is_some() {
            return malformed("the text ends with a banned phrase".to_owned());
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let written = trace.params.output_token_ids.len() + trace.output_token_ids.len();
        let is_full = trace.prompt_token_ids.len() + written > context || trace.params.max_tokens == 0;
        let expected = match self.finish {
            Some(finish) => Some(finish.reason()),
            None if is_full => Some(FinishReason::Length),
            // Whoever asked for it may have ended it.
            None => None,
        };
        match trace.finish_reason == expected {
            true => Ok(()),
            false => malformed(format!(
                "`finish_reason` is {}, and the text ends by {}",
                name(trace.finish_reason),
                name(expected)
            )),
        }
    }
}

fn malformed<T>(message: String) -> Result<T, AuditError> {
    Err(AuditError::Malformed(message))
}

/// A reason in words.
fn name(reason: Option<FinishReason>) -> &'static str {
    match reason {
        Some(FinishReason::Eos) => "`eos`",
        Some(FinishReason::Stop) => "`stop`",
        Some(FinishReason::Length) => "`length`",
        None => "nothing",
    }
}
