//! The race: token i finishes at `E_i / w_i`, and the first to finish is the draw.
//!
//! In logarithms the score is `y_i − ln E_i` with `y = (x − x_max)/T`, and the highest wins. A block's smallest E is
//! known from one word, so `y of the block's maximum − ln M` bounds all its tokens. Blocks are opened from the highest
//! bound down until no bound reaches the best score: 6 to 30 of 2,004, peaked or flat.

use crate::edit::temperature::Temperature;
use crate::edited::Edited;
use crate::math::ln;
use crate::noise::{BLOCK, Noise, Purpose, exponential};
use crate::order::Key;
use crate::question::Finalist;

/// A bound is compared with this much to spare, so that no rounding of a bound can prune a winner.
const MARGIN: f64 = 1.0 / 1024.0;

/// The block noise of one draw, and the bounds of one race.
#[derive(Clone, Debug, Default)]
pub(crate) struct Race {
    /// A bound of `−ln M` for every block; empty until a race needs it.
    heads: Vec<f32>,
    bounds: Vec<f64>,
    /// Blocks that may still hold the winner.
    contenders: Vec<u32>,
}

/// Who runs: the tokens of a slice, under some noise, before some place of the order.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    pub edited: &'a Edited<'a>,
    pub noise: &'a Noise,
    pub x_max: f32,
    pub temperature: Temperature,
    /// Exclusive; `None`: everyone.
    pub before: Option<Key>,
}

impl Race {
    /// A new draw begins: its noise is another.
    pub(crate) fn forget(&mut self) {
        self.heads.clear();
    }

    /// The winner. Every race starts over: what a former race pruned may win this one.
    pub(crate) fn run(&mut self, field: &Field<'_>) -> Option<Finalist> {
        if self.heads.is_empty() {
            self.heads.resize(field.edited.span.blocks(), 0.0);
            field.edited.passes.heads(field.noise, field.edited.span.first_block() as u32, &mut self.heads);
        }
        let before = field.before.unwrap_or(Key::END);
        self.bounds.clear();
        self.bounds.extend(field.edited.maxima().iter().zip(&self.heads).enumerate().map(
            |(block, (&maximum, &head))| {
                let bound = field.temperature.scaled(maximum, field.x_max) + f64::from(head);
                if field.edited.earliest(block, maximum) < before { bound } else { f64::NEG_INFINITY }
            },
        ));
        // The block with the highest bound sets a score that leaves few contenders.
        let highest = self
            .bounds
            .iter()
            .fold(f64::NEG_INFINITY, |best, &bound| if bound > best { bound } else { best });
        let first = self.bounds.iter().position(|&bound| bound == highest && bound > f64::NEG_INFINITY)?;
        let mut best = None;
        field.finish(first, &mut best);
        let reaches =
            |bound: f64, best: Option<Finalist>| best.is_none_or(|best| bound + MARGIN >= best.score);
        self.contenders.clear();
        self.contenders.reserve(self.bounds.len());
        for (block, &bound) in self.bounds.iter().enumerate() {
            if bound > f64::NEG_INFINITY && reaches(bound, best) && block != first {
                self.contenders.push(block as u32);
            }
        }
        // From the highest bound down, until no bound reaches the best score.
        let bounds = &self.bounds;
        self.contenders.sort_unstable_by(|&a, &b| bounds[b as usize].total_cmp(&bounds[a as usize]));
        for &block in &self.contenders {
            if !reaches(bounds[block as usize], best) {
                break;
            }
            field.finish(block as usize, &mut best);
        }
        best
    }
}

impl Field<'_> {
    /// Scores the tokens of a block that could beat `best`.
    fn finish(&self, block: usize, best: &mut Option<Finalist>) {
        let mut buffer = [0.0; BLOCK];
        let lanes = self.edited.lanes(block, &mut buffer);
        let global = (self.edited.span.first_block() + block) as u32;
        let minimum = self.noise.block_minimum(global);
        let first_lane = self.noise.block_lane(global) as usize;
        let head = -ln(minimum);
        for group in 0..BLOCK / 4 {
            let mut words = None;
            for word in 0..4 {
                let lane = group * 4 + word;
                let x = lanes[lane];
                if x == f32::NEG_INFINITY {
                    continue;
                }
                let key = Key::new(x, self.edited.span.token(block, lane));
                if self.before.is_some_and(|before| key >= before) {
                    continue;
                }
                let y = self.temperature.scaled(x, self.x_max);
                if best.is_some_and(|best| y + head + MARGIN < best.score) {
                    continue;
                }
                let time = if lane == first_lane {
                    minimum
                } else {
                    let words =
                        words.get_or_insert_with(|| self.noise.words(Purpose::Token, key.token() / 4));
                    minimum + exponential(words[word])
                };
                let finalist = Finalist { score: y - ln(time), key };
                if best.is_none_or(|best| finalist.beats(&best)) {
                    *best = Some(finalist);
                }
            }
        }
    }
}
