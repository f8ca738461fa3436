//! Counts and masses of an edited row, from the blocks that matter.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, mask32x16};

use crate::edited::Edited;
use crate::kernels::deviation::Deviations;
use crate::kernels::lanes::Lanes;
use crate::kernels::logit::{Logit, at_least};
use crate::kernels::passes::vectorized;
use crate::kernels::weight::{Estimate, Masses, powers};
use crate::mass::{Interval, Softmax, Spread};
use crate::math::power_of_two;
use crate::noise::BLOCK;
use crate::order::Key;
use crate::question::{Answer, Measure};
use crate::row::Row;
use crate::truncate::top_n_sigma::DEPTH;
use crate::truncate::typical::Centre;

impl Edited<'_> {
    /// Opens the blocks that may hold a token up to `last`: its number, its logits, and which of them stand up to `last`, a bit each.
    #[inline(always)]
    fn open<S: Lanes>(&self, simd: S, last: Key, mut each: impl FnMut(usize, &[f32; BLOCK], u64)) {
        let mut buffer = [0.0; BLOCK];
        for (group, maxima) in self.maxima().chunks(BLOCK).enumerate() {
            let mut reaching = reaching(simd, maxima, last.logit());
            while reaching != 0 {
                let block = group * BLOCK + reaching.trailing_zeros() as usize;
                reaching &= reaching - 1;
                let lanes = self.lanes_by(simd, block, &mut buffer);
                let listed = up_to(simd, lanes, self.span.token(block, 0), last);
                if listed != 0 {
                    each(block, lanes, listed);
                }
            }
        }
    }

    /// The masses up to and including `last`.
    #[inline(always)]
    fn masses<S: Lanes>(&self, simd: S, last: Key, softmax: Softmax, with_entropy: bool) -> Masses<S> {
        let masses = Masses::new(simd, softmax);
        if last == Key::END {
            return self.all_masses(simd, masses, with_entropy);
        }
        let (mut masses, mut buffer) = (masses, [0.0; BLOCK]);
        self.open(
            simd,
            last,
            #[inline(always)]
            |block, lanes, listed| {
                let lanes = only(simd, lanes, listed, &mut buffer);
                masses.add_to(lanes, self.maxima()[block], with_entropy);
            },
        );
        masses
    }

    /// The masses of all: what is masked weighs nothing.
    #[inline(always)]
    fn all_masses<S: Lanes>(&self, simd: S, masses: Masses<S>, with_entropy: bool) -> Masses<S> {
        let maxima = self.maxima();
        let (run, first) = match self.span.whole_blocks() {
            (Row::F32(logits), first) if self.is_clean() => (logits.as_chunks().0, first),
            _ => (&[][..], 0),
        };
        let end = first + run.len();
        let mut masses = masses.and(run, &maxima[first..end], with_entropy);
        let mut buffer = [0.0; BLOCK];
        for block in (0..first).chain(end..maxima.len()) {
            masses.add_to(self.lanes_by(simd, block, &mut buffer), maxima[block], with_entropy);
        }
        masses
    }

    /// Shows each token up to `last`.
    #[inline]
    pub(crate) fn visit(&self, last: Key, mut each: impl FnMut(Key)) {
        vectorized!(self.passes, simd => self.open(simd, last,
            #[inline(always)]
            |block, lanes, mut listed| while listed != 0 {
                let lane = listed.trailing_zeros() as usize;
                listed &= listed - 1;
                each(Key::new(lanes[lane], self.span.token(block, lane)));
            }
        ));
    }

    /// Tokens before `key`, counted until there are `enough`.
    pub(crate) fn rank(&self, key: Key, enough: u32) -> u32 {
        // A masked token comes after all that are alive.
        let key = key.min(Key::END);
        vectorized!(self.passes, simd => {
            // Every block whose maximum is larger holds at least one: often enough to answer without opening any.
            let higher: u32 = self.maxima().chunks(BLOCK)
                .map(#[inline(always)] |maxima| reaching(simd, maxima, key.logit().next_up()).count_ones())
                .sum();
            if higher >= enough {
                return enough;
            }
            let mut rank = 0;
            let mut buffer = [0.0; BLOCK];
            for (group, maxima) in self.maxima().chunks(BLOCK).enumerate() {
                let mut reaching = reaching(simd, maxima, key.logit());
                while reaching != 0 {
                    let block = group * BLOCK + reaching.trailing_zeros() as usize;
                    reaching &= reaching - 1;
                    let lanes = self.lanes_by(simd, block, &mut buffer);
                    let first = self.span.token(block, 0);
                    // Of those equal to it, the ones with a lower id come before.
                    let is_before = first + (BLOCK as u32) <= key.token();
                    let least = if is_before { key.logit() } else { key.logit().next_up() };
                    rank += at_least(f32::load(simd, lanes), least).count_ones();
                    if !is_before && first < key.token() {
                        let own = &lanes[..(key.token() - first) as usize];
                        rank += own.iter().map(|&x| u32::from(x == key.logit())).sum::<u32>();
                    }
                }
            }
            rank
        })
    }

    /// The mass before `key` and the mass of all, each as an interval: opens the blocks that reach up to `key`, and those that reach `depth`.
    pub(crate) fn weigh(&self, key: Key, softmax: Softmax, depth: f32) -> (Interval, Interval) {
        vectorized!(self.passes, simd => {
            let mut estimate = Estimate::new(simd, softmax, key.logit(), depth);
            let mut buffer = [0.0; BLOCK];
            for (group, maxima) in self.maxima().chunks(BLOCK).enumerate() {
                let mut padded = [f32::NEG_INFINITY; BLOCK];
                let maxima = match maxima.first_chunk() {
                    Some(whole) => whole,
                    None => {
                        padded[..maxima.len()].copy_from_slice(maxima);
                        &padded
                    }
                };
                let mut opened = estimate.take(maxima);
                while opened != 0 {
                    let block = group * BLOCK + opened.trailing_zeros() as usize;
                    opened &= opened - 1;
                    let lanes = self.lanes_by(simd, block, &mut buffer);
                    let first = self.span.token(block, 0);
                    estimate.open(lanes, first + (BLOCK as u32) <= key.token());
                    if (first..first + BLOCK as u32).contains(&key.token()) {
                        let own = &lanes[..(key.token() - first) as usize];
                        estimate.tie(own.iter().map(|&x| u32::from(x == key.logit())).sum());
                    }
                }
            }
            estimate.intervals(self.span.row.len() as u64)
        })
    }

    /// The mass up to and including `last`.
    pub(crate) fn total(&self, last: Key, softmax: Softmax) -> u64 {
        vectorized!(self.passes, simd => self.masses(simd, last, softmax, false).mass())
    }

    /// Count, mass and entropy's sum up to and including `last`.
    pub(crate) fn spread(&self, last: Key, softmax: Softmax) -> Spread {
        vectorized!(self.passes, simd => {
            let masses = self.masses(simd, last, softmax, true);
            Spread { count: masses.count(), total: masses.mass(), surprise: masses.surprise() }
        })
    }

    /// The last token up to and including `last`.
    pub(crate) fn last(&self, last: Key) -> Option<Key> {
        let mut latest: Option<Key> = None;
        let mut buffer = [0.0; BLOCK];
        vectorized!(self.passes, simd => self.open(simd, last, #[inline(always)] |block, lanes, listed| {
            // Few blocks hold a token that comes after all those before: the others are not looked at one by one.
            let lowest = latest.map_or(f32::INFINITY, Key::logit);
            let lanes = only_or(simd, lanes, listed, f32::INFINITY, &mut buffer);
            let mut later = !at_least(f32::load(simd, lanes), lowest.next_up());
            while later != 0 {
                let lane = later.trailing_zeros() as usize;
                later &= later - 1;
                latest = latest.max(Some(Key::new(lanes[lane], self.span.token(block, lane))));
            }
        }));
        latest
    }

    /// Count, sum and sum of squares of the distances from `x_max`, in units of 2^(exponent − 40).
    pub(crate) fn deviations(&self, last: Key, x_max: f32, exponent: i32) -> Answer {
        let mut count = 0;
        let mut buffer = [0.0; BLOCK];
        let (sum, squares) = vectorized!(self.passes, simd => {
            let mut deviations = Deviations::new(simd, x_max, power_of_two(DEPTH - exponent));
            self.open(simd, last, #[inline(always)] |_, lanes, listed| {
                count += listed.count_ones();
                // The best logit is no distance away.
                deviations.add(only_or(simd, lanes, listed, x_max, &mut buffer));
            });
            deviations.sums()
        });
        Answer::Deviations { count, sum, squares: squares.into() }
    }

    /// Masses by distance from the centre.
    pub(crate) fn distances(
        &self,
        centre: &Centre,
        last: Key,
        (first, shift, width): (u32, u32, u32),
        sums: &mut Vec<u64>,
    ) {
        sums.resize(1 << width, 0);
        let softmax = centre.temperature.softmax(centre.x_max);
        let mut weights = [0.0; BLOCK];
        vectorized!(self.passes, simd => self.open(simd, last, #[inline(always)] |_, lanes, mut listed| {
            powers(simd, lanes, softmax, &mut weights);
            while listed != 0 {
                let lane = listed.trailing_zeros() as usize;
                listed &= listed - 1;
                let distance = centre.distance(lanes[lane]).to_bits();
                if let Some(sum) = sums.get_mut((distance.wrapping_sub(first) >> shift) as usize) {
                    *sum += weights[lane] as u64;
                }
            }
        }));
    }

    /// Sums of `measure` over intervals of keys.
    pub(crate) fn histogram(
        &self,
        (first, shift, width): (Key, u32, u32),
        measure: Measure,
        sums: &mut Vec<u64>,
    ) {
        sums.resize(1 << width, 0);
        let last =
            Key::from_number(first.number().saturating_add(u64::MAX >> (64 - shift - width))).min(Key::END);
        let mut amounts = [1.0; BLOCK];
        vectorized!(self.passes, simd => self.open(simd, last, #[inline(always)] |block, lanes, mut listed| {
            if let Measure::Mass(softmax) = measure {
                powers(simd, lanes, softmax, &mut amounts);
            }
            while listed != 0 {
                let lane = listed.trailing_zeros() as usize;
                listed &= listed - 1;
                let key = Key::new(lanes[lane], self.span.token(block, lane));
                if key >= first {
                    sums[((key.number() - first.number()) >> shift) as usize] += amounts[lane] as u64;
                }
            }
        }));
    }
}

/// Which of up to 64 block maxima are `logit` or more, a bit each.
#[inline(always)]
fn reaching<S: Lanes>(simd: S, maxima: &[f32], logit: f32) -> u64 {
    match maxima.first_chunk::<BLOCK>() {
        Some(maxima) => at_least(f32::load(simd, maxima), logit),
        None => maxima.iter().rev().fold(0, |bits, &x| bits << 1 | u64::from(x >= logit)),
    }
}

/// Which of 64 logits are `lowest` or more, and below `limit`.
#[inline(always)]
pub(crate) fn between<S: Lanes>(simd: S, lanes: &[f32; BLOCK], lowest: f32, limit: f32) -> u64 {
    let (a, b, c, d) = f32::load(simd, lanes);
    let (a, b) = (a.simd_ge(lowest) & a.simd_lt(limit), b.simd_ge(lowest) & b.simd_lt(limit));
    let (c, d) = (c.simd_ge(lowest) & c.simd_lt(limit), d.simd_ge(lowest) & d.simd_lt(limit));
    a.to_bitmask() | b.to_bitmask() << 16 | c.to_bitmask() << 32 | d.to_bitmask() << 48
}

/// Which of 64 logits, the first of which is that of token `first`, stand up to `last` in the order.
#[inline(always)]
pub(crate) fn up_to<S: Lanes>(simd: S, lanes: &[f32; BLOCK], first: u32, last: Key) -> u64 {
    let four = f32::load(simd, lanes);
    let reaching = at_least(four, last.logit());
    let before = last.token().wrapping_sub(first);
    if last.token() >= first && before >= BLOCK as u32 - 1 {
        return reaching;
    }
    // Of those equal to the last logit, the ids up to the last one.
    let lower = if last.token() >= first { u64::MAX >> (63 - before) } else { 0 };
    reaching & (lower | at_least(four, last.logit().next_up()))
}

/// The logits whose bit is set; −inf for the others.
#[inline(always)]
pub(crate) fn only<'b, S: Lanes>(
    simd: S,
    lanes: &'b [f32; BLOCK],
    bits: u64,
    buffer: &'b mut [f32; BLOCK],
) -> &'b [f32; BLOCK] {
    only_or(simd, lanes, bits, f32::NEG_INFINITY, buffer)
}

/// The logits whose bit is set; `other` for the others.
#[inline(always)]
fn only_or<'b, S: Lanes>(
    simd: S,
    lanes: &'b [f32; BLOCK],
    bits: u64,
    other: f32,
    buffer: &'b mut [f32; BLOCK],
) -> &'b [f32; BLOCK] {
    if bits == u64::MAX {
        return lanes;
    }
    let other = f32x16::splat(simd, other);
    for i in 0..BLOCK / 16 {
        let mask = mask32x16::from_bitmask(simd, bits >> (16 * i) & 0xffff);
        let logits = f32x16::from_slice(simd, &lanes[16 * i..16 * i + 16]);
        mask.select(logits, other).store_slice(&mut buffer[16 * i..16 * i + 16]);
    }
    buffer
}
