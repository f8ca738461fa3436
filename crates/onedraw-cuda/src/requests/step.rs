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
use crate::memory::bytes_of_text;
use crate::record::layout::{RequestArguments, ReviseArguments, Revision, Sequence, Task, TurnRecord};
use crate::stream::Stream;

impl Requests {
    /// Draws for each turn from its rows, as long as its guesses are right, and writes the results where the
    /// engine wants them. Requests move on by their tokens, unless the model has not read enough of their
    /// texts. The host waits for nothing. Memory is allocated only if more is under way than ever before; if there is
    /// none, it is an error, and nothing is drawn.
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
        self.make_room(stream, turns, texts)?;
        self.rows.arrays.zero_repeats(stream)?;
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
            form.add(&member.record, false);
            form.add_guesses(&member.record, turn.rows as usize - 1);
            let first = tasks.len() as u32;
            records.push(TurnRecord {
                text: texts.tokens + 4 * texts.stride * u64::from(turn.slot),
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

    /// Gives texts that the device keeps the room that they need after this step: as much as the engine has for one,
    /// or more if that is not enough.
    #[allow(unsafe_code)]
    fn make_room(
        &mut self,
        stream: Stream<'_>,
        turns: &[RequestTurn],
        texts: &Texts,
    ) -> Result<(), CudaError> {
        let (mut changes, mut old, mut made) = (Vec::new(), Vec::new(), Ok(()));
        for turn in turns {
            let member = self.members.get_mut(turn.slot as usize).and_then(Option::as_mut);
            let Some(member) = member.filter(|member| member.reads_text) else { continue };
            // A new text is no longer than what the model must have read.
            let before = member.most.max(turn.needed as usize).max(member.record.prompt as usize);
            member.most = before + turn.rows as usize;
            if member.most <= member.record.room as usize {
                continue;
            }
            let tokens = member.most.max(usize::try_from(texts.stride).unwrap_or(0));
            let block = match self.pool.take(bytes_of_text(tokens)) {
                Ok(block) => block,
                Err(error) => {
                    // Those before have theirs.
                    made = Err(error);
                    break;
                }
            };
            member.record.history = block.address;
            member.record.room = u32::try_from(block.bytes / size_of::<u32>()).unwrap_or(u32::MAX);
            old.extend(member.text.replace(block));
            let Sequence { history, room, touched, edit_list, seed, .. } = member.record;
            let slot = turn.slot as usize * size_of::<Sequence>();
            let sequence = self.rows.arrays.sequences.address() + slot as u64;
            changes.push(Revision {
                sequence,
                history,
                room,
                touched,
                edit_list,
                seed,
                ..Revision::default()
            });
        }
        if !changes.is_empty() {
            self.changes.post(stream, &changes)?;
            let arguments = ReviseArguments {
                list: self.changes.address(),
                count: changes.len() as u32,
                vocabulary: self.rows.capacity.vocabulary as u32,
            };
            // SAFETY: every change names a slot, each once, and memory as large as it says.
            unsafe { self.rows.device.launch_revise(stream, launch::revise(changes.len()), &arguments)? };
        }
        old.into_iter().for_each(|block| self.pool.give(block));
        made
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
