//! A batch on a device with the masks of its step.
#![allow(unsafe_code)] // A launch reads memory of others.

use onedraw::{RowError, Sampled};
use onedraw_cuda::cudarc::driver::sys::CUstreamCaptureStatus;
use onedraw_cuda::cudarc::driver::{DriverError, result};
use onedraw_cuda::{Batch, Capacity, CudaError, Device, Drawn, Matrix, SequenceId, Turn};

use super::device::{self, Current};
use super::mask::{self, Given, Masks};
use super::stream::Handle;

/// A batch with everything that a draw needs. Its users restore the thread's [`Current`] context.
pub struct Draws {
    pub batch: Batch,
    /// Allocated when the first mask of the CPU is used.
    masks: Option<Masks>,
    /// The stream that was used last.
    pub stream: Handle,
    /// Rows of the last launch.
    rows: usize,
    /// Whether the prepared sequences were launched, as far as is known here.
    is_launched: bool,
    /// Whether a launch was captured in a graph, whose runs are not known here.
    has_graph: bool,
    process: u32,
    /// Set when this is dropped, and dropped last.
    current: Option<Current>,
}

type Results = Vec<std::result::Result<Sampled, RowError>>;

impl Draws {
    /// An empty batch of that capacity.
    pub fn new(device: &Device, capacity: Capacity) -> std::result::Result<Self, CudaError> {
        let batch = Batch::new(device, capacity)?;
        Ok(Self {
            batch,
            masks: None,
            stream: Handle::default(),
            rows: 0,
            is_launched: false,
            has_graph: false,
            process: std::process::id(),
            current: None,
        })
    }

    /// Uses it, and restores the CUDA context of the thread afterwards.
    pub fn with<R>(
        &mut self,
        action: impl FnOnce(&mut Self) -> std::result::Result<R, CudaError>,
    ) -> std::result::Result<R, CudaError> {
        device::check_process(self.process)?;
        let _current = Current::keep();
        action(self)
    }

    /// Sets whose rows come next, and whether their tokens are appended; there is one mask per sequence, or none
    /// at all.
    pub fn prepare(
        &mut self,
        stream: Handle,
        ids: &[SequenceId],
        masks: &[&Given],
        appends: bool,
    ) -> std::result::Result<(), CudaError> {
        let turns = self.turns(stream, ids, masks)?;
        (self.stream, self.is_launched) = (stream, false);
        match appends {
            true => self.batch.prepare(stream.stream(), &turns),
            false => self.batch.prepare_peek(stream.stream(), &turns),
        }
    }

    /// The turns with their masks. Masks of the CPU are copied to the device.
    fn turns(
        &mut self,
        stream: Handle,
        ids: &[SequenceId],
        masks: &[&Given],
    ) -> std::result::Result<Vec<Turn>, CudaError> {
        let (device, capacity) = (self.batch.device().clone(), self.batch.capacity());
        if ids.len() > capacity.rows {
            return Err(CudaError::TooMany { what: "rows", given: ids.len(), capacity: capacity.rows });
        }
        let mut turns: Vec<_> = ids.iter().map(|&id| Turn::new(id)).collect();
        for (row, (turn, mask)) in turns.iter_mut().zip(masks).enumerate() {
            turn.mask = match mask {
                Given::None => None,
                Given::There { address, words, .. } => Some(mask::there(&device, *address, *words)?),
                Given::Words(words) => {
                    let memory = match &mut self.masks {
                        Some(memory) => memory,
                        none => none.insert(Masks::new(&device, &capacity)?),
                    };
                    Some(memory.copy(&device, stream, row, words)?)
                }
            };
        }
        Ok(turns)
    }

    /// Launches the draws, and returns at once.
    ///
    /// # Safety
    ///
    /// Rows and masks stay in place until the stream is past the launch.
    pub unsafe fn launch(
        &mut self,
        stream: Handle,
        matrix: &Matrix<'_>,
    ) -> std::result::Result<(), CudaError> {
        let is_captured = self.is_capturing(stream)?;
        self.stream = stream;
        // SAFETY: the caller's promise.
        unsafe { self.batch.launch(stream.stream(), matrix)? };
        self.rows = self.batch.form().rows;
        self.has_graph |= is_captured;
        self.is_launched |= !is_captured;
        Ok(())
    }

    /// Whether the stream is captured into a graph.
    fn is_capturing(&self, stream: Handle) -> std::result::Result<bool, CudaError> {
        let failed = |error: DriverError| CudaError::Launch(error.to_string());
        self.batch.device().context().bind_to_thread().map_err(failed)?;
        // SAFETY: the owner of the handle keeps the stream during the call.
        let status = unsafe { result::stream::is_capturing(stream.raw()) }.map_err(failed)?;
        Ok(status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE)
    }

    /// Waits for the stream and reads what was drawn by the launch since `prepare`, or by a graph, if there
    /// is one.
    pub fn results(&mut self, stream: Handle) -> std::result::Result<Results, CudaError> {
        if !self.is_launched && !self.has_graph {
            return Err(CudaError::NoResults);
        }
        self.stream = stream;
        let results = self.batch.results(stream.stream())?;
        self.is_launched = false;
        Ok(results)
    }

    /// Where the tokens of the last launch are.
    pub fn drawn(&self) -> Drawn {
        Drawn { rows: self.rows, ..self.batch.drawn() }
    }

    /// Prepares, launches and reads the results. Rows and masks are borrowed until then.
    pub fn sample(
        &mut self,
        stream: Handle,
        ids: &[SequenceId],
        masks: &[&Given],
        matrix: &Matrix<'_>,
        appends: bool,
    ) -> std::result::Result<Results, CudaError> {
        let turns = self.turns(stream, ids, masks)?;
        (self.stream, self.is_launched) = (stream, false);
        let results = match appends {
            true => self.batch.sample_on(stream.stream(), &turns, matrix)?,
            false => self.batch.peek_on(stream.stream(), &turns, matrix)?,
        };
        self.rows = results.len();
        Ok(results)
    }
}

impl Drop for Draws {
    fn drop(&mut self) {
        // The batch is dropped first, and waits for the device; then the masks; then the thread gets its
        // context back.
        self.current = Some(Current::keep());
    }
}
