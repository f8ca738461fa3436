//! Memory of the device that is used again.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::driver::CudaContext;

use super::Array;
use crate::error::CudaError;

/// Bytes of the smallest block.
const SMALLEST: usize = 256;
/// Bytes of the first slab, and of the largest that is asked for while blocks are smaller. Each is twice the one
/// before.
const FIRST_SLAB: usize = 1 << 20;
const LARGEST_SLAB: usize = 64 << 20;

/// Memory in blocks of a few sizes. A block that is given back is used again by the next one of its size; nothing is
/// freed before the pool is, because freeing waits for the device. So memory is allocated only if more is in use than
/// ever before, and then for many blocks at once.
///
/// A block may be given back while launches that read it have not ended: whoever takes it next writes it in the order
/// of the same stream.
#[derive(Debug)]
pub(crate) struct Pool {
    context: Arc<CudaContext>,
    slabs: Vec<Array<u64>>,
    /// What is left of the last slab: its address and bytes.
    rest: (u64, usize),
    /// The addresses of blocks that were given back, by their bytes.
    free: BTreeMap<usize, Vec<u64>>,
}

/// Memory of a pool.
#[derive(Debug)]
pub(crate) struct Block {
    pub address: u64,
    pub bytes: usize,
}

impl Pool {
    pub(crate) fn new(context: &Arc<CudaContext>) -> Self {
        Self { context: context.clone(), slabs: Vec::new(), rest: (0, 0), free: BTreeMap::new() }
    }

    /// The bytes of a block with room for so many: one of four sizes from one power of two to the next.
    pub(crate) fn size(bytes: usize) -> usize {
        let bytes = bytes.max(SMALLEST);
        let step = bytes.checked_next_power_of_two().map_or(bytes, |power| power / 8);
        bytes.checked_next_multiple_of(step.max(SMALLEST)).unwrap_or(bytes)
    }

    /// A block with room for so many bytes, which hold anything.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<Block, CudaError> {
        let bytes = Self::size(bytes);
        if let Some(address) = self.free.get_mut(&bytes).and_then(Vec::pop) {
            return Ok(Block { address, bytes });
        }
        if self.rest.1 < bytes {
            let slab = match self.slab(bytes) {
                Ok(slab) => slab,
                // A larger block is better than none.
                Err(error) => return self.larger(bytes).ok_or(error),
            };
            self.rest = (slab.address(), slab.len() * size_of::<u64>());
            self.slabs.push(slab);
        }
        let address = self.rest.0;
        self.rest = (address + bytes as u64, self.rest.1 - bytes);
        Ok(Block { address, bytes })
    }

    /// A block for each number of bytes, or none at all.
    pub(crate) fn take_all<const N: usize>(
        &mut self,
        bytes: [Option<usize>; N],
    ) -> Result<[Option<Block>; N], CudaError> {
        let mut blocks = [const { None }; N];
        for i in 0..N {
            let Some(bytes) = bytes[i] else { continue };
            match self.take(bytes) {
                Ok(block) => blocks[i] = Some(block),
                Err(error) => {
                    blocks.into_iter().flatten().for_each(|block| self.give(block));
                    return Err(error);
                }
            }
        }
        Ok(blocks)
    }

    /// A block of more bytes that was given back.
    fn larger(&mut self, bytes: usize) -> Option<Block> {
        let (&bytes, addresses) =
            self.free.range_mut(bytes..).find(|(_, addresses)| !addresses.is_empty())?;
        addresses.pop().map(|address| Block { address, bytes })
    }

    /// Gives a block back.
    pub(crate) fn give(&mut self, block: Block) {
        self.free.entry(block.bytes).or_default().push(block.address);
    }

    /// Memory for a block of so many bytes, and for more if the device has it.
    fn slab(&self, bytes: usize) -> Result<Array<u64>, CudaError> {
        let last = self.slabs.last().map_or(FIRST_SLAB / 2, |slab| slab.len() * size_of::<u64>());
        let wanted = bytes.max((2 * last).min(LARGEST_SLAB));
        let allocate = |bytes: usize| Array::uninitialised(&self.context, bytes.div_ceil(size_of::<u64>()));
        match allocate(wanted) {
            Err(_) if wanted > bytes => allocate(bytes),
            slab => slab,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_few_sizes() {
        assert_eq!(
            [0, 1, 256, 257, 4096, 4097, 5121].map(Pool::size),
            [256, 256, 256, 512, 4096, 5120, 6144]
        );
        let sizes: std::collections::BTreeSet<_> = (1 << 20..=1 << 21).map(Pool::size).collect();
        assert_eq!(sizes.into_iter().map(|size| size >> 18).collect::<Vec<_>>(), [4, 5, 6, 7, 8]);
        assert_eq!(Pool::size(usize::MAX), usize::MAX, "which nobody can allocate");
    }
}
