//! The skyline: the largest logit of every block of 64, from one pass over the row.
//!
//! Everything after it opens only the blocks that could change its answer, so the skyline must be exact. A
//! raised logit lifts its block's maximum at once. A block whose largest logit was lowered or masked is only
//! marked as stale, and scanned again by [`Skyline::repair`] before anything reads the skyline.

use crate::kernels::lanes::Lanes;
use crate::kernels::passes::{Passes, vectorized};
use crate::kernels::skyline::maximum;
use crate::logits::overlay::Overlay;
use crate::logits::span::Span;
use crate::numeric::noise::BLOCK;

/// What makes a row unusable: its lowest logit that is NaN or +inf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadLogit {
    /// The id.
    pub token: u32,
    /// NaN; otherwise +inf.
    pub is_nan: bool,
}

/// Block maxima; −inf for a block with no token alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Skyline {
    pub maxima: Vec<f32>,
    /// Blocks whose maximum may be too high, each once.
    stale: Vec<usize>,
    is_stale: Vec<bool>,
}

impl Skyline {
    /// One pass over the row. NaN and +inf are errors, masked or not; the lowest bad id decides.
    pub(crate) fn scan(
        &mut self,
        passes: Passes,
        span: &Span<'_>,
        overlay: &Overlay,
    ) -> Result<(), BadLogit> {
        self.clear(span.blocks());
        // Every one is overwritten.
        self.maxima.resize(span.blocks(), f32::NEG_INFINITY);
        let (whole, first) = span.whole_blocks();
        let blocks = first..first + whole.len() / BLOCK;
        let is_sound = passes.maxima(whole, &mut self.maxima[blocks.clone()]);
        let scan_again = |maxima: &mut [f32], block: usize| vectorized!(passes, simd => scan_block(simd, span, overlay, block, &mut maxima[block]));
        if is_sound && overlay.is_clean() {
            // The pass above read the whole blocks; what is left are blocks of which the span holds only a
            // part.
            return (0..blocks.start)
                .chain(blocks.end..span.blocks())
                .try_for_each(|block| scan_again(&mut self.maxima, block));
        }
        for block in 0..span.blocks() {
            if !(is_sound && overlay.alive()[block] == u64::MAX && blocks.contains(&block)) {
                scan_again(&mut self.maxima, block)?;
            }
        }
        Ok(())
    }

    /// The maxima of an edited row, from the blocks that hold anything.
    pub(crate) fn rebuild(&mut self, passes: Passes, span: &Span<'_>, overlay: &Overlay) {
        self.clear(span.blocks());
        self.maxima.resize(span.blocks(), f32::NEG_INFINITY);
        let mut buffer = [0.0; BLOCK];
        vectorized!(passes, simd => for (block, to) in self.maxima.iter_mut().enumerate() {
            *to = match overlay.alive()[block] {
                0 => f32::NEG_INFINITY,
                _ => maximum(simd, overlay.lanes(simd, span, block, &mut buffer)),
            };
        });
    }

    fn clear(&mut self, blocks: usize) {
        self.stale.clear();
        self.stale.reserve(blocks);
        self.is_stale.clear();
        self.is_stale.resize(blocks, false);
    }

    /// A logit of the block went from `old` to `new` (−inf: masked).
    #[inline(never)]
    pub(crate) fn changed(&mut self, block: usize, old: f32, new: f32) {
        if new >= self.maxima[block] {
            self.maxima[block] = new;
        } else if old >= self.maxima[block] && !self.is_stale[block] {
            self.is_stale[block] = true;
            self.stale.push(block);
        }
    }

    /// Scans the blocks again whose maximum may be too high.
    pub(crate) fn repair(&mut self, passes: Passes, span: &Span<'_>, overlay: &Overlay) {
        let mut buffer = [0.0; BLOCK];
        vectorized!(passes, simd => for block in self.stale.drain(..) {
            self.is_stale[block] = false;
            self.maxima[block] = maximum(simd, overlay.lanes(simd, span, block, &mut buffer));
        });
    }
}

/// The largest logit alive, or what is wrong with the row.
#[inline(always)]
fn scan_block<S: Lanes>(
    simd: S,
    span: &Span<'_>,
    overlay: &Overlay,
    block: usize,
    to: &mut f32,
) -> Result<(), BadLogit> {
    let mut buffer = [0.0; BLOCK];
    let lanes = span.raw(simd, block, &mut buffer);
    if !lanes.iter().all(|&x| x < f32::INFINITY) {
        return Err(first_bad(span, block, lanes));
    }
    // Nothing is edited yet.
    let mut buffer = [0.0; BLOCK];
    *to = maximum(simd, overlay.lanes(simd, span, block, &mut buffer));
    Ok(())
}

#[cold]
fn first_bad(span: &Span<'_>, block: usize, lanes: &[f32; BLOCK]) -> BadLogit {
    let lane = lanes.iter().position(|&x| x.is_nan() || x == f32::INFINITY).unwrap_or(0);
    BadLogit { token: span.token(block, lane), is_nan: lanes[lane].is_nan() }
}
