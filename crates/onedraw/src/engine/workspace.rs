//! The memory of a draw, kept from step to step so that a step allocates nothing.

use crate::engine::draw::DrawMemory;
use crate::engine::local::ShardMemory;
use crate::engine::split::{Shards, Traffic};
use crate::kernels::Kernel;
use crate::kernels::passes::Passes;
use crate::kernels::row::Row;
use crate::numeric::float_mode::Standard;

/// The memory that one draw needs at a time, and the split of the vocabulary that it serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct Workspace {
    pub shards: Shards,
    /// One for each shard.
    pub memory: Vec<ShardMemory>,
    pub draw: DrawMemory,
    /// What the last draw over several shards sent.
    pub traffic: Traffic,
}

impl Workspace {
    pub(crate) fn new(shards: Shards, kernel: Kernel) -> Self {
        let memory = vec![ShardMemory::default(); shards.count()];
        let mut workspace = Self { shards, memory, ..Self::default() };
        workspace.use_kernel(kernel);
        workspace
    }

    /// Fresh memory for another split, with the same passes.
    pub(crate) fn split(&self, shards: Shards) -> Self {
        let mut workspace = Self::new(shards, Kernel::Auto);
        workspace.draw.passes = self.draw.passes;
        workspace
    }

    /// The first token of an unmodified, unsplit row, where one look at it can tell.
    pub(crate) fn first(&self, row: Row<'_>) -> Option<u32> {
        let _mode = Standard::enter();
        if self.shards.count() > 1 { None } else { self.draw.passes.first(row).map(|place| place as u32) }
    }

    pub(crate) fn use_kernel(&mut self, kernel: Kernel) {
        self.draw.passes = Passes::of(kernel).unwrap_or_default();
    }
}
