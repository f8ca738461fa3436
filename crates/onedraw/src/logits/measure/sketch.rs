//! A rough picture of a row, from a part of its blocks: roughly where a given share of the mass ends.
//!
//! A sketch only says where to look. What is found there is summed and checked exactly, so no token depends
//! on it.

use fearless_simd::prelude::*;
use fearless_simd::{f32x16, i32x16};

use crate::kernels::passes::vectorized;
use crate::logits::edited::EditedRow;
use crate::numeric::mass::{Softmax, relative};
use crate::numeric::noise::BLOCK;

/// Buckets for each power of two of weight.
pub const STEPS: usize = 32;
/// All buckets: below 2^-44 of the best token's weight, tokens weigh nothing.
pub const BUCKETS: usize = 44 * STEPS;
/// Counters: one for each bucket and one for what lies below, rounded up to a power of two so that an index
/// can be masked.
const TALLY: usize = (BUCKETS + 1).next_power_of_two();
/// About one block in 16, those with the largest maxima, is counted whole; of the others, one in 16 is
/// sampled.
const PARTS: usize = 16;

/// Adds to `counts`, by weight, the tokens of the blocks with the largest maxima, and after these
/// ([`BUCKETS`] further) the tokens of a sample of the other blocks.
pub(crate) fn count(row: &EditedRow<'_>, softmax: Softmax, counts: &mut [u64]) {
    let high = high(row);
    let scale = softmax.scale * STEPS as f32;
    // Tokens with even and odd ids are counted apart: two additions in a row to the same counter would wait
    // for each other.
    let mut tallies = [[[0u32; TALLY]; 2]; 2];
    let mut buffer = [0.0; BLOCK];
    let mut buckets = [0; BLOCK];
    vectorized!(row.passes, simd => for (block, &maximum) in row.maxima().iter().enumerate() {
        let is_sampled = maximum < high;
        if is_sampled && (row.span.first_block() + block) % PARTS != PARTS / 2 {
            continue;
        }
        let lanes = row.lanes_by(simd, block, &mut buffer);
        for i in 0..BLOCK / 16 {
            let logits = f32x16::from_slice(simd, &lanes[16 * i..16 * i + 16]);
            let depth = (f32x16::splat(simd, softmax.x_max) - logits) * scale + 0.5;
            let bucket: i32x16<_> = depth.min(BUCKETS as f32).to_int();
            bucket.store_slice(&mut buckets[16 * i..16 * i + 16]);
        }
        let [even, odd] = &mut tallies[usize::from(is_sampled)];
        for pair in buckets.as_chunks::<2>().0 {
            even[pair[0] as usize % TALLY] += 1;
            odd[pair[1] as usize % TALLY] += 1;
        }
    });
    for (counts, [even, odd]) in counts.chunks_exact_mut(BUCKETS).zip(&tallies) {
        for ((count, &even), &odd) in counts.iter_mut().zip(even).zip(odd) {
            *count += u64::from(even + odd);
        }
    }
}

/// A maximum that about one block in [`PARTS`] reaches; all of a few blocks do.
fn high(row: &EditedRow<'_>) -> f32 {
    const SAMPLE: usize = 64;
    let maxima = row.maxima();
    if maxima.len() < 4 * SAMPLE {
        return f32::NEG_INFINITY;
    }
    let mut sample: [f32; SAMPLE] = std::array::from_fn(|i| maxima[i * maxima.len() / SAMPLE]);
    sample.sort_unstable_by(f32::total_cmp);
    sample[SAMPLE - SAMPLE / PARTS]
}

/// Sums over the buckets before one, in units of the best token's weight.
#[derive(Clone, Copy, Default)]
struct Sums {
    /// The mass that was counted token by token.
    counted: f64,
    /// The mass in the sample, and the sum of the squares of its weights.
    sampled: f64,
    squares: f64,
    /// Tokens, those of the sample times what each stands for.
    tokens: f64,
}

impl Sums {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            counted: self.counted - earlier.counted,
            sampled: self.sampled - earlier.sampled,
            squares: self.squares - earlier.squares,
            tokens: self.tokens - earlier.tokens,
        }
    }
}

/// What the counts say of a row whose mass is known.
pub(crate) struct Sketch {
    before: [Sums; BUCKETS + 1],
    /// What a token of the sample stands for.
    factor: f64,
}

/// Two distances from a centre, in powers of two of weight, between which a unit of mass should lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bracket {
    /// `None`: it may lie at the centre.
    pub nearer: Option<f64>,
    pub farther: f64,
    /// About how many tokens lie between them.
    pub tokens: f64,
}

impl Sketch {
    /// From the counts of [`count`], and the exact mass `total` of the tokens down to 2^`lowest` of the best
    /// one's weight.
    pub(crate) fn new(counts: &[u64], lowest: f64, total: u64) -> Self {
        let last = ((-lowest * STEPS as f64 + 0.5) as usize).min(BUCKETS - 1);
        let (counted, sampled) = counts.split_at(counts.len() / 2);
        // 2^(-1/32). Weights are those in the middle of a bucket, the best token's in that of the first.
        const STEP: f64 = 0.978_572_062_087_700_1;
        let mut sketch = Self { before: [Sums::default(); BUCKETS + 1], factor: 0.0 };
        let mut sums = Sums::default();
        let mut weight = 1.0;
        for (bucket, (&counted, &sampled)) in counted.iter().zip(sampled).enumerate() {
            if bucket <= last {
                sums.counted += counted as f64 * weight;
                sums.sampled += sampled as f64 * weight;
                sums.squares += sampled as f64 * weight * weight;
                sums.tokens += (counted + sampled * PARTS as u64) as f64;
            }
            weight *= STEP;
            sketch.before[bucket + 1] = sums;
        }
        let rest = relative(total) - sums.counted;
        sketch.factor = if sums.sampled > 0.0 && rest > 0.0 { rest / sums.sampled } else { 0.0 };
        sketch
    }

    /// The least and the most of a mass that comes from these buckets.
    fn bounds(&self, part: &Sums, caution: f64) -> (f64, f64) {
        /// Deviations of the sample that the true mass may be away.
        const DEVIATIONS: f64 = 2.5;
        /// The middle of a bucket for the weights within it.
        const ERROR: f64 = 0.004;
        let all = &self.before[BUCKETS];
        let share = if all.sampled > 0.0 { part.sampled / all.sampled } else { 0.0 };
        let rest = 1.0 - share;
        let squares = part.squares * rest * rest + (all.squares - part.squares) * share * share;
        let mass = part.counted + self.factor * part.sampled;
        let margin = DEVIATIONS * self.factor * squares.max(0.0).sqrt() + ERROR * part.counted;
        (mass - caution * margin, mass + caution * margin)
    }

    /// Where unit number `unit` of the mass should lie, counted by the distance from `centre`, which is
    /// 2^`centre` of the best. With more caution the bracket is wider.
    pub(crate) fn bracket(&self, centre: f64, unit: u64, caution: f64) -> Bracket {
        let (centre, unit) = (0.5 - centre * STEPS as f64, relative(unit));
        let sums = |from: f64, to: f64| {
            let place = |x: f64| (x.max(0.0) as usize).min(BUCKETS);
            let (from, to) = (place(from), place(to));
            if from < to { self.before[to].since(&self.before[from]) } else { Sums::default() }
        };
        // Distances in halves of buckets: all buckets that are touched, and those that lie inside.
        let touched = |d: u32| {
            let d = f64::from(d) / 2.0;
            sums((centre - d).floor(), (centre + d).floor() + 1.0)
        };
        let inside = |d: u32| {
            let d = f64::from(d) / 2.0;
            sums((centre - d).ceil(), (centre + d).floor())
        };
        // Past here every bucket is inside.
        let whole = 2 * (BUCKETS as u32 + 1);
        let first = |holds: &dyn Fn(u32) -> bool| {
            let (mut from, mut to) = (0, whole);
            while from < to {
                let middle = (from + to) / 2;
                if holds(middle) { to = middle } else { from = middle + 1 }
            }
            from
        };
        let nearer = first(&|d| self.bounds(&touched(d), caution).1 > unit).checked_sub(1);
        let farther = first(&|d| self.bounds(&inside(d), caution).0 > unit);
        let between = touched(farther).since(&nearer.map_or(Sums::default(), inside));
        let distance = |d: u32| f64::from(d) / (2 * STEPS) as f64;
        Bracket { nearer: nearer.map(distance), farther: distance(farther), tokens: between.tokens }
    }
}
