//! A batch on a device with the masks of its step.
#![allow(unsafe_code)] // A launch reads memory of others.

use onedraw::{RowError, Sampled};
use onedraw_cuda::{Batch, Capacity, CudaError, Device, Matrix, SequenceId, Turn};

use super::device::{self, Current};
use super::mask::{self, Given, Masks};
use super::stream::Handle;

/// What a batch draws with. Whoever uses it keeps the thread's [`Current`] context.
pub struct Draws {
    pub batch: Batch,
    /// Made where the first mask of the CPU comes.
    masks: Option<Masks>,
    /// The stream that was told something last.
    pub stream: Handle,
    process: u32,
    /// Set when the rest goes, and goes last.
    current: Option<Current>,
}

type Results = Vec<std::result::Result<Sampled, RowError>>;

impl Draws {
    /// Room for so many.
    pub fn new(device: &Device, capacity: Capacity) -> std::result::Result<Self, CudaError> {
        let batch = Batch::new(device, capacity)?;
        let process = std::process::id();
        Ok(Self { batch, masks: None, stream: Handle::default(), process, current: None })
    }

    /// Uses it with the context of its device, and puts the thread's own back.
    pub fn with<R>(
        &mut self,
        action: impl FnOnce(&mut Self) -> std::result::Result<R, CudaError>,
    ) -> std::result::Result<R, CudaError> {
        device::check_process(self.process)?;
        let _current = Current::keep();
        action(self)
    }

    /// Says whose rows come next; masks are one a turn, or none.
    pub fn prepare(
        &mut self,
        stream: Handle,
        ids: &[SequenceId],
        masks: &[&Given],
    ) -> std::result::Result<(), CudaError> {
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
        self.stream = stream;
        self.batch.prepare(stream.stream(), &turns)
    }

    /// Launches the draws and goes on.
    ///
    /// # Safety
    ///
    /// Rows and masks stay where they are until the stream has come past the launch.
    pub unsafe fn launch(
        &mut self,
        stream: Handle,
        matrix: &Matrix<'_>,
    ) -> std::result::Result<(), CudaError> {
        self.stream = stream;
        // SAFETY: the caller's promise.
        unsafe { self.batch.launch(stream.stream(), matrix) }
    }

    /// Waits for the stream and reads what was drawn.
    pub fn results(&mut self, stream: Handle) -> std::result::Result<Results, CudaError> {
        self.stream = stream;
        self.batch.results(stream.stream())
    }

    /// All three, one after the other. Rows and masks are borrowed until the results are there.
    pub fn sample(
        &mut self,
        stream: Handle,
        ids: &[SequenceId],
        masks: &[&Given],
        matrix: &Matrix<'_>,
    ) -> std::result::Result<Results, CudaError> {
        self.prepare(stream, ids, masks)?;
        // SAFETY: see above; the results are waited for.
        unsafe { self.launch(stream, matrix)? };
        self.results(stream)
    }
}

impl Drop for Draws {
    fn drop(&mut self) {
        // The batch goes first, and waits for the device; then the masks; then the thread has its context back.
        self.current = Some(Current::keep());
    }
}
