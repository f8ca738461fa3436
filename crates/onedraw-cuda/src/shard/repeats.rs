//! What the text of a sequence repeats, which DRY and n-grams ask for: the host's side of
//! `kernels/text/repeat.cuh`, for sequences that do not lie together.
#![allow(unsafe_code)]

use bytemuck::{Pod, Zeroable};
use cudarc::driver::result;

use crate::device::Device;
use crate::error::CudaError;
use crate::memory::Array;
use crate::record::shared::{REPEAT_THREADS, shared_struct};
use crate::stream::Stream;

shared_struct! { "Repeating":
    /// A sequence, and where to note what its text repeats.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
    pub(super) struct Repeating {
        pub sequence: u64,
        pub repeats: u64,
    }
}

shared_struct! { "RepeatStep":
    /// The argument of the kernel.
    #[derive(Clone, Copy, Debug, Pod, Zeroable)]
    struct RepeatStep {
        list: u64,
        vocabulary: u32,
        reserved: u32,
    }
}

/// Memory for what one sequence's text repeats.
#[derive(Debug)]
pub(super) struct Repeats {
    /// A number, then a word for each token of the vocabulary.
    words: Array<u32>,
    /// The sequence and these words, as the kernel reads them.
    list: Array<Repeating>,
    repeating: Repeating,
    vocabulary: usize,
}

impl Repeats {
    /// For the sequence at an address, over rows of `vocabulary` logits.
    pub(super) fn new(device: &Device, sequence: u64, vocabulary: usize) -> Result<Self, CudaError> {
        let words = Array::filled(device.context(), 1 + vocabulary, 0)?;
        let list = Array::uninitialised(device.context(), 1)?;
        let repeating = Repeating { sequence, repeats: words.address() };
        list.write(device.uploads(), 0, &[repeating])?;
        Ok(Self { words, list, repeating, vocabulary })
    }

    /// Where the words lie.
    pub(super) fn address(&self) -> u64 {
        self.words.address()
    }

    /// As an element of a list for [`find`].
    pub(super) fn repeating(&self) -> Repeating {
        self.repeating
    }

    /// Finds what the text repeats now.
    pub(super) fn find(&self, device: &Device, stream: Stream<'_>) -> Result<(), CudaError> {
        // SAFETY: the list has one element, whose words are those of the vocabulary. Both live as long as the
        // sequence, and what replaces them waits for the device.
        unsafe { find(device, stream, self.list.address(), 1, self.vocabulary) }
    }
}

/// Finds what the texts of `count` sequences repeat, in the stream's order.
///
/// # Safety
///
/// At the address lie so many [`Repeating`] whose addresses are device memory until the kernel has run: a
/// sequence, and a word more than there are tokens. No sequence comes twice.
pub(super) unsafe fn find(
    device: &Device,
    stream: Stream<'_>,
    list: u64,
    count: usize,
    vocabulary: usize,
) -> Result<(), CudaError> {
    let mut step = RepeatStep { list, vocabulary: vocabulary as u32, reserved: 0 };
    device.context().bind_to_thread().map_err(CudaError::launch)?;
    let (grid, threads) = ((count as u32, 1, 1), (REPEAT_THREADS, 1, 1));
    let parameters = &mut [(&raw mut step).cast()];
    // SAFETY: the driver copies the argument before it returns. The rest is the caller's promise.
    unsafe { result::launch_kernel(device.repeat_each(), grid, threads, 0, stream.raw(), parameters) }
        .map_err(CudaError::launch)
}
