//! A row of logits in any type, read in place, and the edits laid over it. The row itself is never written.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, mask32x16};
use half::{bf16, f16};

use crate::kernels::lanes::Lanes;
use crate::kernels::logit::Logit;
use crate::noise::BLOCK;

/// The largest vocabulary: 2^20 weights of at most 2^43 sum below 2^64.
pub const MAX_VOCABULARY: usize = 1 << 20;

/// One row of logits: finite or −inf (masked), read where it lies.
#[derive(Clone, Copy, Debug)]
pub enum Row<'a> {
    /// 32-bit floats.
    F32(&'a [f32]),
    /// IEEE half precision, widened exactly.
    F16(&'a [f16]),
    /// bfloat16, widened exactly.
    Bf16(&'a [bf16]),
}

impl<'a> Row<'a> {
    /// The number of logits.
    pub fn len(&self) -> usize {
        match self {
            Row::F32(values) => values.len(),
            Row::F16(values) => values.len(),
            Row::Bf16(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One logit, widened.
    #[inline(always)]
    pub fn get(&self, index: usize) -> f32 {
        match self {
            Row::F32(values) => values[index],
            Row::F16(values) => values[index].to_f32(),
            Row::Bf16(values) => values[index].to_f32(),
        }
    }

    /// The logits `range` of the row.
    pub fn part(&self, range: std::ops::Range<usize>) -> Row<'a> {
        match self {
            Row::F32(values) => Row::F32(&values[range]),
            Row::F16(values) => Row::F16(&values[range]),
            Row::Bf16(values) => Row::Bf16(&values[range]),
        }
    }

    /// Copies `out.len()` logits from `start` on, widened.
    #[inline]
    fn widen(&self, start: usize, out: &mut [f32]) {
        let end = start + out.len();
        match self {
            Row::F32(values) => out.copy_from_slice(&values[start..end]),
            Row::F16(values) => {
                out.iter_mut().zip(&values[start..end]).for_each(|(to, from)| *to = from.to_f32())
            }
            Row::Bf16(values) => {
                out.iter_mut().zip(&values[start..end]).for_each(|(to, from)| *to = from.to_f32())
            }
        }
    }
}

macro_rules! row_from {
    ($($type:ty => $variant:ident),*) => {$(
        impl<'a> From<&'a [$type]> for Row<'a> {
            fn from(values: &'a [$type]) -> Self {
                Row::$variant(values)
            }
        }
        impl<'a> From<&'a Vec<$type>> for Row<'a> {
            fn from(values: &'a Vec<$type>) -> Self {
                Row::$variant(values)
            }
        }
        impl<'a, const N: usize> From<&'a [$type; N]> for Row<'a> {
            fn from(values: &'a [$type; N]) -> Self {
                Row::$variant(values)
            }
        }
    )*};
}
row_from!(f32 => F32, f16 => F16, bf16 => Bf16);

/// Rows of one type in one buffer, `stride` logits apart.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    data: Row<'a>,
    vocabulary: usize,
    stride: usize,
    count: usize,
}

impl<'a> Rows<'a> {
    /// `count` rows of `vocabulary` logits that begin `stride` logits apart, or `None` if `data` is too short for
    /// that or the rows would overlap.
    pub fn new(data: impl Into<Row<'a>>, count: usize, vocabulary: usize, stride: usize) -> Option<Self> {
        let data = data.into();
        let needed = match count {
            0 => 0,
            _ => stride.checked_mul(count - 1)?.checked_add(vocabulary)?,
        };
        (stride >= vocabulary && needed <= data.len()).then_some(Self { data, vocabulary, stride, count })
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of logits in a row.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Row `index`.
    ///
    /// # Panics
    /// If `index` is not below [`Rows::len`].
    pub fn row(&self, index: usize) -> Row<'a> {
        assert!(index < self.count, "row {index} of {}", self.count);
        let start = index * self.stride;
        self.data.part(start..start + self.vocabulary)
    }

    /// The rows, first to last.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Row<'a>> + '_ {
        (0..self.count).map(|index| self.row(index))
    }
}

/// The edits laid over a row, a word of 64 bits a block. Kept between steps so that a step allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    /// Lanes that hold a token which is not masked.
    alive: Vec<u64>,
    /// Lanes whose logit is in `values` rather than in the row.
    edited: Vec<u64>,
    /// Logits by lane, valid where `edited`.
    values: Vec<f32>,
    /// The start and the length of a span for which nothing was masked or edited since the reset: the next one has nothing to do.
    clean_for: Option<(usize, usize)>,
}

/// The tokens `start..start + row.len()` of a vocabulary, as the edits so far left them.
///
/// Blocks are those of the whole vocabulary, so a part that begins or ends inside a block holds some lanes only; the
/// others are dead. Blocks are counted from the part's first.
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
    fn held(&self, block: usize) -> (std::ops::Range<usize>, usize) {
        let first = (self.first_block() + block) * BLOCK;
        let from = first.max(self.start);
        let to = (first + BLOCK).min(self.start + self.row.len());
        (from - first..to - first, from - self.start)
    }

    /// The block and lane of a token, if this part holds it.
    #[inline(always)]
    pub(crate) fn place(&self, token: u32) -> Option<(usize, usize)> {
        let id = token as usize;
        (id.wrapping_sub(self.start) < self.row.len()).then(|| (id / BLOCK - self.first_block(), id % BLOCK))
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
        let (a, b, c, d) = T::load(simd, lanes);
        a.store_slice(&mut buffer[..16]);
        b.store_slice(&mut buffer[16..32]);
        c.store_slice(&mut buffer[32..48]);
        d.store_slice(&mut buffer[48..]);
    }
    buffer
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

    /// Lanes that hold a token which is not masked, a word a block.
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

    #[test]
    fn rows_lie_a_stride_apart() {
        let data: Vec<f32> = (0..10).map(|i| i as f32).collect();
        let rows = Rows::new(&data, 3, 2, 4).expect("2 + 2·4 = 10 logits");
        assert_eq!((0..3).map(|i| rows.row(i).get(1)).collect::<Vec<_>>(), [1.0, 5.0, 9.0]);
        assert!(Rows::new(&data, 3, 3, 4).is_none(), "needs 11");
        assert!(Rows::new(&data, 2, 4, 3).is_none(), "would overlap");
        assert!(Rows::new(&data, usize::MAX, 4, 4).is_none());
    }

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
