//! The head of a row: its first tokens in the order, listed once and asked often.
//!
//! Where a truncation keeps a short list, everything after it (the race, the mass, a rank) is answered from
//! the list.

use fearless_simd::f32x16;
use fearless_simd::prelude::*;

use crate::kernels::lanes::Lanes;
use crate::kernels::passes::vectorized;
use crate::kernels::weight::Masses;
use crate::logits::edited::EditedRow;
use crate::logits::measure::visit;
use crate::numeric::key::Key;
use crate::numeric::mass::Softmax;
use crate::numeric::noise::BLOCK;

/// Tokens of a slice, in order: all of those up to `last`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    keys: Vec<Key>,
    /// `None`: nothing is listed.
    last: Option<Key>,
    /// Blocks to select from, each as its earliest place.
    earliest: Vec<Key>,
}

/// So many times the tokens that are asked for are kept before the best of them are selected.
const CROWD: usize = 8;

/// Blocks that may be opened beyond those that are needed before ties are looked at.
const SPARE: usize = 64;

impl Head {
    /// The row changed.
    pub(crate) fn forget(&mut self) {
        self.last = None;
    }

    /// The tokens up to `last`, in order, if they are listed.
    pub(crate) fn up_to(&self, last: Key) -> Option<&[Key]> {
        let is_listed = self.last.is_some_and(|listed| last <= listed);
        is_listed.then(|| &self.keys[..self.keys.partition_point(|&key| key <= last)])
    }

    /// Lists the first `count` tokens.
    ///
    /// If `count` blocks reach a logit, each holds a token that does: so no token below it is among the first
    /// `count`.
    pub(crate) fn list(&mut self, row: &EditedRow<'_>, count: usize) -> &[Key] {
        self.keys.clear();
        if count == 0 {
            self.last = None;
            return &self.keys;
        }
        let maxima = row.maxima();
        // Room for what any row may show: a later step must not allocate.
        self.earliest.clear();
        self.earliest.reserve(maxima.len());
        self.keys.reserve((BLOCK * (2 * count + SPARE)).min(row.span.row.len()));
        let mut last = Key::END;
        if count < maxima.len() {
            let (reached, blocks) = vectorized!(row.passes, simd => reached_by(simd, maxima, count));
            last = Key::last_of(reached).min(Key::END);
            if blocks > 2 * count + SPARE {
                last = self.last_of_ties(row, count);
            }
        }
        // Where there are about as many blocks as tokens are asked for, a small vocabulary, most tokens pass
        // that bar; the ones found raise it.
        let (mut bar, keys) = (last, &mut self.keys);
        visit(row, last, |key| {
            if key <= bar {
                keys.push(key);
                if keys.len() == CROWD * count {
                    bar = *keys.select_nth_unstable(count - 1).1;
                    keys.truncate(count);
                }
            }
        });
        if keys.len() > 2 * count {
            keys.select_nth_unstable(count);
        }
        keys.sort_unstable();
        if keys.len() > count || bar < last {
            keys.truncate(count);
            last = keys.last().copied().unwrap_or(last);
        }
        self.last = Some(last);
        &self.keys
    }

    /// The last place that the first `count` tokens can have where many blocks have one maximum: they stand
    /// in the `count` blocks whose earliest places come first. For a token of another block, each of these
    /// holds one that is larger, or as large with a lower id.
    fn last_of_ties(&mut self, row: &EditedRow<'_>, count: usize) -> Key {
        self.earliest.clear();
        let maxima = row.maxima().iter().enumerate();
        self.earliest.extend(maxima.map(|(block, &maximum)| row.earliest(block, maximum)));
        let place = *self.earliest.select_nth_unstable(count - 1).1;
        Key::new(place.logit(), place.token() + BLOCK as u32 - 1).min(Key::END)
    }
}

/// The mass of listed tokens, whose logits `logit` gives.
#[inline(always)]
pub(crate) fn mass<S: Lanes>(simd: S, keys: &[Key], softmax: Softmax, logit: impl Fn(Key) -> f32) -> u64 {
    let mut masses = Masses::new(simd, softmax);
    for keys in keys.chunks(BLOCK) {
        let mut lanes = [f32::NEG_INFINITY; BLOCK];
        for (lane, &key) in lanes.iter_mut().zip(keys) {
            *lane = logit(key);
        }
        masses.add(&lanes, softmax.x_max);
    }
    masses.mass()
}

/// A logit that at least `count` of the blocks reach, and not many more if the maxima differ, with their
/// number. −f32::MAX if there are too few.
#[inline(always)]
fn reached_by<S: Lanes>(simd: S, maxima: &[f32], count: usize) -> (f32, usize) {
    /// Of few blocks, the largest of every 128th maximum tell as much as all of them.
    const COLUMNS: usize = 128;
    let mut columns = [f32::NEG_INFINITY; COLUMNS];
    let searched = if count <= COLUMNS / 2 && maxima.len() >= 4 * COLUMNS {
        for row in maxima.chunks(COLUMNS) {
            for (column, &x) in columns.iter_mut().zip(row) {
                *column = if x > *column { x } else { *column };
            }
        }
        &columns[..]
    } else {
        maxima
    };
    let reached = reached_in(simd, searched, count);
    (reached, count_from(simd, maxima, reached))
}

/// A bisection over the f32 between the smallest and the largest.
#[inline(always)]
fn reached_in<S: Lanes>(simd: S, maxima: &[f32], count: usize) -> f32 {
    let place = |x: f32| Key::new(x, 0).number() >> 32;
    let logit = |place: u64| Key::from_number(place << 32).logit();
    let (mut highest, mut lowest) = (f32::NEG_INFINITY, f32::INFINITY);
    for &x in maxima {
        highest = if x > highest { x } else { highest };
        lowest = if x < lowest && x > f32::NEG_INFINITY { x } else { lowest };
    }
    if lowest == f32::INFINITY || count_from(simd, maxima, lowest) < count {
        return -f32::MAX;
    }
    if count_from(simd, maxima, highest) >= count {
        return highest;
    }
    let (mut few, mut enough) = (place(highest), place(lowest));
    while enough - few > 1 {
        let middle = few + (enough - few) / 2;
        let reached = count_from(simd, maxima, logit(middle));
        if reached < count {
            few = middle;
        } else {
            enough = middle;
            if reached <= count + count / 8 + 2 {
                break;
            }
        }
    }
    logit(enough)
}

/// How many maxima are `limit` or more.
#[inline(always)]
fn count_from<S: Lanes>(simd: S, maxima: &[f32], limit: f32) -> usize {
    let (chunks, rest) = maxima.as_chunks::<16>();
    let mut count = 0;
    for lanes in chunks {
        count += f32x16::from_slice(simd, lanes).simd_ge(limit).to_bitmask().count_ones() as usize;
    }
    count + rest.iter().filter(|&&x| x >= limit).count()
}
