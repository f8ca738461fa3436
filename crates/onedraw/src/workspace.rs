//! The memory of a draw, kept from step to step so that a step allocates nothing.

use crate::draw::DrawMemory;
use crate::float_mode::Standard;
use crate::kernels::Kernel;
use crate::kernels::passes::Passes;
use crate::question::Reply;
use crate::row::Row;
use crate::shard::{Shards, Traffic};
use crate::slice::SliceMemory;

/// The memory one draw needs at a time, and the split of the vocabulary it serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workspace {
    pub shards: Shards,
    pub slices: Vec<SliceMemory>,
    pub draw: DrawMemory,
    /// The answer of one rank, before it is merged.
    pub partial: Reply,
    /// What the last draw over several ranks sent.
    pub traffic: Traffic,
    pub passes: Passes,
}

impl Workspace {
    pub(crate) fn new(shards: Shards, kernel: Kernel) -> Self {
        let passes = Passes::of(kernel).unwrap_or_default();
        Self { slices: vec![SliceMemory::default(); shards.ranks()], shards, passes, ..Self::default() }
    }

    /// Fresh memory for another split, with the same passes.
    pub(crate) fn split(&self, shards: Shards) -> Self {
        Self { passes: self.passes, ..Self::new(shards, Kernel::Auto) }
    }

    /// The first token of an unsplit row as it came, where one look can tell.
    pub(crate) fn first(&self, row: Row<'_>) -> Option<u32> {
        let _mode = Standard::enter();
        if self.shards.ranks() > 1 { None } else { self.passes.first(row).map(|place| place as u32) }
    }

    pub(crate) fn use_kernel(&mut self, kernel: Kernel) {
        self.passes = Passes::of(kernel).unwrap_or_default();
    }
}
