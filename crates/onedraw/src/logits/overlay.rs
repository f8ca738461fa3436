//! The edits laid over a row. The row itself is never written.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, mask32x16};

use crate::kernels::lanes::Lanes;
use crate::logits::span::Span;
use crate::numeric::noise::BLOCK;

/// The edits laid over a row, a word of 64 bits per block. Kept between steps so that a step allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    /// Lanes that hold a token which is not masked.
    alive: Vec<u64>,
    /// Lanes whose logit is in `values` rather than in the row.
    edited: Vec<u64>,
    /// Logits by lane, valid where `edited`.
    values: Vec<f32>,
    /// The start and the length of a span for which nothing was masked or edited since the reset: the next
    /// one has nothing to do.
    clean_for: Option<(usize, usize)>,
}

impl Overlay {
    /// No edits, no masks.
    pub(crate) fn reset(&mut self, span: &Span<'_>) {
        let shape = Some((span.start, span.row.len()));
        if self.clean_for == shape {
            return;
        }
        self.clean_for = shape;
        let blocks = span.blocks();
        self.alive.clear();
        self.alive.resize(blocks, u64::MAX);
        self.edited.clear();
        self.edited.resize(blocks, 0);
        self.values.resize(blocks * BLOCK, 0.0);
        for block in [0, blocks.wrapping_sub(1)] {
            if block < blocks {
                let (lanes, _) = span.held(block);
                self.alive[block] = u64::MAX >> (BLOCK - lanes.len()) << lanes.start;
            }
        }
    }

    /// The 64 current logits of a block; −inf where dead.
    #[inline(always)]
    pub(crate) fn lanes<'b, S: Lanes>(
        &'b self,
        simd: S,
        span: &'b Span<'_>,
        block: usize,
        buffer: &'b mut [f32; BLOCK],
    ) -> &'b [f32; BLOCK] {
        let (alive, edited) = (self.alive[block], self.edited[block]);
        if alive == u64::MAX && edited == 0 {
            return span.raw(simd, block, buffer);
        }
        let mut copy = [0.0; BLOCK];
        let raw = span.raw(simd, block, &mut copy);
        let values = &self.values[block * BLOCK..][..BLOCK];
        let dead = f32x16::splat(simd, f32::NEG_INFINITY);
        for i in 0..BLOCK / 16 {
            let mask = |bits: u64| mask32x16::from_bitmask(simd, bits >> (16 * i) & 0xffff);
            let load = |logits: &[f32]| f32x16::from_slice(simd, &logits[16 * i..16 * i + 16]);
            let current = mask(edited).select(load(values), load(raw));
            mask(alive).select(current, dead).store_slice(&mut buffer[16 * i..16 * i + 16]);
        }
        buffer
    }

    /// The current logit of a lane that the span holds; −inf where dead.
    #[inline(always)]
    pub(crate) fn get(&self, span: &Span<'_>, block: usize, lane: usize) -> f32 {
        let (alive, edited) = (self.alive[block], self.edited[block]);
        if (alive & !edited) >> lane & 1 == 1 {
            span.row.get((span.first_block() + block) * BLOCK + lane - span.start)
        } else if alive >> lane & 1 == 1 {
            self.values[block * BLOCK + lane]
        } else {
            f32::NEG_INFINITY
        }
    }

    /// Whether nothing was masked or edited since the reset.
    pub(crate) fn is_clean(&self) -> bool {
        self.clean_for.is_some()
    }

    /// Whether every logit is that of the row.
    pub(crate) fn changes_nothing(&self, span: &Span<'_>) -> bool {
        (0..span.blocks()).all(|block| {
            let (lanes, index) = span.held(block);
            let is_same = |lane: usize| {
                let is_touched = (!self.alive[block] | self.edited[block]) >> lane & 1 == 1;
                !is_touched || self.get(span, block, lane) == span.row.get(index + lane - lanes.start)
            };
            lanes.clone().all(is_same)
        })
    }

    /// Lanes that hold a token which is not masked, a word per block.
    pub(crate) fn alive(&self) -> &[u64] {
        &self.alive
    }

    /// As [`Overlay::alive`], to mask tokens by whole blocks.
    pub(crate) fn alive_mut(&mut self) -> &mut [u64] {
        self.clean_for = None;
        &mut self.alive
    }

    #[inline(always)]
    pub(crate) fn set(&mut self, block: usize, lane: usize, logit: f32) {
        self.clean_for = None;
        self.edited[block] |= 1 << lane;
        self.values[block * BLOCK + lane] = logit;
    }

    /// Gives the lanes whose bit is set new logits; the others of the block are dead.
    pub(crate) fn set_block(&mut self, block: usize, lanes: u64, logits: &[f32; BLOCK]) {
        self.clean_for = None;
        self.edited[block] |= lanes;
        self.values[block * BLOCK..][..BLOCK].copy_from_slice(logits);
    }

    #[inline]
    pub(crate) fn mask(&mut self, block: usize, lane: usize) {
        self.clean_for = None;
        self.alive[block] &= !(1 << lane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::lanes::baseline;
    use crate::kernels::row::Row;

    #[test]
    fn a_part_keeps_the_blocks_of_the_whole() {
        let row: Vec<f32> = (0..200).map(|i| i as f32).collect();
        let span = Span { row: Row::from(&row).part(70..150), start: 70 };
        assert_eq!((span.first_block(), span.blocks()), (1, 2));
        assert_eq!(span.place(69), None);
        assert_eq!(span.place(70), Some((0, 6)));
        assert_eq!(span.place(149), Some((1, 21)));
        assert_eq!(span.place(150), None);
        let mut overlay = Overlay::default();
        overlay.reset(&span);
        assert_eq!(overlay.alive(), [u64::MAX << 6, u64::MAX >> 42]);
        let mut buffer = [0.0; BLOCK];
        let lanes = overlay.lanes(baseline(), &span, 0, &mut buffer);
        assert_eq!((lanes[5], lanes[6], lanes[63]), (f32::NEG_INFINITY, 70.0, 127.0));
        overlay.set(1, 3, -5.0);
        overlay.mask(1, 4);
        let lanes = overlay.lanes(baseline(), &span, 1, &mut buffer);
        assert_eq!(lanes[2..6], [130.0, -5.0, f32::NEG_INFINITY, 133.0]);
        assert_eq!(overlay.get(&span, 1, 3), -5.0);
        assert_eq!(overlay.get(&span, 1, 4), f32::NEG_INFINITY);
        assert_eq!(overlay.get(&span, 0, 6), 70.0);
        assert_eq!(span.token(1, 4), 132);
        assert!(!overlay.changes_nothing(&span));
        overlay.reset(&span);
        overlay.set(1, 3, 131.0);
        assert!(overlay.changes_nothing(&span) && !overlay.is_clean());
        overlay.mask(0, 63);
        assert!(!overlay.changes_nothing(&span));
        let whole_blocks = |span: &Span<'_>| match span.whole_blocks() {
            (Row::F32(values), first) => (values.to_vec(), first),
            other => panic!("{other:?}"),
        };
        assert_eq!(whole_blocks(&span), (vec![], 0));
        let span = Span { row: Row::from(&row).part(60..200), start: 60 };
        assert_eq!((span.blocks(), whole_blocks(&span)), (4, (row[64..192].to_vec(), 1)));
        let span = Span { row: Row::from(&row).part(0..64), start: 64 };
        assert_eq!(whole_blocks(&span), (row[..64].to_vec(), 0));
    }
}
