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
use crate::memory::Array;
use crate::record::layout::{RequestArguments, Task, TurnRecord};
use crate::rows::Arrays;
use crate::stream::Stream;

impl Requests {
    /// Draws for each turn from its rows, as long as its guesses are right, and writes the results where the
    /// engine wants them. Requests move on by their tokens, unless the model has not read enough of their
    /// texts. The host waits for nothing, and no device memory is allocated.
    ///
    /// A turn of an empty slot, a second turn of a slot, and texts that may be longer than this was made for are
    /// errors, and nothing is drawn.
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
        let stream = self.rows.device.admit(stream)?;
        self.check_places(texts, written)?;
        let form = self.arrange(turns, texts, written.width)?;
        self.rows.check_matrix(matrix, form.rows)?;
        if turns.is_empty() {
            return Ok(());
        }
        self.rows.arrays.zero_repeats_and_ids(stream)?;
        self.rows.form = form;
        self.rows.point_repeats(&mut self.next.0);
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
            let text = texts.of(turn.slot).ok_or(CudaError::NotOnDevice { address: texts.tokens })?;
            form.add(&member.record, false);
            form.add_guesses(&member.record, turn.rows as usize - 1);
            let first = tasks.len() as u32;
            records.push(TurnRecord {
                text,
                guesses: turn.guesses,
                slot: turn.slot,
                place: turn.slot,
                first,
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
                first_child: if depth + 1 < turn.rows { first + depth + 1 } else { 0 },
                ..task
            }));
        }
        form.rows = tasks.len();
        Ok(form)
    }

    /// Checks what the engine says of its memory, as far as that can be checked.
    fn check_places(&self, texts: &Texts, written: &Written) -> Result<(), CudaError> {
        let (given, capacity) = (usize::try_from(texts.stride).unwrap_or(usize::MAX), self.longest);
        if given > capacity {
            return Err(CudaError::TooMany { what: "tokens of a text", given, capacity });
        }
        match written.sets {
            Some(sets) if sets.bits % 16 != 0 => Err(CudaError::Misaligned { address: sets.bits, size: 16 }),
            _ => Ok(()),
        }
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
        if let Some(sets) = written.sets {
            arguments.kept_bits = arrays.kept_bits.as_ref().map_or(0, Array::address);
            arguments.kept_pitch = Arrays::words_of_ids(self.rows.capacity.vocabulary) as u32;
            arguments.set_bits = sets.bits;
            arguments.set_ids = sets.ids;
            arguments.set_counts = sets.counts;
            arguments.set_width = sets.most;
        }
        arguments
    }
}
