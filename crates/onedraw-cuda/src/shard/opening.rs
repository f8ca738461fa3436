//! The first messages of a rank, made on the device: the host's side of `kernels/shard/opening.cuh`.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use cudarc::driver::result;
use cudarc::driver::sys::CUfunction;
use onedraw::FirstQuestion;
use onedraw::answer::Held;
use onedraw::noise::BLOCK;

use super::repeats::{self, Repeating};
use crate::device::Device;
use crate::dtype::Dtype;
use crate::error::CudaError;
use crate::memory::{Array, Inbox};
use crate::record::shared::{OPEN_BYTES_PER_BLOCK, OPEN_HEAD, OPEN_SLOT, OPEN_THREADS, shared_struct};
use crate::stream::Stream;

shared_struct! { "OpenTask":
    /// One row of a step.
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    pub(super) struct OpenTask {
        pub logits: u64,
        pub sequence: u64,
        pub mask: u64,
        pub repeats: u64,
        pub slot: u64,
        pub reach: f64,
        pub focus: u64,
        pub inverse: f64,
        pub scale: f32,
        pub best: u32,
        pub start: u32,
        pub length: u32,
        pub ahead: u32,
        pub reserved: u32,
        pub head: [u8; 64],
    }
}

shared_struct! { "OpenStep":
    /// The argument of the kernel.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    struct OpenStep {
        tasks: u64,
    }
}

shared_struct! { "Appending":
    /// A token, and the sequence that it is appended to.
    #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
    pub(super) struct Appending {
        pub sequence: u64,
        pub token: u32,
        pub reserved: u32,
    }
}

shared_struct! { "AppendStep":
    /// The argument of the kernel that appends.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    struct AppendStep {
        list: u64,
        count: u32,
        reserved: u32,
    }
}

impl OpenTask {
    /// The same part, asked this question; its message goes to `slot`.
    pub(super) fn ask(self, question: &FirstQuestion, held: Held, slot: u64) -> Self {
        let FirstQuestion { head: given, open } = question;
        let mut head = [0; 64];
        head[..OPEN_HEAD].copy_from_slice(given);
        Self {
            slot,
            reach: open.reach,
            focus: open.focus,
            inverse: open.race.map_or(0.0, |temperature| temperature.inverse),
            scale: open.masses.map_or(0.0, |temperature| temperature.softmax(0.0).scale),
            best: open.best,
            start: held.start,
            length: held.length,
            head,
            ..self
        }
    }
}

/// Device memory for the steps of a rank. It grows with them.
#[derive(Debug)]
pub(super) struct Openings {
    device: Device,
    tasks: Growing<OpenTask>,
    appended: Growing<Appending>,
    repeating: Growing<Repeating>,
    masks: Growing<u32>,
    slots: Array<u8>,
    /// Rows that there are slots for.
    capacity: usize,
}

impl Openings {
    pub(super) fn new(device: &Device) -> Result<Self, CudaError> {
        Ok(Self {
            device: device.clone(),
            tasks: Growing::default(),
            appended: Growing::default(),
            repeating: Growing::default(),
            masks: Growing::default(),
            slots: Array::uninitialised(device.context(), 0)?,
            capacity: 0,
        })
    }

    /// Makes slots for so many rows; returns where the first lies.
    pub(super) fn reserve(&mut self, rows: usize) -> Result<u64, CudaError> {
        if rows > self.capacity {
            self.slots = Array::uninitialised(self.device.context(), rows * OPEN_SLOT)?;
            self.capacity = rows;
        }
        Ok(self.slots.address())
    }

    /// The slots, one row after the other.
    pub(super) fn slots(&self) -> &Array<u8> {
        &self.slots
    }

    /// Copies masks to the device, in the stream's order; returns where the first lies.
    pub(super) fn post_masks(&mut self, stream: Stream<'_>, words: &[u32]) -> Result<u64, CudaError> {
        self.masks.post(&self.device, stream, words)
    }

    /// Appends tokens to sequences, none of which comes twice.
    pub(super) fn append(&mut self, stream: Stream<'_>, list: &[Appending]) -> Result<(), CudaError> {
        if list.is_empty() {
            return Ok(());
        }
        let address = self.appended.post(&self.device, stream, list)?;
        let step = AppendStep { list: address, count: list.len() as u32, reserved: 0 };
        const THREADS: u32 = 64;
        let function = self.device.append_each();
        // SAFETY: the list was posted to the stream, and names sequences that live as long as their shards.
        unsafe { self.launch(stream, function, step, (step.count.div_ceil(THREADS), THREADS, 0)) }
    }

    /// Finds what the texts of sequences repeat, over rows of `vocabulary` logits. Sequences may come twice.
    pub(super) fn find_repeats(
        &mut self,
        stream: Stream<'_>,
        mut list: Vec<Repeating>,
        vocabulary: usize,
    ) -> Result<(), CudaError> {
        list.sort_unstable();
        list.dedup();
        if list.is_empty() {
            return Ok(());
        }
        let address = self.repeating.post(&self.device, stream, &list)?;
        // SAFETY: the list was posted to the stream, each of its sequences is there once, and sequences and
        // words live as long as their shards.
        unsafe { repeats::find(&self.device, stream, address, list.len(), vocabulary) }
    }

    /// Makes the messages of all rows, which hold the same tokens, and does not wait for them.
    ///
    /// # Safety
    ///
    /// Every address of the tasks is device memory: the logits and the mask of so many tokens, a sequence, what
    /// its text repeats if its edits ask for it, and one of the slots, until the kernel has run.
    pub(super) unsafe fn open(
        &mut self,
        stream: Stream<'_>,
        dtype: Dtype,
        held: Held,
        tasks: &[OpenTask],
    ) -> Result<(), CudaError> {
        if tasks.is_empty() {
            return Ok(());
        }
        let step = OpenStep { tasks: self.tasks.post(&self.device, stream, tasks)? };
        let Held { start, length } = held;
        let blocks = (start + length).div_ceil(BLOCK as u32) - start / BLOCK as u32;
        let memory = blocks * OPEN_BYTES_PER_BLOCK as u32;
        let function = self.device.open(dtype);
        // SAFETY: the tasks were posted to the stream; the rest is the caller's promise.
        unsafe { self.launch(stream, function, step, (tasks.len() as u32, OPEN_THREADS, memory)) }
    }

    /// Launches a kernel with so many thread blocks, threads of each, and bytes of dynamic shared memory.
    ///
    /// # Safety
    ///
    /// The kernel takes this argument, whose addresses are device memory until it has run.
    unsafe fn launch<A>(
        &self,
        stream: Stream<'_>,
        function: CUfunction,
        mut argument: A,
        (blocks, threads, memory): (u32, u32, u32),
    ) -> Result<(), CudaError> {
        self.device.context().bind_to_thread().map_err(CudaError::launch)?;
        let parameters = &mut [(&raw mut argument).cast()];
        // SAFETY: the driver copies the argument before it returns. The rest is the caller's promise.
        unsafe {
            result::launch_kernel(function, (blocks, 1, 1), (threads, 1, 1), memory, stream.raw(), parameters)
        }
        .map_err(CudaError::launch)
    }
}

/// An inbox that is replaced by a larger one when it is too small.
#[derive(Debug)]
struct Growing<T> {
    inbox: Option<Inbox<T>>,
    capacity: usize,
}

impl<T> Default for Growing<T> {
    fn default() -> Self {
        Self { inbox: None, capacity: 0 }
    }
}

impl<T: Pod> Growing<T> {
    /// Copies elements to the device, in the stream's order; returns where the first lies.
    fn post(&mut self, device: &Device, stream: Stream<'_>, elements: &[T]) -> Result<u64, CudaError> {
        if elements.len() > self.capacity {
            self.inbox = None;
            self.capacity = elements.len().next_power_of_two();
        }
        let inbox = match &mut self.inbox {
            Some(inbox) => inbox,
            none => none.insert(Inbox::new(device.context(), self.capacity)?),
        };
        inbox.post(stream, elements)?;
        Ok(inbox.address())
    }
}
