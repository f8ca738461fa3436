//! A step of requests.

use bytemuck::Zeroable;
use onedraw::RowError;

use super::members::Requests;
use super::places::{RequestTurn, Texts, Written};
use crate::error::CudaError;
use crate::form::Form;
use crate::kernel::RequestKernel;
use crate::launch;
use crate::matrix::Matrix;
use crate::record::layout::{RequestArguments, Task, TurnRecord};
use crate::stream::Stream;

impl Requests {
    /// Draws for each turn from its rows, as long as its guesses are right, and writes the results where the
    /// engine wants them. Requests move on by their tokens, unless the model has not read enough of their
    /// texts. The host waits for nothing. Memory is allocated only if more is under way than ever before.
    ///
    /// A turn of an empty slot, or a second turn of a slot, is an error, and nothing is drawn.
    ///
    /// # Safety
    ///
    /// The rows, texts, guesses and places of results are memory that the device can use, as large as they
    /// say, until the stream has done the step; nobody writes the former or uses the latter meanwhile.
    #[allow(unsafe_code)]
    pub unsafe fn step<'a>(
        &mut self,
        stream: impl Into<Stream<'a>>,
        matrix: &Matrix<'_>,
        turns: &[RequestTurn],
        texts: &Texts,
        written: &Written,
    ) -> Result<(), CudaError> {
        let stream = stream.into();
        let form = self.arrange(turns, texts, written.width)?;
        self.rows.check_matrix(matrix, form.rows)?;
        if turns.is_empty() {
            return Ok(());
        }
        self.rows.form = form;
        let turns_at = self.rows.tasks.post_with(stream, &self.next.0, &self.next.1)?;
        let skyline = launch::skyline(form, matrix.dtype, matrix.vocabulary, matrix.is_aligned());
        let arguments = self.rows.arguments(matrix, &skyline);
        let requests = self.arguments(turns_at, texts, written);
        // SAFETY: tasks and turns name slots of the array and rows of the step; the arrays have room for the
        // rows. The rest is the caller's promise.
        unsafe {
            if self.next.1.iter().any(|turn| turn.is_new != 0) {
                let grid = launch::follow(turns.len());
                self.rows.device.launch_requests(stream, RequestKernel::Follow, grid, &requests)?;
            }
            self.rows.launch(stream, matrix, &skyline, &arguments, form.draw(matrix.dtype))?;
            let grid = launch::settle(turns.len());
            self.rows.device.launch_requests(stream, RequestKernel::Settle, grid, &requests)?;
        }
        for turn in turns {
            if let Some(Some(member)) = self.members.get_mut(turn.slot as usize) {
                member.is_new = false;
            }
        }
        Ok(())
    }

    /// Makes the tasks of all rows and the turns as the device reads them. Returns the form of the step.
    fn arrange(&mut self, turns: &[RequestTurn], texts: &Texts, width: u32) -> Result<Form, CudaError> {
        self.steps += 1;
        let (tasks, records) = &mut self.next;
        tasks.clear();
        records.clear();
        // Nothing is appended by a draw: requests move on once it is known which guesses are right.
        let mut form = Form::default();
        for turn in turns {
            let member = self.members.get_mut(turn.slot as usize).and_then(Option::as_mut);
            let member = member.ok_or(RowError::UnknownSequence)?;
            if std::mem::replace(&mut member.last_step, self.steps) == self.steps {
                return Err(RowError::RepeatedSequence.into());
            }
            let (given, capacity) = (turn.rows as usize, width as usize);
            if given > capacity {
                return Err(CudaError::TooMany { what: "rows of a turn", given, capacity });
            }
            if turn.rows == 0 || (turn.rows > 1 && turn.guesses == 0) {
                return Err(CudaError::NullAddress);
            }
            let (given, capacity) = (tasks.len() + given, self.rows.capacity.rows);
            if given > capacity {
                return Err(CudaError::TooMany { what: "rows", given, capacity });
            }
            form.add(&member.record, false);
            records.push(TurnRecord {
                text: texts.tokens + 4 * texts.stride * u64::from(turn.slot),
                guesses: turn.guesses,
                slot: turn.slot,
                place: turn.slot,
                first: tasks.len() as u32,
                rows: turn.rows,
                needed: turn.needed,
                takes_best: member.takes_best.into(),
                is_new: member.is_new.into(),
                reserved: 0,
            });
            let task = Task::of(turn.slot, &member.record);
            tasks.extend((0..turn.rows).map(|depth| Task {
                depth,
                path: if depth > 0 { turn.guesses } else { 0 },
                ..task
            }));
        }
        form.rows = tasks.len();
        Ok(form)
    }

    fn arguments(&self, turns: u64, texts: &Texts, written: &Written) -> RequestArguments {
        let arrays = &self.rows.arrays;
        let mut arguments = RequestArguments {
            sequences: arrays.sequences.address(),
            turns,
            results: arrays.results.address(),
            reports: arrays.reports.address(),
            entries: arrays.entries.address(),
            text_lengths: texts.lengths,
            read_lengths: written.read_lengths,
            refused: written.refused,
            tokens: written.tokens,
            counts: written.counts,
            rejected: written.rejected,
            failures: written.failures,
            token_width: written.width,
            width: self.rows.capacity.width() as u32,
            vocabulary: self.rows.capacity.vocabulary as u32,
            ..RequestArguments::zeroed()
        };
        if let Some(listed) = written.listed {
            arguments.listed_tokens = listed.tokens;
            arguments.listed_logprobs = listed.logprobs;
            arguments.ranks = listed.ranks;
            arguments.best = listed.best;
        }
        arguments
    }
}
