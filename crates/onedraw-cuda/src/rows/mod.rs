//! The rows of a step: the device memory that they take, and the kernels that are launched over them. A
//! [`Batch`](crate::Batch) and [`Requests`](crate::Requests) say whose rows they are.

mod arrays;
mod capacity;

use onedraw::SamplingParams;

use crate::device::Device;
use crate::error::CudaError;
use crate::form::Form;
use crate::kernel::Kernel;
use crate::launch;
use crate::matrix::Matrix;
use crate::memory::Inbox;
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
        Ok(Self { capacity, arrays, tasks, form: Form::default(), device: device.clone() })
    }

    /// Launches the kernels of a step: the first pass, the draw, and those that report logprobs.
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
