//! A step in its three parts: whose rows come, the launch, the results.

use onedraw::slots::SequenceId;
use onedraw::{RowError, Sampled};

use super::sequences::{Batch, Member};
use crate::error::CudaError;
use crate::form::Form;
use crate::kernel::Kernel;
use crate::launch;
use crate::matrix::{Mask, Matrix};
use crate::record::chain::Masks;
use crate::record::layout::{Outcome, StepArguments, Task, pitch};
use crate::results::sampled;
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
        let stream = stream.into();
        self.prepare(stream, turns)?;
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
    /// What the device knows already is not copied again. This cannot be part of a graph.
    pub fn prepare<'a>(&mut self, stream: impl Into<Stream<'a>>, turns: &[Turn]) -> Result<(), CudaError> {
        if turns.len() > self.capacity.rows {
            let (given, capacity) = (turns.len(), self.capacity.rows);
            return Err(CudaError::TooMany { what: "rows", given, capacity });
        }
        self.calls += 1;
        // If there is an error on the way, no turn is prepared.
        self.forget_turns();
        let (mut rows, mut tasks) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.next_tasks));
        tasks.clear();
        let mut form = Form { rows: turns.len(), ..Form::default() };
        for turn in turns {
            let row = self.admit(turn)?;
            // A row without a sequence is given the one after the last slot.
            let mut task = Task { slot: self.capacity.sequences as u32, ..Task::default() };
            if let Some(member) = row.as_ref().ok().and_then(|&id| self.members.get(id)) {
                let mask = turn.mask.map_or(0, |mask| mask.address);
                task = Task { mask, ..Task::of(turn.sequence.slot(), &member.record) };
                form.add(&member.record, turn.mask.is_some());
            }
            tasks.push(task);
            rows.push(row);
        }
        self.tasks.post(stream.into(), &tasks)?;
        (self.rows, self.next_tasks, self.form) = (rows, tasks, form);
        (self.is_prepared, self.last_rows) = (true, form.rows);
        Ok(())
    }

    /// Forgets the prepared turns. What was drawn and not read is counted when positions are read from the
    /// device.
    pub(super) fn forget_turns(&mut self) {
        self.is_behind |= std::mem::take(&mut self.is_prepared);
        self.rows.clear();
        self.form = Form::default();
    }

    /// Checks whether a turn can be taken: its sequence, or the error of its row.
    fn admit(&mut self, turn: &Turn) -> Result<Result<SequenceId, RowError>, CudaError> {
        let (calls, vocabulary) = (self.calls, self.capacity.vocabulary);
        let Some(member) = self.members.get_mut(turn.sequence) else {
            return Ok(Err(RowError::UnknownSequence));
        };
        if std::mem::replace(&mut member.last_call, calls) == calls {
            return Ok(Err(RowError::RepeatedSequence));
        }
        let Some(mask) = turn.mask else { return Ok(Ok(turn.sequence)) };
        if mask.ordinal != self.device.ordinal() {
            return Err(CudaError::NotOnDevice { address: mask.address });
        }
        let (words, needed) = (mask.words, vocabulary.div_ceil(32));
        match member.masks {
            _ if words < needed => Ok(Err(RowError::MaskTooShort { words, needed })),
            Masks::Taken => Ok(Ok(turn.sequence)),
            Masks::Unnamed => Ok(Err(RowError::MaskWithoutStage)),
            Masks::TooLate => Err(CudaError::unsupported("a mask after a temperature or a truncation")),
        }
    }

    /// Which kernels [`Batch::launch`] would launch now.
    pub fn form(&self) -> Form {
        self.form
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
        let (stream, form, vocabulary) = (stream.into(), self.form, self.capacity.vocabulary);
        self.check_matrix(matrix, form.rows)?;
        // The slot of a removed sequence may be another's by now.
        let is_gone = |id: &SequenceId| self.members.get(*id).is_none();
        if self.rows.iter().flatten().any(is_gone) {
            return Err(RowError::UnknownSequence.into());
        }
        if form.rows == 0 {
            return Ok(());
        }
        let skyline = launch::skyline(form, matrix.dtype, vocabulary, matrix.is_aligned());
        let arguments = self.arguments(matrix, &skyline);
        // SAFETY: the arrays have room for that many rows, tasks name slots of the array, and the matrix is
        // the caller's promise.
        unsafe { self.launch_rows(stream, matrix, &skyline, &arguments, form.draw(matrix.dtype)) }
    }

    /// Launches the kernels of a step: the first pass, the draw, and those that report logprobs.
    ///
    /// # Safety
    ///
    /// What the arguments point to is memory of the device, as large as the kernels expect, until the stream
    /// has done them.
    #[allow(unsafe_code)]
    pub(super) unsafe fn launch_rows(
        &self,
        stream: Stream<'_>,
        matrix: &Matrix<'_>,
        skyline: &launch::Skyline,
        arguments: &StepArguments,
        draw: Kernel,
    ) -> Result<(), CudaError> {
        let (form, dtype) = (self.form, matrix.dtype);
        let report = launch::report(form.rows, matrix.vocabulary);
        let processors = matches!(draw, Kernel::Draw(_)).then(|| self.device.processors());
        let has_raw = arguments.weigh_parts != 0;
        let kernels = [
            Some((Kernel::Skyline(dtype, skyline.place), skyline.grid)),
            Some((draw, launch::draw(form.rows, matrix.vocabulary, processors))),
            has_raw.then_some((
                Kernel::Weigh(dtype, matrix.is_aligned()),
                launch::weigh(form.rows, matrix.vocabulary),
            )),
            has_raw.then_some((Kernel::RawLogprobs(dtype), launch::draw(form.rows, matrix.vocabulary, None))),
            (form.has_processed && arguments.laws == 0).then_some((Kernel::Report(dtype), report)),
        ];
        // SAFETY: the caller's promise.
        let launch = |(kernel, grid)| unsafe { self.device.launch(stream, kernel, grid, arguments) };
        let launched = kernels.into_iter().flatten().try_for_each(launch);
        if launched.is_err() {
            // The next step must find the arrays as after a complete one. If this fails too, so will the next
            // step.
            let _ = self.arrays.clear(stream);
        }
        launched
    }

    /// The arguments of a step over a matrix.
    pub(super) fn arguments(&self, matrix: &Matrix<'_>, skyline: &launch::Skyline) -> StepArguments {
        StepArguments {
            sequences: self.arrays.sequences.address(),
            tasks: self.tasks.address(),
            logits: matrix.address,
            stride: matrix.stride,
            rows: matrix.rows as u32,
            vocabulary: matrix.vocabulary as u32,
            pitch: pitch(matrix.vocabulary) as u32,
            width: self.capacity.width() as u32,
            advances: 1,
            group: skyline.group,
            noise_makers: skyline.noise_makers,
            is_summed: self.form.has_sums.into(),
            peaks: self.arrays.peaks.address(),
            sums: self.arrays.sums.address(),
            references: self.arrays.references.address(),
            gains: self.arrays.gains.address(),
            raw_peaks: self.arrays.raw_peaks.address(),
            summits: self.arrays.summits.address(),
            raw_summits: self.arrays.raw_summits.address(),
            raw_masses: self.arrays.raw_masses.address(),
            bad_tokens: self.arrays.bad_tokens.address(),
            results: self.arrays.results.address(),
            reports: self.arrays.reports.address(),
            entries: self.arrays.entries.address(),
            laws: 0,
            trials: 0,
            is_chosen: 0,
            edited: self.arrays.edited.address(),
            editors: skyline.editors,
            reserved: 0,
            weigh_parts: if self.form.has_raw {
                launch::weigh(matrix.rows, matrix.vocabulary).blocks.0
            } else {
                0
            },
        }
    }

    /// Checks that a matrix has so many rows of the batch's vocabulary, on its device.
    pub(super) fn check_matrix(&self, matrix: &Matrix<'_>, rows: usize) -> Result<(), CudaError> {
        let vocabulary = self.capacity.vocabulary;
        if matrix.ordinal != self.device.ordinal() {
            return Err(CudaError::NotOnDevice { address: matrix.address });
        }
        if matrix.vocabulary != vocabulary {
            return Err(CudaError::Vocabulary { given: matrix.vocabulary, needed: vocabulary });
        }
        if matrix.rows != rows {
            return Err(CudaError::Rows { rows: matrix.rows, turns: rows });
        }
        Ok(())
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
        let results = self.read_results(stream.into());
        if results.is_ok() {
            self.forget_turns();
        }
        // What the device drew has been appended to the sequences, even if the host could not read it.
        self.is_behind = results.is_err();
        results
    }

    /// [`Batch::results`] of prepared turns. Positions are counted once everything is read.
    fn read_results(&mut self, stream: Stream<'_>) -> Result<Vec<Result<Sampled, RowError>>, CudaError> {
        self.read_answers(stream, self.rows.len())?;
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
        let results = self.rows.iter().enumerate().map(result).collect::<Result<Vec<_>, _>>()?;
        for (i, result) in results.iter().enumerate() {
            if let (Ok(_), &Ok(id)) = (result, &self.rows[i]) {
                self.advance(id);
            }
        }
        Ok(results)
    }

    /// Waits for the stream, and reads the outcomes and reports of the first rows.
    pub(super) fn read_answers(&mut self, stream: Stream<'_>, rows: usize) -> Result<(), CudaError> {
        self.outcomes.read(stream, &self.arrays.results, rows)?;
        if self.form.has_reports() {
            self.reports.resize(rows, Default::default());
            self.entries.resize(rows * self.capacity.width(), Default::default());
            self.arrays.reports.read(stream, 0, &mut self.reports)?;
            self.arrays.entries.read(stream, 0, &mut self.entries)?;
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
        let width = self.capacity.width();
        let outcome = self.outcomes.get(i).copied().unwrap_or(Outcome { token: 0, status: u32::MAX });
        let entries = self.entries.get(i * width..(i + 1) * width);
        let report = self.reports.get(i).filter(|_| self.form.has_reports()).zip(entries);
        sampled(&member.record, member.position.wrapping_add(ahead as u32), outcome, report)
    }
}
