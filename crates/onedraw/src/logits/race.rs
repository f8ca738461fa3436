//! The race: token i finishes at `E_i / w_i`, and the first to finish is the draw.
//!
//! The naive race gives every token its noise and takes the best:
//!
//! ```text
//! for each token i that may be drawn:
//!     E_i   = M of its block, plus an exponential of its own unless the token has the block's minimum
//!     score = y_i - ln E_i            with y_i = (x_i - x_max) / T; the logarithm of w_i / E_i
//! the winner has the highest score; among equal scores, the lowest id
//! ```
//!
//! What this code does differently, and why the winner is the same:
//!
//! 1. *It works with lower bounds of times, in f32, without logarithms.* `E = -ln(1 - u)` is at least
//!    `u + u²/2 + u³/3`, and `1 / w = 2^((x_max - x)·log2(e)/T)`. The product bounds a token's time from
//!    below, and a token whose bound is later than the best time so far cannot win. Bounds are compared with
//!    a margin to spare, which is far more than all their roundings.
//! 2. *One bound serves a whole block.* No E in a block is below its minimum M, and no weight is above that
//!    of its largest logit. Of 2,004 blocks, 6 to 30 are opened, on peaked rows and flat ones alike.
//! 3. *Blocks are opened in rounds*, those with bounds up to a limit first, then up to four times that. To
//!    look for the earliest bound again and again would take longer than opening a few blocks too many. The
//!    rounds end when no bound that is left is as early as the best token.
//! 4. *In an opened block, only tokens that could still win are scored* exactly, in f64: the one with the
//!    earliest bound first, so that few of the others need a logarithm.
//!
//! Times are kept as 64 times what they are: a block's minimum M is an exponential divided by 64, so 64·M is
//! what its random word gives, without a division.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, mask32x16, u32x16};

use crate::kernels::arrival::{CALLS, by_word, delay, exponential_from, exponentials, neighbour, words};
use crate::kernels::block::{Four, at_most, store};
use crate::kernels::lanes::Lanes;
use crate::kernels::logit::Logit;
use crate::kernels::passes::vectorized;
use crate::kernels::skyline::position;
use crate::logits::edited::EditedRow;
use crate::logits::finalist::{Finalist, Lead};
use crate::numeric::key::Key;
use crate::numeric::noise::{BLOCK, Noise, Purpose, exponential};
use crate::numeric::temperature::Temperature;

/// The Taylor coefficients of 2^d, rounded down: `1 + A·d + B·d² + C·d³` is at most 2^d for d ≥ 0.
const POWER_OF_TWO_AT_LEAST: [f32; 3] = [0.693, 0.24, 0.055];

/// The block noise of one draw, and the bounds of one race. Both are stored in groups of 64 blocks of the
/// vocabulary. Within a group they are in the order of the random words (see `kernels/arrival.rs`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Race {
    /// A lower bound of 64 times every block's smallest E; empty until a race needs it.
    minima: Vec<f32>,
    /// A lower bound of 64 times the earliest arrival in every block; +inf where nobody runs.
    arrivals: Vec<f32>,
    /// The earliest of every group.
    groups: Vec<f32>,
}

/// Who runs: the tokens of a slice, under some noise, before some place of the order.
#[derive(Clone, Copy)]
pub(crate) struct Runners<'a> {
    pub edited: &'a EditedRow<'a>,
    pub noise: &'a Noise,
    pub x_max: f32,
    pub temperature: Temperature,
    /// Exclusive; `None`: everyone.
    pub before: Option<Key>,
}

impl Race {
    /// Forgets the noise of the last draw. The next draw has this many blocks.
    pub(crate) fn forget(&mut self, blocks: usize) {
        self.minima.clear();
        // Capacity for a race even where most draws need none: a later step must not allocate. The blocks may
        // begin in the middle of a group, so there may be one group more.
        let groups = blocks.div_ceil(BLOCK) + 1;
        self.minima.reserve(groups * BLOCK);
        self.arrivals.reserve((groups * BLOCK).saturating_sub(self.arrivals.len()));
        self.groups.reserve(groups.saturating_sub(self.groups.len()));
    }

    /// The first `wanted` to finish. Every race starts over: what an earlier race pruned may win this one.
    pub(crate) fn run(&mut self, runners: &Runners<'_>, wanted: usize) -> Lead {
        let mut lead = Lead::new(wanted);
        let blocks = runners.edited.span.blocks();
        if blocks == 0 {
            return lead;
        }
        let first_group = runners.edited.span.first_block() / BLOCK;
        if self.minima.is_empty() {
            let groups = (runners.edited.span.first_block() + blocks).div_ceil(BLOCK) - first_group;
            self.minima.resize(groups * BLOCK, 0.0);
            runners.edited.passes.minima(runners.noise, first_group as u32, &mut self.minima);
            self.arrivals.resize(groups * BLOCK, 0.0);
            self.groups.resize(groups, 0.0);
        }
        vectorized!(runners.edited.passes, simd => {
            self.line_up(simd, runners, first_group);
            self.finish(simd, runners, first_group, &mut lead);
        });
        lead
    }

    /// Computes the bound of every block.
    #[inline(always)]
    fn line_up<S: Lanes>(&mut self, simd: S, runners: &Runners<'_>, first_group: usize) {
        let maxima = runners.edited.maxima();
        let first = runners.edited.span.first_block();
        let minima = self.minima.as_chunks::<BLOCK>().0;
        let arrivals = self.arrivals.as_chunks_mut::<BLOCK>().0;
        for (i, ((minima, arrivals), earliest)) in
            minima.iter().zip(arrivals).zip(&mut self.groups).enumerate()
        {
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
            let bounds = runners.bounds(simd, group, maxima, minima);
            *earliest = bounds.0.min(bounds.1).min(bounds.2.min(bounds.3)).reduce_min();
            store(bounds, arrivals);
        }
    }

    /// Opens blocks in rounds, those with the earliest bounds first, until no bound is as early as the last
    /// token of the lead.
    #[inline(always)]
    fn finish<S: Lanes>(&self, simd: S, runners: &Runners<'_>, first_group: usize, lead: &mut Lead) {
        let mut opened = -1.0;
        let mut round = 2.0 * lowest(simd, &self.groups);
        while round < f32::INFINITY {
            for (group, arrivals) in self.arrivals.as_chunks::<BLOCK>().0.iter().enumerate() {
                if self.groups[group] > round {
                    continue;
                }
                let bounds = f32::load(simd, arrivals);
                let mut next = at_most(bounds, round) & !at_most(bounds, opened);
                while next != 0 {
                    let place = next.trailing_zeros() as usize;
                    next &= next - 1;
                    if arrivals[place] <= lead.limit {
                        let block = (first_group + group) * BLOCK + neighbour(place);
                        let minimum = self.minima[group * BLOCK + place];
                        let block = block - runners.edited.span.first_block();
                        runners.open(simd, block, minimum, arrivals[place], lead);
                    }
                }
            }
            if round >= lead.limit {
                break;
            }
            opened = round;
            round = if round > 0.0 { 4.0 * round } else { f32::MIN_POSITIVE };
        }
    }
}

impl Runners<'_> {
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

    /// As [`Runners::bounds`] for every fourth block from `first` on.
    #[inline(always)]
    fn bound<S: Lanes>(&self, simd: S, first: usize, maxima: f32x16<S>, minima: f32x16<S>) -> f32x16<S> {
        const STEPS: [u32; CALLS] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        let never = f32x16::splat(simd, f32::INFINITY);
        let bound = minima * delay(maxima, self.x_max, self.scale());
        let Some(last) = self.before.map(Key::previous) else {
            return maxima.simd_ge(-f32::MAX).select(bound, never);
        };
        // Among blocks whose maximum is the last logit that runs, the ids tell: a row of ties is no worse
        // than another.
        let ids = u32x16::load_array(simd, STEPS) * (4 * BLOCK as u32) + (first * BLOCK) as u32;
        let is_earlier = ids.simd_le(last.token());
        let is_tied = maxima.simd_eq(last.logit());
        let runs = maxima.simd_gt(last.logit()) | (is_tied & is_earlier);
        runs.select(bound, never)
    }

    /// Opens a block: scores its tokens that could beat the best.
    ///
    /// ```text
    /// compute lower bounds of the 64 exponentials that its tokens have of their own
    /// 1. if even the largest logit is too late with each of these, and so is the token that has the
    ///    block's minimum: return
    /// 2. compute lower bounds of the 64 arrivals; if the earliest is too late: return
    /// 3. score the earliest exactly, then every other whose bound is no later than the best
    /// ```
    ///
    /// `minimum` is a lower bound of 64 times the block's smallest E, `arrival` one of 64 times all its
    /// arrivals. Every test uses lower bounds, so no token that could win is left out.
    #[inline(always)]
    fn open<S: Lanes>(&self, simd: S, block: usize, minimum: f32, arrival: f32, lead: &mut Lead) {
        let mut buffer = [0.0; BLOCK];
        let lanes = self.edited.lanes_by(simd, block, &mut buffer);
        let global = (self.edited.span.first_block() + block) as u32;
        let first_lane = self.noise.block_lane(global) as usize;
        let (p, q, r, s) = words(simd, self.noise, Purpose::Token, global * CALLS as u32);
        let times = (exponential_from(p), exponential_from(q), exponential_from(r), exponential_from(s));
        // With an exponential of its own above `late`, even the block's largest logit cannot win any more: it
        // would arrive at (minimum + 64·late) · (arrival / minimum), which is the limit.
        let late = (lead.limit * (minimum / arrival) - minimum) / BLOCK as f32;
        let is_late = at_most(times, if minimum > 0.0 { late } else { f32::MAX }) == 0;
        // The token that has the block's minimum arrives 2^delayed times as late as the largest logit would
        // with that minimum.
        let delayed = (self.edited.maxima()[block] - lanes[first_lane]) * self.scale();
        let [a, b, c] = POWER_OF_TWO_AT_LEAST;
        if is_late && arrival * (1.0 + delayed * (a + delayed * (b + delayed * c))) > lead.limit {
            return;
        }
        let first = 1u64 << (first_lane % 4 * CALLS + first_lane / 4);
        let mut arrivals = [f32::INFINITY; BLOCK];
        store(self.arrivals(simd, lanes, times, first, minimum / BLOCK as f32), &mut arrivals);
        let mut bits = [0; BLOCK];
        p.store_slice(&mut bits[..16]);
        q.store_slice(&mut bits[16..32]);
        r.store_slice(&mut bits[32..48]);
        s.store_slice(&mut bits[48..]);
        // The earliest first: then few of the others are worth a logarithm.
        let earliest = lowest(simd, &arrivals);
        if earliest > lead.limit / BLOCK as f32 {
            return;
        }
        let exact_minimum = self.noise.block_minimum(global);
        let score = |place: usize, lead: &mut Lead| {
            let lane = neighbour(place);
            let others = if lane == first_lane { 0.0 } else { exponential(bits[place]) };
            let key = Key::new(lanes[lane], self.edited.span.token(block, lane));
            self.score(key, exact_minimum + others, lead);
        };
        let Some(place) = position(simd, &arrivals, earliest) else { return };
        score(place, lead);
        arrivals[place] = f32::INFINITY;
        let mut runners = at_most(f32::load(simd, &arrivals), lead.limit / BLOCK as f32);
        while runners != 0 {
            let place = runners.trailing_zeros() as usize;
            runners &= runners - 1;
            if arrivals[place] <= lead.limit / BLOCK as f32 {
                score(place, lead);
            }
        }
    }

    /// Lower bounds of a block's arrivals, given those of its own exponentials, the place of the token that
    /// has the block's minimum, and that minimum; +inf for who does not run.
    #[inline(always)]
    fn arrivals<S: Lanes>(
        &self,
        simd: S,
        lanes: &[f32; BLOCK],
        (a, b, c, d): Four<S>,
        first: u64,
        minimum: f32,
    ) -> Four<S> {
        let lowest = self.before.map_or(-f32::MAX, |before| before.previous().logit());
        let (p, q, r, s) = by_word(f32::load(simd, lanes));
        (
            self.arrival(simd, a, p, first & 0xffff, minimum, lowest),
            self.arrival(simd, b, q, first >> 16 & 0xffff, minimum, lowest),
            self.arrival(simd, c, r, first >> 32 & 0xffff, minimum, lowest),
            self.arrival(simd, d, s, first >> 48, minimum, lowest),
        )
    }

    /// As [`Runners::arrivals`], for one vector of it.
    #[inline(always)]
    fn arrival<S: Lanes>(
        &self,
        simd: S,
        own: f32x16<S>,
        x: f32x16<S>,
        first: u64,
        minimum: f32,
        lowest: f32,
    ) -> f32x16<S> {
        let own = mask32x16::from_bitmask(simd, first).select(f32x16::splat(simd, 0.0), own);
        let arrival = (own + minimum) * delay(x, self.x_max, self.scale());
        x.simd_ge(lowest).select(arrival, f32x16::splat(simd, f32::INFINITY))
    }

    /// The winner of a race among these tokens alone.
    pub(crate) fn run_listed(&self, keys: &[Key]) -> Option<Finalist> {
        vectorized!(self.edited.passes, simd => self.finish_listed(simd, keys))
    }

    #[inline(always)]
    fn finish_listed<S: Lanes>(&self, simd: S, keys: &[Key]) -> Option<Finalist> {
        let mut lead = Lead::new(1);
        for keys in keys.chunks(CALLS) {
            let (mut ids, mut logits) = ([0; CALLS], [f32::NEG_INFINITY; CALLS]);
            for (i, key) in keys.iter().enumerate() {
                (ids[i], logits[i]) = (key.token(), key.logit());
            }
            let logits = f32x16::load_array(simd, logits);
            let arrivals = exponentials(simd, self.noise, &ids) * delay(logits, self.x_max, self.scale());
            let arrivals = logits.simd_ge(-f32::MAX).select(arrivals, f32x16::splat(simd, f32::INFINITY));
            // The earliest first: then few of the others are worth a logarithm.
            let earliest = position(simd, arrivals.as_slice(), arrivals.reduce_min())?;
            let mut runners = arrivals.simd_le(lead.limit / BLOCK as f32).to_bitmask();
            let mut i = earliest;
            while runners != 0 {
                runners &= !(1 << i);
                if arrivals[i] <= lead.limit / BLOCK as f32 {
                    self.score(keys[i], self.noise.token(ids[i]), &mut lead);
                }
                i = runners.trailing_zeros() as usize;
            }
        }
        lead.winner()
    }

    /// Scores a token that arrives with the exponential `time`.
    #[inline(always)]
    fn score(&self, key: Key, time: f64, lead: &mut Lead) {
        if key > Key::END || self.before.is_some_and(|before| key >= before) {
            return;
        }
        lead.offer(Finalist::new(key, time, self.x_max, self.temperature));
    }
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
