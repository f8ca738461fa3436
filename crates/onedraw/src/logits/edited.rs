//! A part of a row as the edits so far left it, with its skyline: what edits write and everything else reads.

use crate::kernels::bend::Bend;
use crate::kernels::block::at_least;
use crate::kernels::lanes::Lanes;
use crate::kernels::logit::Logit;
use crate::kernels::passes::{Passes, vectorized};
use crate::logits::block::up_to;
use crate::logits::overlay::Overlay;
use crate::logits::skyline::Skyline;
use crate::logits::span::Span;
use crate::numeric::key::Key;
use crate::numeric::math::saturated;
use crate::numeric::noise::BLOCK;
use crate::numeric::temperature::Temperature;

pub use crate::logits::skyline::BadLogit;

/// The memory of an edited row, kept from step to step so that a step allocates nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct EditedMemory {
    overlay: Overlay,
    skyline: Skyline,
    /// The bits of a list of ids, 64 to a word.
    listed: Vec<u64>,
}

/// The tokens of a span. The row is never written: edits lie over it.
pub(crate) struct EditedRow<'a> {
    pub span: Span<'a>,
    pub passes: Passes,
    pub memory: &'a mut EditedMemory,
}

impl EditedRow<'_> {
    /// The row without edits. The skyline comes with [`EditedRow::scan`].
    pub(crate) fn reset(&mut self) {
        self.memory.overlay.reset(&self.span);
    }

    /// Whether nothing was edited or masked since the reset.
    pub(crate) fn is_clean(&self) -> bool {
        self.memory.overlay.is_clean()
    }

    /// Whether every logit is that of the row, in spite of masks and edits.
    pub(crate) fn is_raw(&self) -> bool {
        self.is_clean() || self.memory.overlay.changes_nothing(&self.span)
    }

    /// Reads the row once: the skyline of what is alive, or the lowest bad logit.
    pub(crate) fn scan(&mut self) -> Result<(), BadLogit> {
        self.memory.skyline.scan(self.passes, &self.span, &self.memory.overlay)
    }

    /// Sets the bits of a list of ids.
    fn list(&mut self, ids: &[u32]) {
        let EditedMemory { overlay, listed, .. } = &mut *self.memory;
        listed.clear();
        listed.resize(overlay.alive().len(), 0);
        for (block, lane) in ids.iter().filter_map(|&id| self.span.place(id)) {
            listed[block] |= 1 << lane;
        }
    }

    /// Masks every token that is not listed.
    pub(crate) fn keep_listed(&mut self, ids: &[u32]) {
        self.list(ids);
        let EditedMemory { overlay, listed, .. } = &mut *self.memory;
        overlay.alive_mut().iter_mut().zip(listed).for_each(|(alive, listed)| *alive &= *listed);
    }

    /// Masks every token whose bit is not set: 32 tokens to a word, lowest bit first.
    pub(crate) fn keep_masked(&mut self, mask: &[u32]) {
        for (block, alive) in self.memory.overlay.alive_mut().iter_mut().enumerate() {
            let word = (self.span.first_block() + block) * BLOCK / 32;
            let half = |i: usize| mask.get(i).map_or(0, |&bits| u64::from(bits));
            *alive &= half(word) | half(word + 1) << 32;
        }
    }

    /// Changes the logit of a token, if it is held here and alive.
    #[inline(always)]
    pub(crate) fn edit(&mut self, token: u32, change: impl FnOnce(f32) -> f32) {
        let Some((block, lane)) = self.span.place(token) else { return };
        let old = self.memory.overlay.get(&self.span, block, lane);
        self.replace(token, old, saturated(change(old)));
    }

    /// Gives a token whose logit is `old` the finite logit `new`. Nothing happens where `old` is −inf: the
    /// token is masked, or another part holds it.
    #[inline(always)]
    pub(crate) fn replace(&mut self, token: u32, old: f32, new: f32) {
        if old == f32::NEG_INFINITY {
            return;
        }
        let (block, lane) = self.span.block_and_lane(token);
        let EditedMemory { overlay, skyline, .. } = &mut *self.memory;
        overlay.set(block, lane, new);
        let maximum = skyline.maxima[block];
        if new >= maximum || old >= maximum {
            skyline.changed(block, old, new);
        }
    }

    /// Masks a token, if it is held here.
    pub(crate) fn mask(&mut self, token: u32) {
        let Some((block, lane)) = self.span.place(token) else { return };
        let old = self.memory.overlay.get(&self.span, block, lane);
        self.memory.overlay.mask(block, lane);
        self.memory.skyline.changed(block, old, f32::NEG_INFINITY);
    }

    /// Makes the skyline exact again after edits of single tokens.
    pub(crate) fn repair(&mut self) {
        self.memory.skyline.repair(self.passes, &self.span, &self.memory.overlay);
    }

    /// Makes the skyline exact again after anything.
    pub(crate) fn rebuild(&mut self) {
        self.memory.skyline.rebuild(self.passes, &self.span, &self.memory.overlay);
    }

    /// Masks the tokens up to `head` that `protected` does not list, and makes the skyline exact again.
    pub(crate) fn behead(&mut self, head: Key, protected: &[u32]) {
        let mut buffer = [0.0; BLOCK];
        self.list(protected);
        for block in 0..self.span.blocks() {
            if self.earliest(block, self.memory.skyline.maxima[block]) > head {
                continue;
            }
            let first = self.span.token(block, 0);
            let mut going = vectorized!(self.passes, simd => {
                up_to(simd, self.lanes_by(simd, block, &mut buffer), first, head)
            }) & !self.memory.listed[block];
            while going != 0 {
                let lane = going.trailing_zeros();
                going &= going - 1;
                self.mask(first + lane);
            }
        }
        self.repair();
    }

    /// Bends every logit that is alive. A bend never reorders, so the block maxima are bent in the same way.
    pub(crate) fn bend(&mut self, bend: &Bend, x_max: f32) {
        let mut buffer = [0.0; BLOCK];
        let EditedMemory { overlay, skyline, .. } = &mut *self.memory;
        for block in 0..self.span.blocks() {
            if skyline.maxima[block] == f32::NEG_INFINITY {
                continue;
            }
            let mut bent = [0.0; BLOCK];
            let alive = vectorized!(self.passes, simd => {
                let lanes = overlay.lanes(simd, &self.span, block, &mut buffer);
                bend.of_block(simd, lanes, x_max, &mut bent);
                at_least(f32::load(simd, lanes), -f32::MAX)
            });
            overlay.set_block(block, alive, &bent);
            skyline.maxima[block] = bend.of(skyline.maxima[block], x_max);
        }
    }

    /// Masks the tokens after `last`, and makes the temperature part of the logits of the others. The skyline
    /// is out of date afterwards, until [`EditedRow::rebuild`].
    pub(crate) fn keep_up_to(&mut self, last: Key, temperature: Temperature) {
        let mut buffer = [0.0; BLOCK];
        let EditedMemory { overlay, skyline, .. } = &mut *self.memory;
        for block in 0..self.span.blocks() {
            if skyline.maxima[block] < last.logit() {
                overlay.alive_mut()[block] = 0;
                continue;
            }
            let lanes =
                *vectorized!(self.passes, simd => overlay.lanes(simd, &self.span, block, &mut buffer));
            for (lane, &x) in lanes.iter().enumerate() {
                if Key::new(x, self.span.token(block, lane)) > last {
                    overlay.mask(block, lane);
                } else if temperature != Temperature::ONE {
                    overlay.set(block, lane, temperature.divide(x));
                }
            }
        }
    }

    /// Whether every token is masked. Exact after [`EditedRow::keep_up_to`], which masks tokens of −inf too.
    pub(crate) fn is_empty(&self) -> bool {
        self.memory.overlay.alive().iter().all(|&alive| alive == 0)
    }

    /// The largest logit of every block; −inf for a block with nothing alive.
    pub(crate) fn maxima(&self) -> &[f32] {
        &self.memory.skyline.maxima
    }

    /// The 64 current logits of a block; −inf where dead.
    pub(crate) fn lanes<'b>(&'b self, block: usize, buffer: &'b mut [f32; BLOCK]) -> &'b [f32; BLOCK] {
        vectorized!(self.passes, simd => self.lanes_by(simd, block, buffer))
    }

    /// [`EditedRow::lanes`] for use inside a pass.
    #[inline(always)]
    pub(crate) fn lanes_by<'b, S: Lanes>(
        &'b self,
        simd: S,
        block: usize,
        buffer: &'b mut [f32; BLOCK],
    ) -> &'b [f32; BLOCK] {
        self.memory.overlay.lanes(simd, &self.span, block, buffer)
    }

    /// The current logit of a token, if it is held here; −inf if it is masked.
    #[inline(always)]
    pub(crate) fn logit(&self, token: u32) -> Option<f32> {
        let (block, lane) = self.span.place(token)?;
        Some(self.memory.overlay.get(&self.span, block, lane))
    }

    /// The first token of the order, if any is alive.
    pub(crate) fn first(&self) -> Option<Key> {
        let x_max = self.passes.highest(self.maxima());
        if x_max == f32::NEG_INFINITY {
            return None;
        }
        let mut buffer = [0.0; BLOCK];
        let block = self.passes.position(self.maxima(), x_max)?;
        let lane = self.lanes(block, &mut buffer).iter().position(|&x| x == x_max)?;
        Some(Key::new(x_max, self.span.token(block, lane)))
    }

    /// No token of the block, whose largest logit is `maximum`, comes before this place in the order. The
    /// place contains the block's first id, so that blocks with equal maxima are told apart and rows of ties
    /// are pruned as others are.
    #[inline]
    pub(crate) fn earliest(&self, block: usize, maximum: f32) -> Key {
        Key::new(maximum, self.span.token(block, 0))
    }
}
