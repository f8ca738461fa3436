//! What the device has still to be told. It is sent in the order of the stream that uses it next, and nobody waits.

use std::collections::VecDeque;

use onedraw::slots::SequenceId;

use crate::device::Device;
use crate::error::CudaError;
use crate::memory::{Block, Inbox, Staging};
use crate::record::layout::{Revision, Sequence};

/// Copies and changes that the device does not have yet. Copies come first.
#[derive(Debug)]
pub(super) struct Pending {
    /// Bytes, and where they go.
    pub(super) copies: VecDeque<(u64, Vec<u8>)>,
    /// The sequences that are changed, each once.
    pub(super) changed: Vec<SequenceId>,
    /// Memory that is free once the changes are launched.
    pub(super) released: Vec<Block>,
    pub(super) staging: Staging,
    pub(super) list: Inbox<Revision>,
}

impl Pending {
    pub(super) fn new(device: &Device, sequences: usize) -> Result<Self, CudaError> {
        Ok(Self {
            copies: VecDeque::new(),
            changed: Vec::new(),
            released: Vec::new(),
            staging: Staging::new(device.context(), size_of::<Sequence>())?,
            list: Inbox::new(device.context(), sequences)?,
        })
    }

    /// Copies elements to an address that stays memory of the device until then.
    pub(super) fn copy<T: bytemuck::Pod>(&mut self, address: u64, elements: &[T]) {
        self.copies.push_back((address, bytemuck::cast_slice(elements).to_vec()));
    }

    /// Gives memory back after the next changes.
    pub(super) fn release(&mut self, block: Block) {
        self.released.push(block);
    }
}
