//! A step in its three parts: whose rows come, the launch, the results.

use onedraw::slots::SequenceId;
use onedraw::{RowError, Sampled};

use super::member::Member;
use super::sequences::Batch;
use crate::error::CudaError;
use crate::form::Form;
use crate::launch;
use crate::matrix::{Mask, Matrix};
use crate::record::chain::Masks;
use crate::record::layout::{Outcome, Task};
use crate::results::{Answer, sampled};
use crate::rows::Arrays;
use crate::stream::Stream;

/// A sequence's turn: row i of the matrix belongs to turn i.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Whose turn it is.
    pub sequence: SequenceId,
    /// The tokens that a grammar allows.
    pub mask: Option<Mask>,
}

impl Turn {
    /// A turn without a mask.
    pub fn new(sequence: SequenceId) -> Self {
        Self { sequence, mask: None }
    }
}

impl Batch {
    /// Draws a token for each turn from its row, appends it to that sequence, and waits for the results. It
    /// happens on the legacy default stream. A bad row is an error of its own and spoils no other. If the
    /// whole step fails, tokens may have been appended all the same; the next step goes on from there.
    pub fn sample(
        &mut self,
        turns: &[Turn],
        matrix: &Matrix<'_>,
    ) -> Result<Vec<Result<Sampled, RowError>>, CudaError> {
        self.sample_on(Stream::default(), turns, matrix)
    }

    /// As [`Batch::sample`], on a stream. Whatever writes the rows must come before it in the stream's order.
    pub fn sample_on<'a>(
        &mut self,
        stream: impl Into<Stream<'a>>,
        turns: &[Turn],
        matrix: &Matrix<'_>,
    ) -> Result<Vec<Result<Sampled, RowError>>, CudaError> {
        self.draw_on(self.rows.device.admit(stream)?, turns, matrix, true)
    }

    /// As [`Batch::sample_on`], but nothing is appended: the sequences stay as they were.
    pub fn peek_on<'a>(
        &mut self,
        stream: impl Into<Stream<'a>>,
        turns: &[Turn],
        matrix: &Matrix<'_>,
    ) -> Result<Vec<Result<Sampled, RowError>>, CudaError> {
        self.draw_on(self.rows.device.admit(stream)?, turns, matrix, false)
    }

    fn draw_on(
        &mut self,
        stream: Stream<'_>,
        turns: &[Turn],
        matrix: &Matrix<'_>,
        appends: bool,
    ) -> Result<Vec<Result<Sampled, RowError>>, CudaError> {
        self.arrange(stream, turns, appends)?;
        // SAFETY: the matrix is borrowed until the results are there.
        #[allow(unsafe_code)]
        let launched = unsafe { self.launch(stream, matrix) };
        let results = launched.and_then(|()| self.results(stream));
        // The masks are the caller's again, whatever happened: no later launch may use them.
        self.forget_turns();
        results
    }

    /// Says whose rows come next. It holds until [`Batch::results`] has read what was drawn for them, or
    /// until the next call. A sequence that has a second turn gets [`RowError::RepeatedSequence`] for it.
    /// What the device knows already is not copied again. If there is no memory for a text that becomes longer, it
    /// is an error, and the next call works. This cannot be part of a graph.
    pub fn prepare<'a>(&mut self, stream: impl Into<Stream<'a>>, turns: &[Turn]) -> Result<(), CudaError> {
        self.arrange(self.rows.device.admit(stream)?, turns, true)
    }

    /// As [`Batch::prepare`], for draws that are not appended: the sequences stay as they are.
    pub fn prepare_peek<'a>(
        &mut self,
        stream: impl Into<Stream<'a>>,
        turns: &[Turn],
    ) -> Result<(), CudaError> {
        self.arrange(self.rows.device.admit(stream)?, turns, false)
    }

    fn arrange(&mut self, stream: Stream<'_>, turns: &[Turn], appends: bool) -> Result<(), CudaError> {
        if turns.len() > self.rows.capacity.rows {
            let (given, capacity) = (turns.len(), self.rows.capacity.rows);
            return Err(CudaError::TooMany { what: "rows", given, capacity });
        }
        self.calls += 1;
        // If there is an error on the way, no turn is prepared.
        self.forget_turns();
        let (mut rows, mut tasks) = (std::mem::take(&mut self.turns), std::mem::take(&mut self.next_tasks));
        tasks.clear();
        let mut form = Form { rows: turns.len(), appends, ..Form::default() };
        for turn in turns {
            let row = self.admit(turn)?;
            // A row without a sequence is given the one after the last slot.
            let mut task = Task { slot: self.rows.capacity.sequences as u32, ..Task::default() };
            if let Some(member) = row.as_ref().ok().and_then(|&id| self.members.get(id)) {
                let mask = turn.mask.map_or(0, |mask| mask.address);
                task = Task::of(turn.sequence.slot(), &member.record);
                match member.masks {
                    Masks::Late => task.late_mask = mask,
                    _ => task.mask = mask,
                }
                form.add(&member.record, task.mask != 0);
            }
            if let (true, &Ok(id)) = (appends, &row) {
                self.make_room(id)?;
            }
            tasks.push(task);
            rows.push(row);
        }
        self.send_pending(stream)?;
        self.rows.point_repeats(&mut tasks);
        self.rows.tasks.post(stream, &tasks)?;
        (self.turns, self.next_tasks, self.rows.form) = (rows, tasks, form);
        (self.is_prepared, self.last_rows) = (true, form.rows);
        Ok(())
    }

    /// Forgets the prepared turns. What was drawn and not read is counted when positions are read from the
    /// device.
    pub(super) fn forget_turns(&mut self) {
        self.is_behind |= std::mem::take(&mut self.is_prepared) && self.rows.form.appends;
        self.turns.clear();
        self.rows.form = Form::default();
    }

    /// Checks whether a turn can be taken: its sequence, or the error of its row.
    fn admit(&mut self, turn: &Turn) -> Result<Result<SequenceId, RowError>, CudaError> {
        let (calls, vocabulary) = (self.calls, self.rows.capacity.vocabulary);
        let Some(member) = self.members.get_mut(turn.sequence) else {
            return Ok(Err(RowError::UnknownSequence));
        };
        if std::mem::replace(&mut member.last_call, calls) == calls {
            return Ok(Err(RowError::RepeatedSequence));
        }
        let Some(mask) = turn.mask else { return Ok(Ok(turn.sequence)) };
        if mask.ordinal != self.rows.device.ordinal() {
            return Err(CudaError::NotOnDevice { address: mask.address });
        }
        let (words, needed) = (mask.words, vocabulary.div_ceil(32));
        match member.masks {
            _ if words < needed => Ok(Err(RowError::MaskTooShort { words, needed })),
            Masks::Early | Masks::Late => Ok(Ok(turn.sequence)),
            Masks::Unnamed => Ok(Err(RowError::MaskWithoutStage)),
        }
    }

    /// Which kernels [`Batch::launch`] would launch now.
    pub fn form(&self) -> Form {
        self.rows.form
    }

    /// Launches the draws of the prepared turns, row i for turn i, and does not wait. Nothing is allocated,
    /// so it may be captured in a graph. The graph may run as often as [`Batch::form`] and the matrix stay
    /// the same, with [`Batch::prepare`] and [`Batch::results`] around each run. While it is captured, no
    /// other method of any batch may be called: it could wait for the device.
    ///
    /// # Safety
    ///
    /// The rows and the masks stay memory of the device until the stream has done the launch, and nobody
    /// writes them meanwhile. A graph does not run after the batch is dropped, nor with turns of another
    /// form, nor after one of its sequences is removed.
    #[allow(unsafe_code)]
    pub unsafe fn launch<'a>(
        &self,
        stream: impl Into<Stream<'a>>,
        matrix: &Matrix<'_>,
    ) -> Result<(), CudaError> {
        let stream = self.rows.device.admit(stream)?;
        let (form, vocabulary) = (self.rows.form, self.rows.capacity.vocabulary);
        self.rows.check_matrix(matrix, form.rows)?;
        // The slot of a removed sequence may be another's by now.
        let is_gone = |id: &SequenceId| self.members.get(*id).is_none();
        if self.turns.iter().flatten().any(is_gone) {
            return Err(RowError::UnknownSequence.into());
        }
        if form.rows == 0 {
            return Ok(());
        }
        let skyline = launch::skyline(form, matrix.dtype, vocabulary, matrix.is_aligned());
        let arguments = self.rows.arguments(matrix, &skyline);
        // SAFETY: the arrays have room for that many rows, tasks name slots of the array, and the matrix is
        // the caller's promise.
        unsafe { self.rows.launch(stream, matrix, &skyline, &arguments, form.draw(matrix.dtype)) }
    }

    /// Waits for the stream and reads what the last launch drew for the prepared turns. It can be done once:
    /// afterwards the turns are no longer prepared. Positions are counted here.
    ///
    /// If nothing is prepared, or nothing was drawn for such rows yet, the error is [`CudaError::NoResults`].
    /// The host does not see a graph run: turns that were prepared and not launched get what an earlier
    /// launch left. After another error the results may be asked for again.
    pub fn results<'a>(
        &mut self,
        stream: impl Into<Stream<'a>>,
    ) -> Result<Vec<Result<Sampled, RowError>>, CudaError> {
        if !self.is_prepared {
            return Err(CudaError::NoResults);
        }
        let stream = self.rows.device.admit(stream)?;
        let results = self.read_results(stream);
        if results.is_ok() {
            self.forget_turns();
        }
        // What the device drew has been appended to the sequences, even if the host could not read it.
        self.is_behind = results.is_err();
        results
    }

    /// [`Batch::results`] of prepared turns. Positions are counted once everything is read.
    fn read_results(&mut self, stream: Stream<'_>) -> Result<Vec<Result<Sampled, RowError>>, CudaError> {
        self.read_answers(stream, self.turns.len())?;
        if self.is_behind {
            self.catch_up(stream)?;
        }
        let result = |(i, row): (usize, &Result<SequenceId, RowError>)| match row {
            Err(error) => Ok(Err(error.clone())),
            Ok(id) => match self.members.get(*id) {
                Some(member) => self.answer(member, 0, i),
                None => Ok(Err(RowError::UnknownSequence)),
            },
        };
        let results = self.turns.iter().enumerate().map(result).collect::<Result<Vec<_>, _>>()?;
        let appends = self.rows.form.appends;
        for (i, result) in results.iter().enumerate() {
            if let (true, Ok(_), &Ok(id)) = (appends, result, &self.turns[i]) {
                self.advance(id);
            }
        }
        for row in &self.turns {
            if let Some(member) = row.as_ref().ok().and_then(|&id| self.members.get_mut(id)) {
                member.most = member.written;
            }
        }
        Ok(results)
    }

    /// Waits for the stream, and reads the outcomes and reports of the first rows.
    pub(super) fn read_answers(&mut self, stream: Stream<'_>, rows: usize) -> Result<(), CudaError> {
        self.outcomes.read(stream, &self.rows.arrays.results, rows)?;
        if self.rows.form.has_reports() {
            self.reports.resize(rows, Default::default());
            self.entries.resize(rows * self.rows.capacity.width(), Default::default());
            self.rows.arrays.reports.read(stream, 0, &mut self.reports)?;
            self.rows.arrays.entries.read(stream, 0, &mut self.entries)?;
        }
        if let Some(bits) = self.rows.arrays.kept_bits.as_ref().filter(|_| self.rows.form.has_ids) {
            self.kept_bits.resize(rows * Arrays::words_of_ids(self.rows.capacity.vocabulary), 0);
            bits.read(stream, 0, &mut self.kept_bits)?;
        }
        Ok(())
    }

    /// The result of row `i` for its sequence, `ahead` tokens after where the sequence stands.
    pub(super) fn answer(
        &self,
        member: &Member,
        ahead: usize,
        i: usize,
    ) -> Result<Result<Sampled, RowError>, CudaError> {
        let outcome = self.outcomes.get(i).copied().unwrap_or(Outcome { token: 0, status: u32::MAX });
        sampled(&member.record, member.position.wrapping_add(ahead as u32), outcome, self.answer_of(i))
    }

    /// What was read of row `i` beside its token.
    pub(super) fn answer_of(&self, i: usize) -> Answer<'_> {
        let (form, width) = (self.rows.form, self.rows.capacity.width());
        let words = Arrays::words_of_ids(self.rows.capacity.vocabulary);
        let kept_bits = self.kept_bits.get(i * words..(i + 1) * words);
        Answer {
            report: self.reports.get(i).filter(|_| form.has_reports()),
            entries: self.entries.get(i * width..(i + 1) * width).unwrap_or_default(),
            kept_bits: kept_bits.filter(|_| form.has_ids).unwrap_or_default(),
        }
    }
}
