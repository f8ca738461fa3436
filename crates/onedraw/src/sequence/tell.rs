//! What a sequence can tell of its next row beside a token.

use super::Sequence;
use crate::audit::distance::{self, Seen};
use crate::audit::{self, Audit};
use crate::engine::draw::Draw;
use crate::engine::report;
use crate::engine::workspace::Workspace;
use crate::error::RowError;
use crate::explain::{Explainer, Explanation};
use crate::kept::EditedRow;
use crate::kernels::row::Row;
use crate::logits::access::answered;
use crate::logits::query::Place;
use crate::logprobs::{self, Distribution, Report, TokenLogprob};
use crate::numeric::key::Key;
use crate::params::LogprobsMode;
use crate::plan::{Operation, Plan, Segment, keep_a_prefix};
use crate::sampled::Runner;

impl Sequence {
    /// The tokens that finish first in the race of the next draw.
    pub(crate) fn runners(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        count: usize,
        workspace: &mut Workspace,
    ) -> Result<Vec<Runner>, RowError> {
        let position = self.position();
        let segments = self.chain(row.len(), mask)?;
        let moment = self.moment(row.len(), position);
        self.with_row(row, mask, position, segments, workspace, |row, memory| {
            let runners = answered(async {
                let mut draw = Draw::through(row, segments, self.plan.is_greedy(), &moment, memory).await?;
                report::runners(&mut draw, count, &moment.noise).await
            })?;
            let best = runners.first().map_or(0.0, |first| first.score);
            Ok(runners
                .into_iter()
                .map(|runner| Runner { token: runner.key.token(), behind: best - runner.score })
                .collect())
        })
    }

    pub(crate) fn distribution(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        workspace: &mut Workspace,
    ) -> Result<Distribution, RowError> {
        let position = self.position();
        let segments = self.chain(row.len(), mask)?;
        let moment = self.moment(row.len(), position);
        self.with_row(row, mask, position, segments, workspace, |row, memory| {
            answered(async {
                let mut draw = Draw::through(row, segments, self.plan.is_greedy(), &moment, memory).await?;
                logprobs::distribution(&mut draw).await
            })
        })
    }

    /// Compares a claimed token with the one that is drawn.
    pub(crate) fn audit(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        token: u32,
        workspace: &mut Workspace,
    ) -> Result<Audit, RowError> {
        let (position, vocabulary) = (self.position(), row.len());
        if token as usize >= vocabulary {
            return Err(RowError::OutsideVocabulary { field: "token", token, vocabulary });
        }
        let segments = self.chain(vocabulary, mask)?;
        let moment = self.moment(vocabulary, position);
        let is_prefix = keep_a_prefix(segments);
        let before = match is_prefix {
            true => None,
            false => Some(self.before_operations(row, mask, token, segments, workspace)?),
        };
        let mut audit = self.with_row(row, mask, position, segments, workspace, |row, memory| {
            answered(async {
                let mut draw = Draw::through(row, segments, self.plan.is_greedy(), &moment, memory).await?;
                audit::audit(&mut draw, token, before, &moment, self.mirostat).await
            })
        })?;
        if !audit.is_drawn() && audit.gap.is_finite() {
            // Of the number of tokens that mirostat's first version keeps, the same is true as of a set that is no prefix.
            let has_distance = is_prefix && self.params.mirostat != 1;
            audit.distance = match has_distance {
                false => 0.0,
                true if self.plan.is_greedy() => audit.distance,
                true => self.distance(row, mask, token, segments, workspace)?,
            };
        }
        Ok(audit)
    }

    /// The place of a token in the order before any operation on the row.
    fn before_operations(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        token: u32,
        segments: &[Segment],
        workspace: &mut Workspace,
    ) -> Result<Key, RowError> {
        let edits = segments.first().map(|segment| segment.edits.clone()).unwrap_or_default();
        let bare = [Segment { edits, operations: Vec::new() }];
        let moment = self.moment(row.len(), self.position());
        self.with_row(row, mask, self.position(), &bare, workspace, |row, memory| {
            answered(async {
                let mut draw = Draw::through(row, &bare, false, &moment, memory).await?;
                report::key_of(&mut draw, token).await
            })
        })
    }

    /// About how much the logits must change to make a token the drawn one that is not.
    fn distance(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        token: u32,
        segments: &[Segment],
        workspace: &mut Workspace,
    ) -> Result<f64, RowError> {
        let position = self.position();
        let moment = self.moment(row.len(), position);
        let seen = match distance::before_top_p(segments) {
            None => None,
            Some((share, earlier)) => {
                Some(self.with_row(row, mask, position, &earlier, workspace, |row, memory| {
                    answered(async {
                        let mut draw = Draw::through(row, &earlier, false, &moment, memory).await?;
                        Seen::of(&mut draw, share).await
                    })
                })?)
            }
        };
        self.with_row(row, mask, position, segments, workspace, |row, memory| {
            answered(async {
                let mut draw = Draw::through(row, segments, false, &moment, memory).await?;
                distance::distance(&mut draw, token, &moment.noise, seen).await
            })
        })
    }

    /// The row after the edits with which the chain begins.
    pub(crate) fn edited(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        workspace: &mut Workspace,
    ) -> Result<EditedRow, RowError> {
        let (position, vocabulary) = (self.position(), row.len());
        let segments = self.chain(vocabulary, mask)?;
        let moment = self.moment(vocabulary, position);
        let mut logits = vec![f32::NEG_INFINITY; vocabulary];
        self.with_row(row, mask, position, segments, workspace, |row, memory| {
            answered(async {
                let mut draw = Draw::begin(row, segments.first(), true, memory).await?;
                let edits = segments.iter().flat_map(|segment| &segment.operations).zip(0..);
                for (operation, number) in edits.take_while(|(each, _)| matches!(each, Operation::Smooth(_)))
                {
                    draw.take(operation, Place { segment: 0, operation: number }, &moment).await?;
                }
                for key in report::best(&mut draw, None).await? {
                    logits[key.token() as usize] = key.logit();
                }
                Ok(())
            })
        })?;
        Ok(EditedRow(logits))
    }

    /// Every token that the chain keeps with its logprob, in no particular order.
    pub(crate) fn support(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        workspace: &mut Workspace,
    ) -> Result<Vec<(u32, f64)>, RowError> {
        let position = self.position();
        let segments = self.chain(row.len(), mask)?;
        let moment = self.moment(row.len(), position);
        self.with_row(row, mask, position, segments, workspace, |row, memory| {
            answered(async {
                let mut draw = Draw::through(row, segments, self.plan.is_greedy(), &moment, memory).await?;
                let kept = report::support(&mut draw).await?;
                Ok(kept.into_iter().map(|(key, logprob)| (key.token(), logprob)).collect())
            })
        })
    }

    /// The `count` most likely tokens that the chain keeps.
    pub(crate) fn best(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        count: usize,
        workspace: &mut Workspace,
    ) -> Result<Vec<TokenLogprob>, RowError> {
        let position = self.position();
        let segments = self.chain(row.len(), mask)?;
        let moment = self.moment(row.len(), position);
        self.with_row(row, mask, position, segments, workspace, |row, memory| {
            answered(async {
                let mut draw = Draw::through(row, segments, self.plan.is_greedy(), &moment, memory).await?;
                logprobs::best(&mut draw, u32::try_from(count).unwrap_or(u32::MAX)).await
            })
        })
    }

    /// The first `count` tokens of the order, where the draw is the very first.
    pub(crate) fn leaders(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        count: usize,
        workspace: &mut Workspace,
    ) -> Result<Option<Vec<u32>>, RowError> {
        if !self.plan.is_greedy() {
            return Ok(None);
        }
        let position = self.position();
        let segments = self.chain(row.len(), mask)?;
        let moment = self.moment(row.len(), position);
        self.with_row(row, mask, position, segments, workspace, |row, memory| {
            answered(async {
                let mut draw = Draw::through(row, segments, true, &moment, memory).await?;
                let count = u32::try_from(count).unwrap_or(u32::MAX);
                let keys = report::best(&mut draw, Some(count)).await?.iter();
                Ok(Some(keys.filter(|&&key| key <= Key::END).map(|key| key.token()).collect()))
            })
        })
    }

    pub(crate) fn explain(
        &self,
        row: Row<'_>,
        mask: Option<&[u32]>,
        listed: usize,
        workspace: &mut Workspace,
    ) -> Result<Explanation, RowError> {
        let position = self.position();
        self.chain(row.len(), mask)?;
        // The same chain, divided more finely to look between its stages.
        let segments = Plan::finely(&self.params, mask.is_some(), self.path.has_bans_at(position));
        let moment = self.moment(row.len(), position);
        let mut explainer = Explainer::new(listed);
        self.with_row(row, mask, position, &segments, workspace, |row, memory| {
            answered(explainer.explain(row, &segments, self.plan.is_greedy(), &moment, memory))
        })
    }

    /// The report of a prompt token that `row` predicts.
    pub(crate) fn prompt_report(
        &self,
        row: Row<'_>,
        token: u32,
        workspace: &mut Workspace,
    ) -> Result<Report, RowError> {
        let is_logits = self.params.logprobs_mode.is_logits();
        let mode = if is_logits { LogprobsMode::RawLogits } else { LogprobsMode::RawLogprobs };
        let count = self.params.prompt_logprobs.unwrap_or(0);
        self.check_vocabulary(row.len())?;
        // The questions are about the unmodified row, so no edit is made.
        self.with_row(row, None, 0, &[Segment::default()], workspace, |row, memory| {
            answered(async {
                let mut raw = Draw::raw(row, memory).await?;
                logprobs::report(&mut raw, token, count, mode).await
            })
        })
    }
}
