//! Counts and masses.

use crate::kernels::block::at_least;
use crate::kernels::deviation::Deviations;
use crate::kernels::lanes::Lanes;
use crate::kernels::logit::Logit;
use crate::kernels::passes::vectorized;
use crate::kernels::row::Row;
use crate::kernels::weight::{Estimate, Masses, powers};
use crate::logits::block::{only, only_or, reaching};
use crate::logits::edited::EditedRow;
use crate::logits::measure::centre::Centre;
use crate::logits::measure::open;
use crate::numeric::key::Key;
use crate::numeric::mass::{Interval, Softmax, Spread};
use crate::numeric::noise::BLOCK;

/// What a sum by key adds up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measure {
    /// Tokens.
    Count,
    /// Weights.
    Mass(Softmax),
}

/// The masses up to and including `last`.
#[inline(always)]
fn masses<S: Lanes>(
    row: &EditedRow<'_>,
    simd: S,
    last: Key,
    softmax: Softmax,
    with_entropy: bool,
) -> Masses<S> {
    let masses = Masses::new(simd, softmax);
    if last == Key::END {
        return all_masses(row, simd, masses, with_entropy);
    }
    let (mut masses, mut buffer) = (masses, [0.0; BLOCK]);
    open(
        row,
        simd,
        last,
        #[inline(always)]
        |block, lanes, listed| {
            let lanes = only(simd, lanes, listed, &mut buffer);
            masses.add_to(lanes, row.maxima()[block], with_entropy);
        },
    );
    masses
}

/// The masses of all: what is masked weighs nothing.
#[inline(always)]
fn all_masses<S: Lanes>(row: &EditedRow<'_>, simd: S, masses: Masses<S>, with_entropy: bool) -> Masses<S> {
    let maxima = row.maxima();
    let (run, first) = match row.span.whole_blocks() {
        (Row::F32(logits), first) if row.is_clean() => (logits.as_chunks().0, first),
        _ => (&[][..], 0),
    };
    let end = first + run.len();
    let mut masses = masses.and(run, &maxima[first..end], with_entropy);
    let mut buffer = [0.0; BLOCK];
    for block in (0..first).chain(end..maxima.len()) {
        masses.add_to(row.lanes_by(simd, block, &mut buffer), maxima[block], with_entropy);
    }
    masses
}

/// How many tokens come before `key`. Where there are `enough` or more, it may return `enough` instead.
pub(crate) fn count_before(row: &EditedRow<'_>, key: Key, enough: u32) -> u32 {
    // A masked token comes after all that are alive.
    let key = key.min(Key::END);
    vectorized!(row.passes, simd => {
        // Every block whose maximum is larger holds at least one such token: often that is enough, and no
        // block is opened.
        let higher: u32 = row.maxima().chunks(BLOCK)
            .map(#[inline(always)] |maxima| reaching(simd, maxima, key.logit().next_up()).count_ones())
            .sum();
        if higher >= enough {
            return enough;
        }
        let mut count = 0;
        let mut buffer = [0.0; BLOCK];
        for (group, maxima) in row.maxima().chunks(BLOCK).enumerate() {
            let mut reaching = reaching(simd, maxima, key.logit());
            while reaching != 0 {
                let block = group * BLOCK + reaching.trailing_zeros() as usize;
                reaching &= reaching - 1;
                let lanes = row.lanes_by(simd, block, &mut buffer);
                let first = row.span.token(block, 0);
                // Of the logits equal to that of `key`, those with a lower id come before it.
                let is_before = first + (BLOCK as u32) <= key.token();
                let least = if is_before { key.logit() } else { key.logit().next_up() };
                count += at_least(f32::load(simd, lanes), least).count_ones();
                if !is_before && first < key.token() {
                    let own = &lanes[..(key.token() - first) as usize];
                    count += own.iter().map(|&x| u32::from(x == key.logit())).sum::<u32>();
                }
            }
        }
        count
    })
}

/// The mass before `key` and the mass of all tokens, each as an interval. Opens the blocks whose maximum
/// reaches the logit of `key` or `depth`; the others are only bounded.
pub(crate) fn weigh(row: &EditedRow<'_>, key: Key, softmax: Softmax, depth: f32) -> (Interval, Interval) {
    vectorized!(row.passes, simd => {
        let mut estimate = Estimate::new(simd, softmax, key.logit(), depth);
        let mut buffer = [0.0; BLOCK];
        for (group, maxima) in row.maxima().chunks(BLOCK).enumerate() {
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
                let lanes = row.lanes_by(simd, block, &mut buffer);
                let first = row.span.token(block, 0);
                estimate.open(lanes, first + (BLOCK as u32) <= key.token());
                if (first..first + BLOCK as u32).contains(&key.token()) {
                    let own = &lanes[..(key.token() - first) as usize];
                    estimate.tie(own.iter().map(|&x| u32::from(x == key.logit())).sum());
                }
            }
        }
        estimate.intervals(row.span.row.len() as u64)
    })
}

/// The mass of the tokens up to and including `last`.
pub(crate) fn mass(row: &EditedRow<'_>, last: Key, softmax: Softmax) -> u64 {
    vectorized!(row.passes, simd => masses(row, simd, last, softmax, false).mass())
}

/// Count, mass and the entropy's sum of the tokens up to and including `last`.
pub(crate) fn spread(row: &EditedRow<'_>, last: Key, softmax: Softmax) -> Spread {
    vectorized!(row.passes, simd => {
        let masses = masses(row, simd, last, softmax, true);
        Spread { count: masses.count(), total: masses.mass(), surprise: masses.surprise() }
    })
}

/// The last token that comes no later than `last`.
pub(crate) fn last(row: &EditedRow<'_>, last: Key) -> Option<Key> {
    let mut latest: Option<Key> = None;
    let mut buffer = [0.0; BLOCK];
    vectorized!(row.passes, simd => open(row, simd, last, #[inline(always)] |block, lanes, listed| {
        // Few blocks hold a token that comes after all those of earlier blocks; only these are looked at
        // token by token.
        let lowest = latest.map_or(f32::INFINITY, Key::logit);
        let lanes = only_or(simd, lanes, listed, f32::INFINITY, &mut buffer);
        let mut later = !at_least(f32::load(simd, lanes), lowest.next_up());
        while later != 0 {
            let lane = later.trailing_zeros() as usize;
            later &= later - 1;
            latest = latest.max(Some(Key::new(lanes[lane], row.span.token(block, lane))));
        }
    }));
    latest
}

/// Count, sum and sum of squares of `floor((x_max − x) · factor)` over the tokens up to and including `last`.
pub(crate) fn deviations(row: &EditedRow<'_>, last: Key, x_max: f32, factor: f64) -> (u32, u64, u128) {
    let mut count = 0;
    let mut buffer = [0.0; BLOCK];
    let (sum, squares) = vectorized!(row.passes, simd => {
        let mut deviations = Deviations::new(simd, x_max, factor);
        open(row, simd, last, #[inline(always)] |_, lanes, listed| {
            count += listed.count_ones();
            // The best logit is at distance 0 and adds nothing.
            deviations.add(only_or(simd, lanes, listed, x_max, &mut buffer));
        });
        deviations.sums()
    });
    (count, sum, squares)
}

/// Adds the masses of the tokens up to `last` to `sums`, by their distance from the centre: 2^width intervals
/// of 2^shift bit patterns each, from `first` on.
pub(crate) fn by_distance(
    row: &EditedRow<'_>,
    centre: &Centre,
    last: Key,
    (first, shift): (u32, u32),
    sums: &mut [u64],
) {
    let softmax = centre.temperature.softmax(centre.x_max);
    let mut weights = [0.0; BLOCK];
    vectorized!(row.passes, simd => open(row, simd, last, #[inline(always)] |_, lanes, mut listed| {
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

/// Adds `measure` to `sums`, by key: 2^width intervals of 2^shift keys each, from `first` on.
pub(crate) fn by_key(
    row: &EditedRow<'_>,
    (first, shift, width): (Key, u32, u32),
    measure: Measure,
    sums: &mut [u64],
) {
    let last =
        Key::from_number(first.number().saturating_add(u64::MAX >> (64 - shift - width))).min(Key::END);
    let mut amounts = [1.0; BLOCK];
    vectorized!(row.passes, simd => open(row, simd, last, #[inline(always)] |block, lanes, mut listed| {
        if let Measure::Mass(softmax) = measure {
            powers(simd, lanes, softmax, &mut amounts);
        }
        while listed != 0 {
            let lane = listed.trailing_zeros() as usize;
            listed &= listed - 1;
            let key = Key::new(lanes[lane], row.span.token(block, lane));
            if key >= first {
                sums[((key.number() - first.number()) >> shift) as usize] += amounts[lane] as u64;
            }
        }
    }));
}
