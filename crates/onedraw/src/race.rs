//! The race: token i finishes at `E_i / w_i`, and the first to finish is the draw.
//!
//! In logarithms the score is `y_i − ln E_i` with `y = (x − x_max)/T`, and the highest wins. A block's smallest E is
//! known from one word, so `y of the block's maximum − ln M` bounds all its tokens. Blocks are opened from the highest
//! bound down until no bound reaches the best score: 6 to 30 of 2,004, peaked or flat.

use crate::edit::temperature::Temperature;
use crate::edited::Edited;
use crate::math::{exp, ln};
use crate::noise::{BLOCK, Noise, exponential};
use crate::order::Key;
use crate::question::Finalist;

/// A bound is compared with this much to spare, so that no rounding of a bound can prune a winner.
const MARGIN: f64 = 1.0 / 1024.0;

/// The block noise of one draw, and the bounds of one race.
#[derive(Clone, Debug, Default)]
pub(crate) struct Race {
    /// A bound of `−ln M` for every block; empty until a race needs it.
    heads: Vec<f32>,
    /// A bound of every block's scores. They are f32: a block far enough below the best for that to matter cannot win, because no noise
    /// is worth more than 31.
    bounds: Vec<f32>,
    /// The highest bound of every 64 blocks.
    groups: Vec<f32>,
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
        let passes = field.edited.passes;
        if self.heads.is_empty() {
            self.heads.resize(field.edited.span.blocks(), 0.0);
            passes.heads(field.noise, field.edited.span.first_block() as u32, &mut self.heads);
        }
        let maxima = field.edited.maxima();
        self.bounds.resize(maxima.len(), 0.0);
        passes.bounds(maxima, &self.heads, field.x_max, field.temperature.inverse as f32, &mut self.bounds);
        if let Some(before) = field.before {
            for (block, (bound, &maximum)) in self.bounds.iter_mut().zip(maxima).enumerate() {
                if field.edited.earliest(block, maximum) >= before {
                    *bound = f32::NEG_INFINITY;
                }
            }
        }
        self.groups.clear();
        self.groups.extend(self.bounds.chunks(BLOCK).map(|bounds| passes.highest(bounds)));
        // From the highest bound down, until no bound reaches the best score.
        let mut best: Option<Finalist> = None;
        loop {
            let highest = passes.highest(&self.groups);
            let is_beaten = best.is_some_and(|best| f64::from(highest) + MARGIN < best.score);
            if highest == f32::NEG_INFINITY || is_beaten {
                return best;
            }
            let group = passes.position(&self.groups, highest)?;
            let start = group * BLOCK;
            let end = self.bounds.len().min(start + BLOCK);
            let block = start + passes.position(&self.bounds[start..end], highest)?;
            field.finish(block, &mut best);
            self.bounds[block] = f32::NEG_INFINITY;
            self.groups[group] = passes.highest(&self.bounds[start..end]);
        }
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
        let score = |lane: usize, time: f64, best: &mut Option<Finalist>| {
            let x = lanes[lane];
            let key = Key::new(x, self.edited.span.token(block, lane));
            if x == f32::NEG_INFINITY || self.before.is_some_and(|before| key >= before) {
                return;
            }
            let finalist = Finalist { score: self.temperature.scaled(x, self.x_max) - ln(time), key };
            if best.is_none_or(|best| finalist.beats(&best)) {
                *best = Some(finalist);
            }
        };
        // The lane that has the block's minimum is the likeliest to win.
        score(first_lane, minimum, best);
        // The latest time at which the block's largest logit could still win.
        let top = self.temperature.scaled(self.edited.maxima()[block], self.x_max);
        let latest =
            |best: &Option<Finalist>| best.map_or(f64::INFINITY, |best| exp(top - best.score + MARGIN));
        let mut limit = latest(best);
        if minimum > limit {
            return;
        }
        let words = self.edited.passes.block_words(self.noise, global);
        for (lane, &bits) in words.iter().enumerate() {
            // An exponential is never below the uniform number it is made of.
            if lane == first_lane || minimum + f64::from(bits) / 4_294_967_296.0 > limit {
                continue;
            }
            let before = best.map(|best| best.score);
            score(lane, minimum + exponential(bits), best);
            if best.map(|best| best.score) != before {
                limit = latest(best);
            }
        }
    }
}
