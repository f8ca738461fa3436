//! The rows of a step: the device memory that they take, and the kernels that are launched over them. A
//! [`Batch`](crate::Batch) and [`Requests`](crate::Requests) say whose rows they are.

mod arrays;
mod bytes;
mod capacity;

use std::sync::atomic::{AtomicBool, Ordering};

use onedraw::SamplingParams;

use crate::device::Device;
use crate::error::CudaError;
use crate::form::Form;
use crate::kernel::Kernel;
use crate::launch;
use crate::matrix::Matrix;
use crate::memory::{Array, Inbox};
use crate::record::chain::Record;
use crate::record::layout::{StepArguments, Task, TurnRecord, pitch};
use crate::stream::Stream;
pub(crate) use arrays::Arrays;
pub use capacity::Capacity;

/// Rows of a step, and what they share.
#[derive(Debug)]
pub(crate) struct Rows {
    pub capacity: Capacity,
    pub arrays: Arrays,
    /// What each row is to do.
    pub tasks: Inbox<Task>,
    pub form: Form,
    /// Whether the kernels of a step were not all launched, and nobody has asked since.
    is_cut_short: AtomicBool,
    /// Dropped after all memory: freeing memory waits for kernels, which the device holds.
    pub device: Device,
}

impl Rows {
    /// Memory for so many rows and sequences. It is an error if the device cannot have so much.
    pub(crate) fn new(device: &Device, capacity: Capacity) -> Result<Self, CudaError> {
        capacity.check(device)?;
        let tasks = Inbox::new(device.context(), capacity.rows)?;
        Self::with_tasks(device, capacity, tasks)
    }

    /// The same, with room for a turn for each row beside the tasks, which are copied ahead of their steps.
    pub(crate) fn with_turns(device: &Device, capacity: Capacity) -> Result<Self, CudaError> {
        capacity.check(device)?;
        let tasks = Inbox::ahead::<TurnRecord>(device.context(), capacity.rows)?;
        Self::with_tasks(device, capacity, tasks)
    }

    fn with_tasks(device: &Device, capacity: Capacity, tasks: Inbox<Task>) -> Result<Self, CudaError> {
        let arrays = Arrays::new(device, &capacity)?;
        // A row without a sequence is drawn greedily, and its token is not used.
        let nobody = Record::new(&SamplingParams { temperature: 0.0, ..Default::default() })?.sequence;
        arrays.sequences.write(device.uploads(), capacity.sequences, &[nobody])?;
        let (form, is_cut_short) = (Form::default(), AtomicBool::new(false));
        Ok(Self { capacity, arrays, tasks, form, is_cut_short, device: device.clone() })
    }

    /// Launches the kernels of a step: the first pass, the draw, and those that report logprobs. The draw is
    /// launched once for each level of rows, where rows wait for others.
    ///
    /// # Safety
    ///
    /// What the arguments point to is memory of the device, as large as the kernels expect, until the stream
    /// has done them.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn launch(
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
        let has_raw = arguments.weighs != 0;
        let before = [
            form.has_repeats.then_some((Kernel::Repeat, launch::repeat(form.rows))),
            Some((Kernel::Skyline(dtype, skyline.place), skyline.grid)),
            form.has_gauges.then_some((
                Kernel::Gauge(dtype, matrix.is_aligned()),
                launch::gauge(form.rows, matrix.vocabulary, self.device.processors()),
            )),
        ];
        let levels = match form.waits {
            // Rows whose tokens are chosen know already what they would wait for.
            waits if waits > 0 && arguments.is_chosen == 0 => 1..=waits as u32 + 1,
            _ => 0..=0,
        };
        let grid = launch::draw(form.rows, matrix.vocabulary, processors);
        let after = [
            has_raw.then_some((
                Kernel::Weigh(dtype, matrix.is_aligned()),
                launch::weigh(form.rows, matrix.vocabulary, self.device.processors()),
            )),
            has_raw.then_some((Kernel::RawLogprobs(dtype), launch::draw(form.rows, matrix.vocabulary, None))),
            (form.has_processed && arguments.laws == 0).then_some((Kernel::Report(dtype), report)),
            (form.lists_all && arguments.laws == 0)
                .then_some((Kernel::ListAll(dtype), launch::list_all(form.rows))),
        ];
        let all = before.into_iter().flatten().map(|(kernel, grid)| (kernel, grid, 0));
        let all = all.chain(levels.map(|level| (draw, grid, level)));
        let all = all.chain(after.into_iter().flatten().map(|(kernel, grid)| (kernel, grid, 0)));
        // SAFETY: the caller's promise.
        unsafe { self.launch_all(stream, all, arguments) }
    }

    /// Launches the kernels that tell the logprobs of a prompt.
    ///
    /// # Safety
    ///
    /// As for [`Rows::launch`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn launch_prompt(
        &self,
        stream: Stream<'_>,
        matrix: &Matrix<'_>,
        skyline: &launch::Skyline,
        arguments: &StepArguments,
    ) -> Result<(), CudaError> {
        let (form, dtype) = (self.form, matrix.dtype);
        let sums = launch::gauge(form.rows, matrix.vocabulary, self.device.processors());
        let kernels = [
            Some((Kernel::Skyline(dtype, skyline.place), skyline.grid)),
            Some((Kernel::SumPrompt(dtype, matrix.is_aligned()), sums)),
            Some((Kernel::TellPrompt(dtype), launch::draw(form.rows, matrix.vocabulary, None))),
            form.lists_all.then_some((Kernel::ListAll(dtype), launch::list_all(form.rows))),
        ];
        let all = kernels.into_iter().flatten().map(|(kernel, grid)| (kernel, grid, 0));
        // SAFETY: the caller's promise.
        unsafe { self.launch_all(stream, all, arguments) }
    }

    /// Launches kernels one after the other, each for the rows of a level.
    ///
    /// # Safety
    ///
    /// As for [`Rows::launch`].
    #[allow(unsafe_code)]
    unsafe fn launch_all(
        &self,
        stream: Stream<'_>,
        mut kernels: impl Iterator<Item = (Kernel, launch::Grid, u32)>,
        arguments: &StepArguments,
    ) -> Result<(), CudaError> {
        let launched = kernels.try_for_each(|(kernel, grid, level)| {
            let arguments = StepArguments { level, ..*arguments };
            // SAFETY: the caller's promise.
            unsafe { self.device.launch(stream, kernel, grid, &arguments) }
        });
        if launched.is_err() {
            // The next step must find the arrays as after a complete one. If this fails too, so will the next
            // step.
            let _ = self.arrays.clear(stream);
            self.is_cut_short.store(true, Ordering::Relaxed);
        }
        launched
    }

    /// Whether the kernels of a step were not all launched since this was asked last.
    pub(crate) fn take_cut_short(&self) -> bool {
        self.is_cut_short.swap(false, Ordering::Relaxed)
    }

    /// The slot of the sequence whose rows are those of a prompt.
    pub(crate) fn reader(&self) -> usize {
        self.capacity.sequences + 1
    }

    /// Gives the rows that look for repetitions their memory. Tasks are those of the rows in their order.
    pub(crate) fn point_repeats(&self, tasks: &mut [Task]) {
        let base = self.arrays.repeats.as_ref().map_or(0, Array::address);
        let pitch = 4 * Arrays::words_of_repeats(self.capacity.vocabulary) as u64;
        for (row, task) in tasks.iter_mut().enumerate().filter(|(_, task)| task.repeats != 0) {
            task.repeats = base + row as u64 * pitch;
        }
    }

    /// The arguments of a step over a matrix.
    pub(crate) fn arguments(&self, matrix: &Matrix<'_>, skyline: &launch::Skyline) -> StepArguments {
        StepArguments {
            sequences: self.arrays.sequences.address(),
            tasks: self.tasks.address(),
            logits: matrix.address,
            stride: matrix.stride,
            rows: matrix.rows as u32,
            vocabulary: matrix.vocabulary as u32,
            pitch: pitch(matrix.vocabulary) as u32,
            width: self.capacity.width() as u32,
            advances: self.form.appends.into(),
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
            desks: self.arrays.desks.as_ref().map_or(0, Array::address),
            gauges: self.arrays.gauges.address(),
            kept_bits: self.arrays.kept_bits.as_ref().map_or(0, Array::address),
            sorting: self.arrays.sorting.as_ref().map_or(0, Array::address),
            editors: skyline.editors,
            level: 0,
            weighs: self.form.has_raw.into(),
        }
    }

    /// Checks that a matrix has so many rows of the batch's vocabulary, on its device.
    pub(crate) fn check_matrix(&self, matrix: &Matrix<'_>, rows: usize) -> Result<(), CudaError> {
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
}
