//! A step in its three parts: whose rows come, the launch, the answers.

use onedraw::{RowError, Sampled};

use super::{Batch, Member, Turn};
use crate::device::Kernel;
use crate::error::CudaError;
use crate::launch;
use crate::matrix::{Dtype, Matrix};
use crate::record::chain::Masks;
use crate::record::{Outcome, Sequence, Step, Task};
use crate::results::sampled;
use crate::slots::SequenceId;
use crate::stream::Stream;

/// Which kernels a step launches. A CUDA graph of one launch serves every later step of the same form over the same matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Form {
    /// Its rows.
    pub rows: usize,
    /// Whether a sequence edits single tokens.
    pub has_edits: bool,
    /// Whether a row has a mask.
    pub has_masks: bool,
    /// Whether a sequence needs the masses of blocks, for top-p.
    pub has_sums: bool,
    /// Whether a sequence draws: none does where all are greedy.
    pub has_noise: bool,
    /// Whether a sequence has other stages than min-p, top-k and top-p.
    pub has_others: bool,
    /// Whether a sequence reports logprobs of rows as they came.
    pub has_raw: bool,
    /// Whether a sequence reports logprobs of what is left of a row.
    pub has_processed: bool,
}

impl Form {
    pub(super) fn add(&mut self, sequence: &Sequence, has_mask: bool) {
        self.has_raw |= sequence.is_raw();
        self.has_processed |= sequence.logprobs > 0 && !sequence.is_raw();
        self.has_masks |= has_mask || sequence.allowed != 0;
        self.has_sums |= sequence.sum_scale != 0.0;
        self.has_noise |= sequence.is_greedy == 0;
        self.has_others |= sequence.is_plain == 0;
        self.has_edits |= sequence.touched != 0;
    }

    /// The kernel that draws such rows.
    pub(super) fn kernel(&self, dtype: Dtype) -> Kernel {
        if self.has_others || self.has_processed {
            Kernel::Draw(dtype)
        } else if self.has_edits || self.has_masks {
            Kernel::DrawEdited(dtype)
        } else {
            Kernel::DrawBare(dtype)
        }
    }

    /// Whether a sequence reports logprobs.
    pub(super) fn has_reports(&self) -> bool {
        self.has_raw || self.has_processed
    }
}

impl Batch {
    /// Draws a token for each turn from its row and appends it to that sequence, then waits. It happens on the legacy default stream. One bad row is one error.
    /// Where the whole step fails, sequences may have a token more all the same, which nobody is told; the next step goes on from there.
    pub fn sample(
        &mut self,
        turns: &[Turn],
        matrix: &Matrix<'_>,
    ) -> Result<Vec<Result<Sampled, RowError>>, CudaError> {
        self.sample_on(Stream::default(), turns, matrix)
    }

    /// As [`Batch::sample`], on a stream, which must have come past whoever writes the rows.
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
        // The masks are the caller's again, whatever happened: nobody may launch with them.
        self.forget_turns();
        results
    }

    /// Says whose rows come next, until [`Batch::results`] has read what was drawn for them or it is called again. A sequence that has a second turn gets [`RowError::RepeatedSequence`] for it.
    /// What the device knows already is not copied again. This is no part of a graph.
    pub fn prepare<'a>(&mut self, stream: impl Into<Stream<'a>>, turns: &[Turn]) -> Result<(), CudaError> {
        if turns.len() > self.capacity.rows {
            let (given, capacity) = (turns.len(), self.capacity.rows);
            return Err(CudaError::TooMany { what: "rows", given, capacity });
        }
        self.calls += 1;
        // Nobody has a row if something is wrong on the way.
        self.forget_turns();
        let (mut rows, mut tasks) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.next_tasks));
        tasks.clear();
        let mut form = Form { rows: turns.len(), ..Form::default() };
        for turn in turns {
            let row = self.admit(turn)?;
            // A row that nobody has goes to the sequence after the last.
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

    /// Nothing is prepared. What was drawn and not read is counted when positions are read again.
    pub(super) fn forget_turns(&mut self) {
        self.is_behind |= std::mem::take(&mut self.is_prepared);
        self.rows.clear();
        self.form = Form::default();
    }

    /// Whether a turn can be had.
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

    /// Launches the draws of the prepared turns, row i for turn i, and goes on. Nothing is allocated and nobody waits: it may be captured in a graph, which may run as
    /// often as [`Batch::form`] and the matrix stay the same, with [`Batch::prepare`] and [`Batch::results`] around each run. While it is captured, nothing else of any batch may be called: it could wait for the device.
    ///
    /// # Safety
    ///
    /// The rows and the masks stay memory of the device until the stream has come past the launch, and nobody writes them meanwhile. A graph does not run after the batch is dropped, nor
    /// with turns of another form, nor after one of its sequences is removed.
    #[allow(unsafe_code)]
    pub unsafe fn launch<'a>(
        &self,
        stream: impl Into<Stream<'a>>,
        matrix: &Matrix<'_>,
    ) -> Result<(), CudaError> {
        let (stream, form, vocabulary) = (stream.into(), self.form, self.capacity.vocabulary);
        self.check_matrix(matrix, form.rows)?;
        // What a removed sequence had may be another's by now.
        let is_gone = |id: &SequenceId| self.members.get(*id).is_none();
        if self.rows.iter().flatten().any(is_gone) {
            return Err(RowError::UnknownSequence.into());
        }
        if form.rows == 0 {
            return Ok(());
        }
        let skyline = launch::skyline(form, matrix.dtype, vocabulary, matrix.is_aligned());
        let step = self.step(matrix, &skyline);
        // SAFETY: the arrays have room for that many rows, tasks name slots of the array, and the matrix is the caller's promise.
        unsafe { self.launch_rows(stream, matrix, &skyline, &step, form.kernel(matrix.dtype)) }
    }

    /// Launches the draws of a step, and what is reported of them.
    ///
    /// # Safety
    ///
    /// What the step points to is memory of the device until the stream has come past it, as long as the kernels expect.
    #[allow(unsafe_code)]
    pub(super) unsafe fn launch_rows(
        &self,
        stream: Stream<'_>,
        matrix: &Matrix<'_>,
        skyline: &launch::Skyline,
        step: &Step,
        draw: Kernel,
    ) -> Result<(), CudaError> {
        let (form, dtype) = (self.form, matrix.dtype);
        let report = launch::report(form.rows, matrix.vocabulary);
        let processors = matches!(draw, Kernel::Draw(_)).then(|| self.device.processors());
        let has_parts = step.parts != 0;
        let kernels = [
            Some((Kernel::Skyline(dtype, skyline.place), skyline.grid)),
            Some((draw, launch::draw(form.rows, matrix.vocabulary, processors))),
            has_parts.then_some((
                Kernel::Weigh(dtype, matrix.is_aligned()),
                launch::weigh(form.rows, matrix.vocabulary),
            )),
            has_parts.then_some((Kernel::Tell(dtype), launch::draw(form.rows, matrix.vocabulary, None))),
            (form.has_processed && step.laws == 0).then_some((Kernel::Report(dtype), report)),
        ];
        // SAFETY: the caller's.
        let launch = |(kernel, grid)| unsafe { self.device.launch(stream, kernel, grid, step) };
        let launched = kernels.into_iter().flatten().try_for_each(launch);
        if launched.is_err() {
            // Whoever comes next finds nothing of this one. Where that fails too, so will the next.
            let _ = self.arrays.clear(stream);
        }
        launched
    }

    pub(super) fn step(&self, matrix: &Matrix<'_>, skyline: &launch::Skyline) -> Step {
        Step {
            sequences: self.arrays.sequences.address(),
            tasks: self.tasks.address(),
            logits: matrix.address,
            stride: matrix.stride,
            rows: matrix.rows as u32,
            vocabulary: matrix.vocabulary as u32,
            pitch: launch::pitch(matrix.vocabulary) as u32,
            width: self.capacity.width() as u32,
            advances: 1,
            group: skyline.group,
            dice: skyline.dice,
            is_summed: self.form.has_sums.into(),
            peaks: self.arrays.peaks.address(),
            sums: self.arrays.sums.address(),
            references: self.arrays.references.address(),
            lucks: self.arrays.lucks.address(),
            raw_tops: self.arrays.raw_tops.address(),
            summits: self.arrays.summits.address(),
            raw_summits: self.arrays.raw_summits.address(),
            weights: self.arrays.weights.address(),
            bad: self.arrays.bad.address(),
            results: self.arrays.results.address(),
            reports: self.arrays.reports.address(),
            entries: self.arrays.entries.address(),
            laws: 0,
            trials: 0,
            is_chosen: 0,
            edited: self.arrays.edited.address(),
            editors: skyline.editors,
            reserved: 0,
            parts: if self.form.has_raw { launch::weigh(matrix.rows, matrix.vocabulary).blocks.0 } else { 0 },
        }
    }

    /// Whether a matrix is so many rows of the batch's vocabulary, on its device.
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

    /// Waits for the stream, and reads what the last launch drew for the prepared turns, once: then they are prepared no more. Positions are counted here.
    ///
    /// Where nothing is prepared, or nothing was drawn for such rows yet, it is [`CudaError::NoResults`]. The host does not see a graph run: turns that were prepared and not
    /// launched get what an earlier launch left. After another error the results may be asked for again.
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
        // What the device drew and the host could not read has moved sequences on all the same.
        self.is_behind = results.is_err();
        results
    }

    /// [`Batch::results`] of prepared turns. Positions are counted once all is read.
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

    /// Waits for the stream, and reads what it says of the first rows.
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

    /// Row `i`, as its sequence asked for it, `ahead` tokens after where the sequence stands.
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
