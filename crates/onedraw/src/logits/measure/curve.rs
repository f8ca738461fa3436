//! The curve of masses: how the mass of the tokens after a place grows along the order, told by few points.
//!
//! Logits are divided into steps, and a point says up to which step the tokens weigh no more than some target:
//!
//! ```text
//! for each token after `last`, up to `end`: sums[step of its logit] += its weight
//! for each point:                           the number of steps, from the first on, whose sums together do
//!                                           not exceed the point's target
//! ```
//!
//! The targets follow from the mass of all these tokens ([`Targets`]), so a point is only the number of a
//! step. Half of the points, or all of them, divide the mass into equal parts. The other half lies around the
//! share at which a top-p is expected to cut: that is where a draw needs the masses most precisely. On rows
//! of 128,256 normal logits the step that a top-p of 0.9 cuts holds 0.1 % of the mass
//! (bench/results/2026-11-18-ranks.md).
//!
//! What this code does differently: blocks in which every weight is 0 are skipped, and the weights and
//! steps of a block are computed sixteen at a time. Both give the same sums, which are sums of integers.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, i32x16};

use crate::kernels::passes::vectorized;
use crate::kernels::weight::powers;
use crate::logits::block::{only, up_to};
use crate::logits::edited::EditedRow;
use crate::numeric::key::Key;
use crate::numeric::mass::Softmax;
use crate::numeric::noise::BLOCK;

/// How many points there are.
pub(crate) const POINTS: usize = 256;

/// How many steps there are. The last one takes all that is lower: every weight below 2^-32.
pub(crate) const STEPS: usize = 4096;

/// Steps for each power of two of weight. A device sums them all in the shared memory of one thread block,
/// which has room for no more.
pub(crate) const STEPS_PER_OCTAVE: f32 = 128.0;

/// The points around an expected cut lie within one part in so many of the mass, on either side. Ranks that
/// hold 8,016 tokens of a row of normal logits differ by a hundredth of it.
pub(crate) const FOCUS: u64 = 16;

/// The step of a logit, at most `softmax.x_max`. A lower logit has the same step or a later one: every
/// operation is monotone, rounded or not.
pub(crate) fn step_of(x: f32, softmax: Softmax) -> usize {
    let depth = (softmax.x_max - x) * softmax.scale;
    (STEPS_PER_OCTAVE * depth).min(STEPS as f32 - 1.0) as usize
}

/// The masses that the points are about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Targets {
    mass: u64,
    /// The lowest target around the expected cut, if there is one.
    lowest: Option<u64>,
}

impl Targets {
    /// For tokens of this `mass` that come after others, which weigh `listed`. A cut is expected at `focus` /
    /// 2^53 of both together; 0: nowhere.
    pub(crate) fn new(mass: u64, listed: u64, focus: u64) -> Self {
        let cut = (u128::from(focus) * (u128::from(mass) + u128::from(listed))) >> 53;
        let cut = cut.saturating_sub(listed.into()).min(mass.into()) as u64;
        Self { mass, lowest: (focus > 0).then(|| cut.saturating_sub(mass / FOCUS)) }
    }

    /// The target of a point.
    pub(crate) fn of(&self, point: usize) -> u64 {
        const HALF: u64 = POINTS as u64 / 2;
        let point = point as u64;
        // `part` of `parts` equal ones, rounded down. No product overflows.
        let share = |mass: u64, part: u64, parts: u64| mass / parts * part + mass % parts * part / parts;
        match self.lowest {
            None => share(self.mass, point, 2 * HALF),
            Some(_) if point < HALF => share(self.mass, point, HALF),
            Some(lowest) => (lowest + share(self.mass / FOCUS * 2, point - HALF, HALF)).min(self.mass),
        }
    }

    /// Bounds of two masses: at least how much the tokens weigh whose logits are in steps before `step`, and
    /// at most how much those up to the end of `step`.
    pub(crate) fn bounds(&self, points: &[u16], step: usize) -> (u64, u64) {
        let (mut least, mut most) = (0, self.mass);
        for (first, points) in rising(points, self.lowest.is_some()) {
            // The steps before a point weigh no more than its target, and one step more weighs more than it.
            let before = points.partition_point(|&point| usize::from(point) < step);
            let up_to = points.partition_point(|&point| usize::from(point) <= step);
            if before > 0 {
                least = least.max(self.of(first + before - 1));
            }
            if up_to < points.len() {
                most = most.min(self.of(first + up_to));
            }
        }
        (least.min(most), most)
    }
}

/// Runs of points whose targets rise, each with the number of its first point.
fn rising(points: &[u16], is_focused: bool) -> impl Iterator<Item = (usize, &[u16])> {
    let length = if is_focused { POINTS / 2 } else { POINTS };
    points.chunks(length).enumerate().map(move |(run, points)| (run * length, points))
}

/// Whether a curve can have these points, with such a focus: where targets rise, points do not fall.
pub(crate) fn are_possible(points: &[u16], focus: u64) -> bool {
    rising(points, focus > 0).all(|(_, points)| points.is_sorted())
}

/// The tokens that a curve is about: those after the listed ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    /// The last listed token.
    pub last: Key,
    /// No token counts that comes after this.
    pub end: Key,
    /// No logit of the row is above its `x_max`.
    pub softmax: Softmax,
    /// The mass of the listed tokens.
    pub listed: u64,
    /// As in [`Targets::new`].
    pub focus: u64,
}

/// Writes the points of the tail's curve; returns the tail's mass.
pub(crate) fn draw(row: &EditedRow<'_>, tail: &Tail, points: &mut [u16]) -> u64 {
    let mut sums = [0; STEPS];
    sum(row, tail, &mut sums);
    let mut mass = 0;
    for sum in &mut sums {
        mass += *sum;
        *sum = mass;
    }
    let targets = Targets::new(mass, tail.listed, tail.focus);
    for (i, point) in points.iter_mut().enumerate() {
        let target = targets.of(i);
        *point = sums.partition_point(|&upto| upto <= target) as u16;
    }
    mass
}

/// Adds the weights of the tail's tokens to the sums of their steps.
fn sum(row: &EditedRow<'_>, tail: &Tail, sums: &mut [u64; STEPS]) {
    let Tail { last, end, softmax, .. } = *tail;
    let Softmax { x_max, scale } = softmax;
    // Weights are 0 from 2^-44 on; the rest is room for rounding.
    let lowest = (x_max - 50.0 / scale).max(end.logit());
    let (mut buffer, mut counted) = ([0.0; BLOCK], [0.0; BLOCK]);
    let (mut weights, mut steps) = ([0.0; BLOCK], [0i32; BLOCK]);
    vectorized!(row.passes, simd => for (block, &maximum) in row.maxima().iter().enumerate() {
        if maximum < lowest {
            continue;
        }
        let lanes = row.lanes_by(simd, block, &mut buffer);
        let first = row.span.token(block, 0);
        let listed = if maximum < last.logit() { 0 } else { up_to(simd, lanes, first, last) };
        let lanes = only(simd, lanes, up_to(simd, lanes, first, end) & !listed, &mut counted);
        powers(simd, lanes, softmax, &mut weights);
        for i in 0..BLOCK / 16 {
            let logits = f32x16::from_slice(simd, &lanes[16 * i..16 * i + 16]);
            let depth = (f32x16::splat(simd, x_max) - logits) * scale;
            let step: i32x16<_> = (depth * STEPS_PER_OCTAVE).min(STEPS as f32 - 1.0).to_int();
            step.store_slice(&mut steps[16 * i..16 * i + 16]);
        }
        for (&step, &weight) in steps.iter().zip(&weights) {
            sums[step as usize % STEPS] += weight as u64;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::passes::Passes;
    use crate::kernels::row::Row;
    use crate::logits::edited::EditedMemory;
    use crate::logits::span::Span;
    use onedraw_testkit::rows;

    #[test]
    fn steps_are_monotone_and_cover_every_weight() {
        let softmax = Softmax::new(3.0, 0.8);
        assert_eq!(step_of(3.0, softmax), 0);
        assert_eq!(step_of(-f32::MAX, softmax), STEPS - 1);
        assert_eq!(step_of(f32::NEG_INFINITY, softmax), STEPS - 1);
        let (mut x, mut last) = (3.0f32, 0);
        let mut met = 1;
        while x > -40.0 {
            let step = step_of(x, softmax);
            assert!(step == last || step == last + 1, "{x}: {step} after {last}");
            met += usize::from(step != last);
            assert!(step < STEPS - 1 || softmax.weight(x) <= 1 << 12, "{x}");
            (last, x) = (step, x - 1e-3);
        }
        assert_eq!(met, STEPS);
    }

    #[test]
    fn targets_lie_evenly_and_around_the_cut() {
        let even = Targets::new(1000, 500, 0);
        assert_eq!([0, 1, 2, 128, 255].map(|point| even.of(point)), [0, 3, 7, 500, 996]);
        // Nine tenths of 320,000 are 288,000, of which 160,000 are listed.
        let focused = Targets::new(160_000, 160_000, (0.9 * (1u64 << 53) as f64) as u64);
        assert_eq!([0, 64, 127].map(|point| focused.of(point)), [0, 80_000, 158_750]);
        assert_eq!([128, 192, 255].map(|point| focused.of(point)), [118_000, 128_000, 137_843]);
        // The cut lies among the listed tokens, or at the end.
        let early = Targets::new(1600, 1 << 40, 1 << 52);
        assert_eq!([128, 255].map(|point| early.of(point)), [0, 198]);
        let late = Targets::new(1600, 0, 1 << 53);
        assert_eq!([128, 255].map(|point| late.of(point)), [1500, 1600]);
        // The most that 2^20 tokens weigh.
        let largest = Targets::new(1 << 63, 1 << 63, 1 << 53);
        assert_eq!((largest.of(1), largest.of(255)), (1 << 56, 1 << 63));
    }

    /// Every instruction set draws the points of the naive loop, and the bounds that follow from them hold.
    #[test]
    fn points_are_those_of_the_definition() {
        for (seed, row) in
            [rows::gaussian(3, 5000, 4.0), rows::ties(4, 3000, 9), rows::masked(5, 2000, 0.5), vec![1.0; 70]]
                .into_iter()
                .enumerate()
        {
            let start = 37 * seed;
            let mut order: Vec<Key> =
                (start as u32..).zip(&row).map(|(token, &x)| Key::new(x, token)).collect();
            order.retain(|&key| key < Key::END);
            order.sort_unstable();
            let softmax = Softmax::new(order[0].logit(), 0.7);
            let mass = |keys: &[Key]| keys.iter().map(|key| softmax.weight(key.logit())).sum::<u64>();
            let cases =
                [(0, order.len(), 0), (1, order.len(), 1 << 52), (49, order.len() / 2, 0), (49, 3, 1)];
            for (place, length, focus) in cases {
                let tail_of = &order[place + 1..length.max(place + 1)];
                let (listed, end) = (mass(&order[..=place]), order[length - 1]);
                let tail = Tail { last: order[place], end, softmax, listed, focus };
                let mut sums = [0u64; STEPS];
                for key in tail_of {
                    sums[step_of(key.logit(), softmax)] += softmax.weight(key.logit());
                }
                let targets = Targets::new(mass(tail_of), listed, focus);
                let whole_steps = |target: u64| {
                    let mut upto = 0;
                    sums.iter()
                        .take_while(|&&sum| (upto + sum <= target).then(|| upto += sum).is_some())
                        .count()
                };
                let expected: Vec<u16> = (0..POINTS).map(|i| whole_steps(targets.of(i)) as u16).collect();
                for passes in Passes::supported() {
                    let mut memory = EditedMemory::default();
                    let span = Span { row: Row::from(&row), start };
                    let mut edited = EditedRow { span, passes, memory: &mut memory };
                    edited.reset();
                    edited.scan().expect("a good row");
                    let mut found = [7; POINTS];
                    assert_eq!(draw(&edited, &tail, &mut found), mass(tail_of), "{passes:?}, place {place}");
                    assert_eq!(found[..], expected, "{passes:?}, place {place}");
                }
                for step in (0..STEPS).step_by(41) {
                    let (least, most) = targets.bounds(&expected, step);
                    assert!(least <= sums[..step].iter().sum() && most >= sums[..=step].iter().sum());
                }
            }
        }
    }
}
