//! Weights and their sums, sixteen logits at a time: the vector form of [`Softmax`], bit for bit.

use fearless_simd::prelude::*;
use fearless_simd::{Simd, f32x16, i32x16, u64x8};

use crate::kernels::block::{Four, at_least};
use crate::kernels::lanes::{Lanes, pairs};
use crate::kernels::logit::Logit;
use crate::numeric::mass::{Interval, Softmax};
use crate::numeric::noise::BLOCK;

/// `t = (x − x_max) · scale`.
#[inline(always)]
fn exponents<S: Simd>((a, b, c, d): Four<S>, softmax: Softmax) -> Four<S> {
    let Softmax { x_max, scale } = softmax;
    ((a - x_max) * scale, (b - x_max) * scale, (c - x_max) * scale, (d - x_max) * scale)
}

#[inline(always)]
fn four_powers<S: Lanes>(simd: S, (a, b, c, d): Four<S>) -> Four<S> {
    (simd.powers(a), simd.powers(b), simd.powers(c), simd.powers(d))
}

/// The weights of a block before they are floored.
#[inline(always)]
pub(crate) fn powers<S: Lanes>(simd: S, lanes: &[f32; BLOCK], softmax: Softmax, powers: &mut [f32; BLOCK]) {
    let (a, b, c, d) = four_powers(simd, exponents(f32::load(simd, lanes), softmax));
    a.store_slice(&mut powers[..16]);
    b.store_slice(&mut powers[16..32]);
    c.store_slice(&mut powers[32..48]);
    d.store_slice(&mut powers[48..]);
}

/// Sums of weights that go on from block to block.
#[derive(Clone, Copy)]
pub(crate) struct Masses<S: Simd> {
    simd: S,
    softmax: Softmax,
    /// Below this logit every weight and every share of the entropy is 0.
    nothing_below: f32,
    /// Below these, four weights or four shares of the entropy have 32 bits together.
    small_below: f32,
    unsurprising_below: f32,
    sums: u64x8<S>,
    surprises: u64x8<S>,
    count: u32,
}

impl<S: Lanes> Masses<S> {
    #[inline(always)]
    pub(crate) fn new(simd: S, softmax: Softmax) -> Self {
        let below = |t: f32| softmax.x_max + t / softmax.scale;
        let zero = u64x8::splat(simd, 0);
        Self {
            simd,
            softmax,
            nothing_below: below(-50.0),
            small_below: below(-13.5),
            unsurprising_below: below(-17.5),
            sums: zero,
            surprises: zero,
            count: 0,
        }
    }

    /// Adds the weights of a block whose largest logit is `maximum` or less.
    #[inline(always)]
    pub(crate) fn add(&mut self, lanes: &[f32; BLOCK], maximum: f32) {
        if maximum < self.nothing_below {
            return;
        }
        let powers = four_powers(self.simd, exponents(f32::load(self.simd, lanes), self.softmax));
        self.sums = floors(self.simd, self.sums, powers, maximum < self.small_below);
    }

    /// As [`Masses::add`], of the logits that are `lowest` or more.
    #[inline(always)]
    pub(crate) fn add_from(&mut self, lanes: &[f32; BLOCK], maximum: f32, lowest: f32) {
        if maximum < self.nothing_below || maximum < lowest {
            return;
        }
        let (a, b, c, d) = f32::load(self.simd, lanes);
        let none = f32x16::splat(self.simd, f32::NEG_INFINITY);
        let (a, b) = (a.simd_ge(lowest).select(a, none), b.simd_ge(lowest).select(b, none));
        let (c, d) = (c.simd_ge(lowest).select(c, none), d.simd_ge(lowest).select(d, none));
        let powers = four_powers(self.simd, exponents((a, b, c, d), self.softmax));
        self.sums = floors(self.simd, self.sums, powers, maximum < self.small_below);
    }

    /// As [`Masses::add`], for a run of blocks and their maxima: what is constant stays in registers.
    #[inline(always)]
    pub(crate) fn and(mut self, blocks: &[[f32; BLOCK]], maxima: &[f32], with_entropy: bool) -> Self {
        for (lanes, &maximum) in blocks.iter().zip(maxima) {
            self.add_to(lanes, maximum, with_entropy);
        }
        self
    }

    /// [`Masses::add_spread`] or [`Masses::add`].
    #[inline(always)]
    pub(crate) fn add_to(&mut self, lanes: &[f32; BLOCK], maximum: f32, with_entropy: bool) {
        if with_entropy {
            self.add_spread(lanes, maximum);
        } else {
            self.add(lanes, maximum);
        }
    }

    /// As [`Masses::add`], and their shares of the entropy, and how many are alive.
    #[inline(always)]
    pub(crate) fn add_spread(&mut self, lanes: &[f32; BLOCK], maximum: f32) {
        let four = f32::load(self.simd, lanes);
        self.count += alive(four);
        if maximum < self.nothing_below {
            return;
        }
        let (a, b, c, d) = exponents(four, self.softmax);
        let exponents = (a.max(-64.0), b.max(-64.0), c.max(-64.0), d.max(-64.0));
        let powers = four_powers(self.simd, exponents);
        self.sums = floors(self.simd, self.sums, powers, maximum < self.small_below);
        let ((a, b, c, d), (p, q, r, s)) = (exponents, powers);
        let shares = (p * -a, q * -b, r * -c, s * -d);
        self.surprises = floors(self.simd, self.surprises, shares, maximum < self.unsurprising_below);
    }

    /// The sum of the weights.
    #[inline(always)]
    pub(crate) fn mass(&self) -> u64 {
        self.sums.as_slice().iter().sum()
    }

    /// How many were alive.
    #[inline(always)]
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The sum of their shares of the entropy.
    #[inline(always)]
    pub(crate) fn surprise(&self) -> u64 {
        self.surprises.as_slice().iter().sum()
    }
}

/// How many of 64 logits are not −inf: mostly all.
#[inline(always)]
fn alive<S: Lanes>(four: Four<S>) -> u32 {
    let (a, b, c, d) = four;
    let least = a.min(b).min(c.min(d));
    if least.simd_ge(-f32::MAX).all_true() { BLOCK as u32 } else { at_least(four, -f32::MAX).count_ones() }
}

/// Adds floors. Where they are small, 32 bits do.
#[inline(always)]
fn floors<S: Lanes>(simd: S, sums: u64x8<S>, powers: Four<S>, are_small: bool) -> u64x8<S> {
    if !are_small {
        return simd.add(sums, powers);
    }
    let (a, b, c, d) = powers;
    let (a, b): (i32x16<S>, i32x16<S>) = (a.to_int(), b.to_int());
    let (c, d): (i32x16<S>, i32x16<S>) = (c.to_int(), d.to_int());
    sums + pairs(simd, (a + b) + (c + d))
}

/// An estimate of masses in f32: cheaper than sums of integers, and precise enough to decide most questions.
pub(crate) struct Estimate<S: Simd> {
    simd: S,
    softmax: Softmax,
    /// The logit of the token that is asked about.
    logit: f32,
    /// Blocks that do not reach this are not opened.
    depth: f32,
    all: Sum<S>,
    before: Sum<S>,
    /// The largest weights of the blocks that were not opened.
    unopened: Sum<S>,
}

impl<S: Lanes> Estimate<S> {
    #[inline(always)]
    pub(crate) fn new(simd: S, softmax: Softmax, logit: f32, depth: f32) -> Self {
        let zero = Sum::new(simd);
        let depth = if depth < logit { depth } else { logit };
        Self { simd, softmax, logit, depth, all: zero, before: zero, unopened: zero }
    }

    /// Takes the maxima of 64 blocks. Says which of the blocks must be opened, a bit each; of the others this
    /// is all that is looked at.
    #[inline(always)]
    pub(crate) fn take(&mut self, maxima: &[f32; BLOCK]) -> u64 {
        let four = f32::load(self.simd, maxima);
        let (p, q, r, s) = four_powers(self.simd, exponents(four, self.softmax));
        let (a, b, c, d) = four;
        let (a, b) = (a.simd_lt(self.depth), b.simd_lt(self.depth));
        let (c, d) = (c.simd_lt(self.depth), d.simd_lt(self.depth));
        let zero = f32x16::splat(self.simd, 0.0);
        self.unopened.add((a.select(p, zero), b.select(q, zero), c.select(r, zero), d.select(s, zero)));
        let closed = a.to_bitmask() | b.to_bitmask() << 16 | c.to_bitmask() << 32 | d.to_bitmask() << 48;
        !closed
    }

    /// Adds an opened block. With `ties`, tokens of the logit itself come before the one that is asked about.
    #[inline(always)]
    pub(crate) fn open(&mut self, lanes: &[f32; BLOCK], ties: bool) {
        let above = if ties { self.logit.next_down() } else { self.logit };
        let four = f32::load(self.simd, lanes);
        let (p, q, r, s) = four_powers(self.simd, exponents(four, self.softmax));
        let (a, b, c, d) = four;
        let zero = f32x16::splat(self.simd, 0.0);
        self.all.add((p, q, r, s));
        let (p, q) = (a.simd_gt(above).select(p, zero), b.simd_gt(above).select(q, zero));
        let (r, s) = (c.simd_gt(above).select(r, zero), d.simd_gt(above).select(s, zero));
        self.before.add((p, q, r, s));
    }

    /// Adds tokens of the logit itself that come before the one that is asked about.
    #[inline(always)]
    pub(crate) fn tie(&mut self, tokens: u32) {
        self.before.total += f64::from(tokens) * self.softmax.weight(self.logit) as f64;
    }

    /// The mass before the token, and the whole mass of a row of `tokens`.
    #[inline(always)]
    pub(crate) fn intervals(&mut self, tokens: u64) -> (Interval, Interval) {
        let (all, before, unopened) = (self.all.total(), self.before.total(), self.unopened.total());
        let whole = Interval::around(all + unopened, all + BLOCK as f64 * unopened, tokens);
        (Interval::around(before, before, tokens), whole)
    }
}

/// A sum of f32 that is emptied into an f64 before it gets long.
#[derive(Clone, Copy)]
struct Sum<S: Simd> {
    lanes: f32x16<S>,
    blocks: u32,
    total: f64,
}

impl<S: Simd> Sum<S> {
    #[inline(always)]
    fn new(simd: S) -> Self {
        Self { lanes: f32x16::splat(simd, 0.0), blocks: 0, total: 0.0 }
    }

    #[inline(always)]
    fn add(&mut self, (a, b, c, d): Four<S>) {
        self.lanes += (a + b) + (c + d);
        self.blocks += 1;
        if self.blocks == BLOCK as u32 {
            self.total();
        }
    }

    #[inline(always)]
    fn total(&mut self) -> f64 {
        self.total += f64::from(self.lanes.reduce_sum());
        self.lanes = f32x16::splat(self.lanes.simd, 0.0);
        self.blocks = 0;
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::passes::{Passes, vectorized};

    fn lanes(i: u32, depth: f32) -> [f32; BLOCK] {
        std::array::from_fn(|lane| {
            let word = (i * 64 + lane as u32).wrapping_mul(2_654_435_761);
            if word.is_multiple_of(17) { f32::NEG_INFINITY } else { 3.0 - (word >> 8) as f32 / depth }
        })
    }

    /// Blocks from the best token down to where weights end, so that every way to sum is taken.
    #[test]
    fn every_instruction_set_sums_the_same_masses() {
        let softmax = Softmax::new(3.0, 0.37);
        for i in 0..20_000u32 {
            let mut lanes = lanes(i, 500_000.0);
            lanes.iter_mut().for_each(|x| *x -= (i % 32) as f32 * 0.4);
            let top = lanes.iter().fold(f32::NEG_INFINITY, |a, &b| if b > a { b } else { a });
            let mass: u64 = lanes.iter().map(|&x| softmax.weight(x)).sum();
            let surprise: u64 = lanes.iter().map(|&x| softmax.surprise(x).1).sum();
            for passes in Passes::supported() {
                let sums = vectorized!(passes, simd => {
                    let mut masses = Masses::new(simd, softmax);
                    masses.add(&lanes, top);
                    let alone = masses.mass();
                    masses.add_spread(&lanes, top);
                    (alone, masses.mass() - alone, masses.surprise())
                });
                assert_eq!(sums, (mass, mass, surprise), "{passes:?}");
                let mut floors = [0.0; BLOCK];
                vectorized!(passes, simd => powers(simd, &lanes, softmax, &mut floors));
                assert_eq!(floors.map(|power| power as u64), lanes.map(|x| softmax.weight(x)), "{passes:?}");
            }
        }
    }

    #[test]
    fn an_estimate_holds_the_exact_masses() {
        let softmax = Softmax::new(3.0, 1.7);
        for (depth, key) in [(500_000.0, 2.9), (500_000.0, -3.0), (2_000_000.0, 0.5), (9e6, 2.95)] {
            let blocks: Vec<[f32; BLOCK]> = (0..640).map(|i| lanes(i, depth)).collect();
            let maximum =
                |block: &[f32; BLOCK]| block.iter().fold(f32::MIN, |a, &b| if b > a { b } else { a });
            let maxima: Vec<f32> = blocks.iter().map(maximum).collect();
            let weight = |x: &f32| softmax.weight(*x);
            let total: u64 = blocks.iter().flatten().map(weight).sum();
            let above: u64 = blocks.iter().flatten().filter(|&&x| x > key).map(weight).sum();
            for passes in Passes::supported() {
                let (before, whole) = vectorized!(passes, simd => {
                    let mut estimate = Estimate::new(simd, softmax, key, f32::INFINITY);
                    for (maxima, blocks) in maxima.as_chunks().0.iter().zip(blocks.chunks(BLOCK)) {
                        let opened = estimate.take(maxima);
                        for (i, block) in blocks.iter().enumerate() {
                            assert_eq!(opened >> i & 1 == 1, maxima[i] >= key);
                            if opened >> i & 1 == 1 {
                                estimate.open(block, false);
                            }
                        }
                    }
                    estimate.intervals(640 * 64)
                });
                assert!(before.least <= above && above <= before.most, "{above} {before:?} {passes:?}");
                assert!(whole.least <= total && total <= whole.most, "{total} {whole:?} {passes:?}");
                assert!(before.most - before.least < before.most / 4096 + 50_000, "{before:?}");
            }
        }
    }
}
