//! The race: token i finishes at `E_i / w_i`, and the first to finish is the draw.
//!
//! In logarithms the score is `y_i − ln E_i` with `y = (x − x_max)/T`, and the highest wins. A block's smallest E is
//! known from one word, so the arrival of the block's largest logit at that E bounds all its tokens. Blocks are opened from the earliest
//! bound on until none can be as early as the best token: 6 to 30 of 2,004, peaked or flat. Bounds are f32 and need no logarithm; only a token
//! that could win is scored in f64.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, u32x16};

use crate::edit::temperature::Temperature;
use crate::edited::Edited;
use crate::kernels::arrival::{CALLS, by_word, delay, exponentials, neighbour, uniform, words};
use crate::kernels::lanes::Lanes;
use crate::kernels::logit::{Four, Logit};
use crate::kernels::passes::vectorized;
use crate::kernels::skyline::position;
use crate::math::{exp, ln};
use crate::noise::{BLOCK, Noise, Purpose, exponential};
use crate::order::Key;
use crate::question::Finalist;

/// A bound is compared with this much to spare, in logarithms, so that no rounding of a bound can prune a winner.
const MARGIN: f64 = 1.0 / 1024.0;

/// The block noise of one draw, and the bounds of one race. Both lie in groups of 64 blocks of the vocabulary, each group as the words of its calls
/// do (see `kernels/arrival.rs`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Race {
    /// A lower bound of u for every block's minimum; empty until a race needs it.
    minima: Vec<f32>,
    /// A lower bound of 64 times the earliest arrival in every block; +inf where nobody runs.
    arrivals: Vec<f32>,
    /// The earliest of every group.
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

/// The best token so far, and the latest bound that could still beat it.
struct Lead {
    best: Option<Finalist>,
    /// 64 times the best token's time, with the margin; f32::MAX while there is none.
    limit: f32,
}

impl Race {
    /// A new draw begins: its noise is another.
    pub(crate) fn forget(&mut self) {
        self.minima.clear();
    }

    /// The winner. Every race starts over: what a former race pruned may win this one.
    pub(crate) fn run(&mut self, field: &Field<'_>) -> Option<Finalist> {
        let blocks = field.edited.span.blocks();
        if blocks == 0 {
            return None;
        }
        let first_group = field.edited.span.first_block() / BLOCK;
        if self.minima.is_empty() {
            let groups = (field.edited.span.first_block() + blocks).div_ceil(BLOCK) - first_group;
            self.minima.resize(groups * BLOCK, 0.0);
            field.edited.passes.minima(field.noise, first_group as u32, &mut self.minima);
            self.arrivals.resize(groups * BLOCK, 0.0);
            self.groups.resize(groups, 0.0);
        }
        vectorized!(field.edited.passes, simd => {
            self.line_up(simd, field, first_group);
            self.finish(simd, field, first_group)
        })
    }

    /// The bounds.
    #[inline(always)]
    fn line_up<S: Lanes>(&mut self, simd: S, field: &Field<'_>, first_group: usize) {
        let maxima = field.edited.maxima();
        let first = field.edited.span.first_block();
        let minima = self.minima.as_chunks::<BLOCK>().0;
        let arrivals = self.arrivals.as_chunks_mut::<BLOCK>().0;
        for (i, ((minima, arrivals), earliest)) in minima.iter().zip(arrivals).zip(&mut self.groups).enumerate() {
            let group = (first_group + i) * BLOCK;
            let mut buffer = [f32::NEG_INFINITY; BLOCK];
            let whole = group.checked_sub(first).and_then(|start| maxima.get(start..start + BLOCK));
            let maxima = match whole.and_then(|whole| whole.first_chunk()) {
                Some(whole) => whole,
                None => {
                    let (from, to) = (group.max(first), (group + BLOCK).min(first + maxima.len()));
                    buffer[from - group..to - group].copy_from_slice(&maxima[from - first..to - first]);
                    &buffer
                }
            };
            let bounds = field.bounds(simd, group, maxima, minima);
            *earliest = bounds.0.min(bounds.1).min(bounds.2.min(bounds.3)).reduce_min();
            store(bounds, arrivals);
        }
    }

    /// Opens blocks, earliest bound first, until no bound is as early as the best token.
    #[inline(always)]
    fn finish<S: Lanes>(&mut self, simd: S, field: &Field<'_>, first_group: usize) -> Option<Finalist> {
        let mut lead = Lead::new();
        loop {
            let earliest = lowest(simd, &self.groups);
            if earliest > lead.limit {
                return lead.best;
            }
            let group = position(simd, &self.groups, earliest)?;
            let range = group * BLOCK..group * BLOCK + BLOCK;
            let place = position(simd, &self.arrivals[range.clone()], earliest)?;
            self.arrivals[range.start + place] = f32::INFINITY;
            self.groups[group] = lowest(simd, &self.arrivals[range.clone()]);
            let block = (first_group + group) * BLOCK + neighbour(place) - field.edited.span.first_block();
            field.open(simd, block, self.minima[range.start + place], earliest, &mut lead);
        }
    }
}

impl Field<'_> {
    fn scale(&self) -> f32 {
        (self.temperature.inverse * std::f64::consts::LOG2_E) as f32
    }

    /// 64 times the earliest arrivals in 64 blocks, the first of them block `group` of the vocabulary.
    #[inline(always)]
    fn bounds<S: Lanes>(
        &self,
        simd: S,
        group: usize,
        maxima: &[f32; BLOCK],
        minima: &[f32; BLOCK],
    ) -> Four<S> {
        let (a, b, c, d) = by_word(f32::load(simd, maxima));
        let (p, q, r, s) = f32::load(simd, minima);
        (
            self.bound(simd, group, a, p),
            self.bound(simd, group + 1, b, q),
            self.bound(simd, group + 2, c, r),
            self.bound(simd, group + 3, d, s),
        )
    }

    /// As [`Field::bounds`] for every fourth block from `first` on.
    #[inline(always)]
    fn bound<S: Lanes>(&self, simd: S, first: usize, maxima: f32x16<S>, minima: f32x16<S>) -> f32x16<S> {
        const STEPS: [u32; CALLS] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        let never = f32x16::splat(simd, f32::INFINITY);
        let bound = minima * delay(maxima, self.x_max, self.scale());
        let Some(last) = self.before.map(Key::previous) else {
            return maxima.simd_ge(-f32::MAX).select(bound, never);
        };
        // Among blocks whose maximum is the last logit that runs, the ids tell: a row of ties is no worse than another.
        let ids = u32x16::load_array(simd, STEPS) * (4 * BLOCK as u32) + (first * BLOCK) as u32;
        let is_earlier = ids.simd_le(last.token());
        let is_tied = maxima.simd_eq(last.logit());
        let runs = maxima.simd_gt(last.logit()) | (is_tied & is_earlier);
        runs.select(bound, never)
    }

    /// Scores the tokens of a block that could beat the best. `u` bounds the block's smallest u, `arrival` all its tokens.
    #[inline(always)]
    fn open<S: Lanes>(&self, simd: S, block: usize, u: f32, arrival: f32, lead: &mut Lead) {
        let mut buffer = [0.0; BLOCK];
        let lanes = self.edited.lanes_by(simd, block, &mut buffer);
        let global = (self.edited.span.first_block() + block) as u32;
        let scale = self.scale();
        let key = |lane: usize| Key::new(lanes[lane], self.edited.span.token(block, lane));
        // The lane that has the block's minimum is the likeliest to win. Its delay after the largest logit is at least a few terms of the series.
        let first_lane = self.noise.block_lane(global) as usize;
        let late = (self.edited.maxima()[block] - lanes[first_lane]) * scale;
        let mut minimum = None;
        if arrival * (1.0 + late * (0.693 + late * (0.24 + late * 0.055))) <= lead.limit {
            let exact = self.noise.block_minimum(global);
            minimum = Some(exact);
            self.score(key(first_lane), exact, lead);
        }
        let (a, b, c, d) = words(simd, self.noise, Purpose::Token, global * CALLS as u32);
        let uniforms = (uniform(a), uniform(b), uniform(c), uniform(d));
        // The largest u with which the block's largest logit could still win; arrival / u is 64 times what its unit of time is worth.
        let latest = if u > 0.0 { lead.limit / 64.0 * (u / arrival) - u / 64.0 } else { f32::MAX };
        let mut runners = mask(uniforms, latest);
        if runners == 0 {
            return;
        }
        // Those whose own logit is too low go before any logarithm.
        let (p, q, r, s) = by_word(f32::load(simd, lanes));
        let (p, q) = (delay(p, self.x_max, scale), delay(q, self.x_max, scale));
        let (r, s) = (delay(r, self.x_max, scale), delay(s, self.x_max, scale));
        let (a, b, c, d) = uniforms;
        let early = u / 64.0;
        runners &= mask(((a + early) * p, (b + early) * q, (c + early) * r, (d + early) * s), lead.limit / 64.0);
        while runners != 0 {
            let lane = neighbour(runners.trailing_zeros() as usize);
            runners &= runners - 1;
            if lane != first_lane {
                let minimum = *minimum.get_or_insert_with(|| self.noise.block_minimum(global));
                let id = global * BLOCK as u32 + lane as u32;
                let bits = self.noise.words(Purpose::Token, id / 4)[id as usize % 4];
                self.score(key(lane), minimum + exponential(bits), lead);
            }
        }
    }

    /// The winner of a race among these tokens alone.
    pub(crate) fn run_listed(&self, keys: &[Key]) -> Option<Finalist> {
        vectorized!(self.edited.passes, simd => self.finish_listed(simd, keys))
    }

    #[inline(always)]
    fn finish_listed<S: Lanes>(&self, simd: S, keys: &[Key]) -> Option<Finalist> {
        let mut lead = Lead::new();
        for keys in keys.chunks(CALLS) {
            let (mut ids, mut logits) = ([0; CALLS], [f32::NEG_INFINITY; CALLS]);
            for (i, key) in keys.iter().enumerate() {
                (ids[i], logits[i]) = (key.token(), key.logit());
            }
            let delays = delay(f32x16::load_array(simd, logits), self.x_max, self.scale());
            let arrivals = exponentials(simd, self.noise, &ids) * delays;
            let mut runners = arrivals.simd_le(lead.limit / BLOCK as f32).to_bitmask();
            while runners != 0 {
                let i = runners.trailing_zeros() as usize;
                runners &= runners - 1;
                if arrivals[i] <= lead.limit / BLOCK as f32 && i < keys.len() {
                    self.score(keys[i], self.noise.token(ids[i]), &mut lead);
                }
            }
        }
        lead.best
    }

    /// Scores a token that arrives with the exponential `time`.
    #[inline(always)]
    fn score(&self, key: Key, time: f64, lead: &mut Lead) {
        if key > Key::END || self.before.is_some_and(|before| key >= before) {
            return;
        }
        lead.offer(Finalist { score: self.temperature.scaled(key.logit(), self.x_max) - ln(time), key });
    }
}

impl Lead {
    fn new() -> Self {
        Self { best: None, limit: f32::MAX }
    }

    fn offer(&mut self, finalist: Finalist) {
        if self.best.is_none_or(|best| finalist.beats(&best)) {
            self.best = Some(finalist);
            // Where this is beyond f32, nobody can be pruned, which is right too.
            self.limit = (64.0 * exp(MARGIN - finalist.score)).min(f64::from(f32::MAX)) as f32;
        }
    }
}

/// Which of 64 numbers are `limit` at most, a bit each.
#[inline(always)]
fn mask<S: Lanes>((a, b, c, d): Four<S>, limit: f32) -> u64 {
    let (a, b) = (a.simd_le(limit).to_bitmask(), b.simd_le(limit).to_bitmask());
    let (c, d) = (c.simd_le(limit).to_bitmask(), d.simd_le(limit).to_bitmask());
    a | b << 16 | c << 32 | d << 48
}

#[inline(always)]
fn store<S: Lanes>((a, b, c, d): Four<S>, to: &mut [f32; BLOCK]) {
    a.store_slice(&mut to[..16]);
    b.store_slice(&mut to[16..32]);
    c.store_slice(&mut to[32..48]);
    d.store_slice(&mut to[48..]);
}

/// The smallest of any number of times.
#[inline(always)]
fn lowest<S: Lanes>(simd: S, times: &[f32]) -> f32 {
    let (chunks, rest) = times.as_chunks::<16>();
    let mut best = f32x16::splat(simd, f32::INFINITY);
    for lanes in chunks {
        best = best.min(f32x16::from_slice(simd, lanes));
    }
    rest.iter().fold(best.reduce_min(), |best, &x| if x < best { x } else { best })
}
