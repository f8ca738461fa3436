//! Logprobs of prompts.

use bytemuck::Zeroable;
use onedraw::slots::SequenceId;
use onedraw::{LogprobsMode, Report, RowError};

use super::member::Prompt;
use super::sequences::Batch;
use crate::error::CudaError;
use crate::form::Form;
use crate::launch;
use crate::matrix::Matrix;
use crate::record::layout::{Outcome, Sequence, Task, logprobs_mode};
use crate::results::sampled;
use crate::stream::Stream;

impl Batch {
    /// Logprobs of a part of a sequence's prompt, as [`onedraw::Batch::prompt_logprobs`] tells them: row i of the
    /// matrix predicts token `first` + i. All rows are read in one call, twice each; rows after the prompt's end are
    /// not read. It happens on the legacy default stream and waits for the results, and turns that were prepared
    /// before are no longer prepared.
    pub fn prompt_logprobs(
        &mut self,
        id: SequenceId,
        first: usize,
        matrix: &Matrix<'_>,
    ) -> Result<Vec<Result<Report, RowError>>, CudaError> {
        self.rows.check_matrix(matrix, matrix.rows)?;
        let Some(member) = self.members.get(id) else {
            return Ok(vec![Err(RowError::UnknownSequence); matrix.rows]);
        };
        let prompt = member.prompt.clone();
        let tokens = prompt.tokens.get(first..).unwrap_or_default();
        let tokens = &tokens[..tokens.len().min(matrix.rows)];
        self.forget_turns();
        self.last_rows = 0;
        let mut reports = Vec::with_capacity(tokens.len());
        for (i, tokens) in tokens.chunks(self.rows.capacity.rows.max(1)).enumerate() {
            let rows = matrix.some_rows(i * self.rows.capacity.rows, tokens.len());
            let told = self.tell(&prompt, tokens, &rows);
            self.rows.form = Form::default();
            reports.extend(told?);
        }
        Ok(reports)
    }

    /// The reports of as many rows as there is room for.
    fn tell(
        &mut self,
        prompt: &Prompt,
        tokens: &[u32],
        matrix: &Matrix<'_>,
    ) -> Result<Vec<Result<Report, RowError>>, CudaError> {
        let stream = Stream::default();
        let slot = self.rows.reader();
        let mode = if prompt.is_logits { LogprobsMode::RawLogits } else { LogprobsMode::RawLogprobs };
        // Nothing is drawn, and a greedy row needs no noise.
        let record = Sequence {
            is_greedy: 1,
            is_plain: 1,
            logprobs: prompt.entries,
            logprobs_mode: logprobs_mode(mode),
            tells_probability: 1,
            ..Sequence::zeroed()
        };
        let outcomes: Vec<_> =
            tokens.iter().map(|&token| Outcome { token, status: Outcome::DRAWN }).collect();
        self.rows.arrays.make_room(&self.rows.device, &self.rows.capacity, &record)?;
        self.rows.arrays.sequences.write(stream, slot, &[record])?;
        self.rows.arrays.results.write(stream, 0, &outcomes)?;
        self.rows.tasks.post(stream, &vec![Task::of(slot as u32, &record); tokens.len()])?;
        let mut form = Form { rows: tokens.len(), ..Form::default() };
        form.add(&record, false);
        self.rows.form = form;
        let skyline = launch::skyline(form, matrix.dtype, matrix.vocabulary, matrix.is_aligned());
        let arguments = self.rows.arguments(matrix, &skyline);
        // SAFETY: the arrays have room for the rows, which are borrowed until the answers are read.
        #[allow(unsafe_code)]
        unsafe {
            self.rows.launch_prompt(stream, matrix, &skyline, &arguments)?;
        }
        self.read_answers(stream, tokens.len())?;
        (0..tokens.len())
            .map(|i| {
                Ok(sampled(&record, 0, self.outcomes[i], self.answer_of(i))?.map(|told| Report {
                    token: told.token,
                    logprob: told.logprob.unwrap_or_default(),
                    probability: told.probability.unwrap_or_default(),
                    rank: told.rank.unwrap_or_default(),
                    logprobs: told.logprobs,
                }))
            })
            .collect()
    }
}
