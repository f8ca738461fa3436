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
}

impl Workspace {
    pub(crate) fn new(shards: Shards, kernel: Kernel) -> Self {
        let mut workspace =
            Self { slices: vec![SliceMemory::default(); shards.ranks()], shards, ..Self::default() };
        workspace.use_kernel(kernel);
        workspace
    }

    /// Fresh memory for another split, with the same passes.
    pub(crate) fn split(&self, shards: Shards) -> Self {
        let mut workspace = Self::new(shards, Kernel::Auto);
        workspace.draw.passes = self.draw.passes;
        workspace
    }

    /// The first token of an unsplit row as it came, where one look can tell.
    pub(crate) fn first(&self, row: Row<'_>) -> Option<u32> {
        let _mode = Standard::enter();
        if self.shards.ranks() > 1 { None } else { self.draw.passes.first(row).map(|place| place as u32) }
    }

    pub(crate) fn use_kernel(&mut self, kernel: Kernel) {
        self.draw.passes = Passes::of(kernel).unwrap_or_default();
    }
}
