//! The race: token i finishes at `E_i / w_i`, and the first to finish is the draw.
//!
//! In logarithms the score is `y_i − ln E_i` with `y = (x − x_max)/T`, and the highest wins. A block's smallest E is
//! known from one word, so `y of the block's maximum − ln M` bounds all its tokens. Blocks are opened from the highest
//! bound down until no bound reaches the best score: 6 to 30 of 2,004, peaked or flat.

use crate::edit::temperature::Temperature;
use crate::noise::{BLOCK, Noise, Purpose, exponential};
use crate::order::Key;
use crate::question::Finalist;
use crate::row::{Overlay, Span};
use crate::skyline::Skyline;

/// A bound is compared with this much to spare, so that no rounding of a bound can prune a winner.
const MARGIN: f64 = 1.0 / 1024.0;

/// The block noise of one draw, and the bounds of one race.
#[derive(Clone, Debug, Default)]
pub(crate) struct Race {
    /// `−ln M` of every block; empty until a race needs it.
    heads: Vec<f64>,
    bounds: Vec<f64>,
}

impl Race {
    /// A new draw begins: its noise is another.
    pub(crate) fn forget(&mut self) {
        self.heads.clear();
    }

    /// The winner among the tokens before `before`. Every race starts over: what a former race pruned may win this one.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn run(
        &mut self,
        span: &Span<'_>,
        overlay: &Overlay,
        skyline: &Skyline,
        noise: &Noise,
        x_max: f32,
        temperature: Temperature,
        before: Option<Key>,
    ) -> Option<Finalist> {
        self.draw_heads(span, noise);
        let floor = before.map_or(f32::NEG_INFINITY, Key::logit);
        self.bounds.clear();
        self.bounds.extend(skyline.maxima.iter().zip(&self.heads).map(|(&maximum, &head)| {
            if maximum == f32::NEG_INFINITY || maximum < floor {
                f64::NEG_INFINITY
            } else {
                temperature.scaled(maximum, x_max) + head
            }
        }));
        let mut best: Option<Finalist> = None;
        while let Some(block) = highest(&self.bounds) {
            let reach = self.bounds[block] + MARGIN;
            if best.is_some_and(|best| reach < best.score) {
                break;
            }
            self.bounds[block] = f64::NEG_INFINITY;
            let opened = Opened { span, overlay, noise, x_max, temperature, before, head: self.heads[block] };
            opened.finish(block, &mut best);
        }
        best
    }

    fn draw_heads(&mut self, span: &Span<'_>, noise: &Noise) {
        if !self.heads.is_empty() {
            return;
        }
        let first = span.first_block() as u32;
        let end = first + span.blocks() as u32;
        self.heads.reserve(span.blocks());
        for group in first / 4..end.div_ceil(4) {
            let words = noise.words(Purpose::BlockMinimum, group);
            for (word, block) in words.into_iter().zip(group * 4..) {
                if (first..end).contains(&block) {
                    self.heads.push(-crate::math::ln(exponential(word) / BLOCK as f64));
                }
            }
        }
    }
}

/// The block with the highest bound, if any is left.
fn highest(bounds: &[f64]) -> Option<usize> {
    let mut best = f64::NEG_INFINITY;
    for &bound in bounds {
        best = if bound > best { bound } else { best };
    }
    if best == f64::NEG_INFINITY { None } else { bounds.iter().position(|&bound| bound == best) }
}

/// A block whose tokens run.
struct Opened<'a> {
    span: &'a Span<'a>,
    overlay: &'a Overlay,
    noise: &'a Noise,
    x_max: f32,
    temperature: Temperature,
    before: Option<Key>,
    head: f64,
}

impl Opened<'_> {
    /// Scores the tokens that could beat `best`.
    fn finish(&self, block: usize, best: &mut Option<Finalist>) {
        let mut buffer = [0.0; BLOCK];
        let lanes = self.overlay.lanes(self.span, block, &mut buffer);
        let global = (self.span.first_block() + block) as u32;
        let minimum = self.noise.block_minimum(global);
        let first_lane = self.noise.block_lane(global) as usize;
        for group in 0..BLOCK / 4 {
            let mut words = None;
            for word in 0..4 {
                let lane = group * 4 + word;
                let x = lanes[lane];
                if x == f32::NEG_INFINITY {
                    continue;
                }
                let key = Key::new(x, self.span.token(block, lane));
                if self.before.is_some_and(|before| key >= before) {
                    continue;
                }
                let y = self.temperature.scaled(x, self.x_max);
                if best.is_some_and(|best| y + self.head + MARGIN < best.score) {
                    continue;
                }
                let time = if lane == first_lane {
                    minimum
                } else {
                    let words =
                        words.get_or_insert_with(|| self.noise.words(Purpose::Token, key.token() / 4));
                    minimum + exponential(words[word])
                };
                let finalist = Finalist { score: y - crate::math::ln(time), key };
                if best.is_none_or(|best| finalist.beats(&best)) {
                    *best = Some(finalist);
                }
            }
        }
    }
}
