//! The part of a vocabulary that one process holds, in blocks of the whole vocabulary.

use crate::kernels::block::store;
use crate::kernels::lanes::Lanes;
use crate::kernels::logit::Logit;
use crate::kernels::row::Row;
use crate::numeric::noise::BLOCK;

/// The tokens `start..start + row.len()` of a vocabulary, as the edits so far left them.
///
/// Blocks are those of the whole vocabulary, so a part that begins or ends inside a block holds some lanes
/// only; the others are dead. Blocks are counted from the part's first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    pub row: Row<'a>,
    /// The id of the first logit.
    pub start: usize,
}

impl Span<'_> {
    pub(crate) fn first_block(&self) -> usize {
        self.start / BLOCK
    }

    pub(crate) fn blocks(&self) -> usize {
        if self.row.is_empty() {
            0
        } else {
            (self.start + self.row.len()).div_ceil(BLOCK) - self.first_block()
        }
    }

    /// The lanes of a block that this part holds, as a range of lanes and the index of the first in the row.
    #[inline]
    pub(crate) fn held(&self, block: usize) -> (std::ops::Range<usize>, usize) {
        let first = (self.first_block() + block) * BLOCK;
        let from = first.max(self.start);
        let to = (first + BLOCK).min(self.start + self.row.len());
        (from - first..to - first, from - self.start)
    }

    /// The block and lane of a token, if this part holds it.
    #[inline(always)]
    pub(crate) fn place(&self, token: u32) -> Option<(usize, usize)> {
        let is_held = (token as usize).wrapping_sub(self.start) < self.row.len();
        is_held.then(|| self.block_and_lane(token))
    }

    /// The block and lane of a token that this part holds.
    #[inline(always)]
    pub(crate) fn block_and_lane(&self, token: u32) -> (usize, usize) {
        let id = token as usize;
        (id / BLOCK - self.first_block(), id % BLOCK)
    }

    /// The id of a lane.
    #[inline]
    pub(crate) fn token(&self, block: usize, lane: usize) -> u32 {
        ((self.first_block() + block) * BLOCK + lane) as u32
    }

    /// The logits of all blocks that this part holds whole, and the first such block.
    pub(crate) fn whole_blocks(&self) -> (Row<'_>, usize) {
        let first = usize::from(!self.start.is_multiple_of(BLOCK));
        let skipped = (first * BLOCK - first * (self.start % BLOCK)).min(self.row.len());
        let whole = (self.row.len() - skipped) / BLOCK * BLOCK;
        (self.row.part(skipped..skipped + whole), if whole == 0 { 0 } else { first })
    }

    /// The 64 logits of a block as they are in the row; −inf where the part holds none.
    #[inline(always)]
    pub(crate) fn raw<'b, S: Lanes>(
        &'b self,
        simd: S,
        block: usize,
        buffer: &'b mut [f32; BLOCK],
    ) -> &'b [f32; BLOCK] {
        let (lanes, index) = self.held(block);
        if lanes.len() < BLOCK {
            buffer.fill(f32::NEG_INFINITY);
            self.row.widen(index, &mut buffer[lanes]);
            return buffer;
        }
        match self.row {
            Row::F32(values) => match values[index..].first_chunk() {
                Some(whole) => whole,
                None => buffer,
            },
            Row::F16(values) => widened(simd, &values[index..], buffer),
            Row::Bf16(values) => widened(simd, &values[index..], buffer),
        }
    }
}

/// The first 64 logits.
#[inline(always)]
fn widened<'b, S: Lanes, T: Logit>(simd: S, values: &[T], buffer: &'b mut [f32; BLOCK]) -> &'b [f32; BLOCK] {
    if let Some(lanes) = values.first_chunk() {
        store(T::load(simd, lanes), buffer);
    }
    buffer
}
