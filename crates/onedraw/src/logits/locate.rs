//! Where a given unit of mass lies, or the k-th token: what top-p, typical and large top-k need.
//!
//! The naive form sorts the row and adds up weights until the unit is reached. Nothing is sorted here:
//!
//! 1. A sketch says roughly where the unit lies, as a bracket between two distances. One pass sums the mass
//!    nearer than the bracket exactly and lists the tokens in it; the unit is then selected from the list. If
//!    the exact sum shows that the bracket was wrong, a wider bracket is tried.
//! 2. If that fails too, or the bracket holds too many tokens (a row of ties), a radix select finds the place
//!    digit by digit, with one histogram for each digit.
//!
//! Both are exact: the sketch only says where to look.

use crate::error::RowError;
use crate::kernels::passes::vectorized;
use crate::logits::access::{Asker, RowAccess};
use crate::logits::measure::band::{BAND_CAPACITY, MAX_BAND, Stretch};
use crate::logits::measure::centre::Centre;
use crate::logits::measure::head;
use crate::logits::measure::sketch::{self, Bracket};
use crate::logits::measure::sums::Measure;
use crate::logits::query::{ListBand, Query, Sketch, SumByDistance, SumByKey};
use crate::numeric::key::Key;
use crate::numeric::mass::Softmax;

/// How wide brackets are, as multiples of the sketch's own uncertainty: the second is tried where the first
/// was wrong.
const BRACKET_WIDTHS: [f64; 2] = [1.0, 4.0];

/// The digits of a distance, which is the bits of a non-negative f32.
const DISTANCE_DIGITS: [(u8, u8); 3] = [(21, 11), (10, 11), (0, 10)];

const NO_SUCH_UNIT: RowError = RowError::contradiction("the row has less mass than its total");

/// The tokens up to `last`, and their mass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KeptMass {
    pub last: Key,
    pub softmax: Softmax,
    pub total: u64,
}

/// The token in which unit number `unit` of the mass lies, counted from 0 in the order.
pub(crate) async fn by_mass<R: RowAccess>(
    row: &mut Asker<'_, R>,
    of: KeptMass,
    unit: u64,
) -> Result<Key, RowError> {
    let Softmax { x_max, scale } = of.softmax;
    let within = |distance: f64| {
        let lowest = (f64::from(x_max) - distance / f64::from(scale)) as f32;
        Some(Stretch { highest: x_max, lowest: lowest.max(-f32::MAX) })
    };
    for bracket in brackets(row, of, 0.0, unit).await? {
        if let Some(unit) = list_bracket(row, of, bracket, within, unit).await?
            && let Some(key) = select_listed(row, unit, of.softmax, Key::logit)
        {
            return Ok(key);
        }
    }
    by_radix(row, Measure::Mass(of.softmax), unit).await?.ok_or(NO_SUCH_UNIT)
}

/// The distance from the centre of the token in which unit number `unit` of the mass lies, counted from 0 by
/// distance.
pub(crate) async fn by_distance<R: RowAccess>(
    row: &mut Asker<'_, R>,
    centre: Centre,
    of: KeptMass,
    unit: u64,
) -> Result<f32, RowError> {
    use std::f64::consts::{LN_2, LOG2_E};
    // Listed tokens are selected by distance: the upper half of a key becomes the distance, the lower half
    // keeps the logit.
    let by_distance = |key: Key| {
        let distance = u64::from(centre.distance(key.logit()).to_bits());
        Key::from_number(distance << 32 | key.number() >> 32)
    };
    let logit = |key: Key| Key::from_number(key.number() << 32).logit();
    let within = |distance: f64| centre.within((distance * LN_2) as f32);
    for bracket in brackets(row, of, centre.mean * LOG2_E, unit).await? {
        if let Some(unit) = list_bracket(row, of, bracket, within, unit).await? {
            row.lists.keys.iter_mut().for_each(|key| *key = by_distance(*key));
            if let Some(selected) = select_listed(row, unit, of.softmax, logit) {
                return Ok(f32::from_bits((selected.number() >> 32) as u32));
            }
        }
    }
    let query =
        |first, shift, width| SumByDistance { centre, last: of.last, first: first as u32, shift, width };
    let bits = radix_select(row, &DISTANCE_DIGITS, unit, query).await?.ok_or(NO_SUCH_UNIT)?;
    Ok(f32::from_bits(bits as u32))
}

/// The token in which unit number `unit` of the measure lies, counted from 0 in the order; `None` if there is
/// less.
pub(crate) async fn by_radix<R: RowAccess>(
    row: &mut Asker<'_, R>,
    measure: Measure,
    unit: u64,
) -> Result<Option<Key>, RowError> {
    let query = |first, shift, width| SumByKey { first: Key::from_number(first), shift, width, measure };
    Ok(radix_select(row, &SumByKey::DIGITS, unit, query).await?.map(Key::from_number))
}

/// A radix select: each pass sums the intervals of one digit and follows the interval that holds unit number
/// `unit`.
async fn radix_select<R: RowAccess, Q: Query>(
    row: &mut Asker<'_, R>,
    digits: &[(u8, u8)],
    mut unit: u64,
    query: impl Fn(u64, u8, u8) -> Q,
) -> Result<Option<u64>, RowError> {
    let mut first = 0;
    for &(shift, width) in digits {
        row.ask(&query(first, shift, width)).await?;
        let Some((interval, rest)) = SumByKey::interval_of(&row.lists.sums, unit) else { return Ok(None) };
        unit = rest;
        first += (interval as u64) << shift;
    }
    Ok(Some(first))
}

/// Where a sketch says that unit number `unit` lies, counted by the distance from `centre`, in powers of two
/// of weight.
async fn brackets<R: RowAccess>(
    row: &mut Asker<'_, R>,
    of: KeptMass,
    centre: f64,
    unit: u64,
) -> Result<[Bracket; 2], RowError> {
    let KeptMass { last, softmax, total } = of;
    row.ask(&Sketch { softmax }).await?;
    let lowest = (f64::from(last.logit()) - f64::from(softmax.x_max)) * f64::from(softmax.scale);
    let sketch = sketch::Sketch::new(&row.lists.sums, lowest, total);
    Ok(BRACKET_WIDTHS.map(|width| sketch.bracket(centre, unit, width)))
}

/// Lists the keys between the two distances of a bracket, and returns the number of the unit within their
/// mass; `None` if the unit lies nearer than they do, or they are too many.
async fn list_bracket<R: RowAccess>(
    row: &mut Asker<'_, R>,
    of: KeptMass,
    bracket: Bracket,
    within: impl Fn(f64) -> Option<Stretch>,
    unit: u64,
) -> Result<Option<u64>, RowError> {
    let Some(outer) = within(bracket.farther).filter(|_| bracket.tokens <= MAX_BAND as f64) else {
        return Ok(None);
    };
    let inner = bracket.nearer.and_then(&within);
    let KeptMass { last, softmax, .. } = of;
    // Capacity for the longest list at once: a later step with a longer list must not allocate.
    let keys = &mut row.lists.keys;
    keys.clear();
    keys.reserve(BAND_CAPACITY);
    let nearer = row.ask(&ListBand { inner, outer, last, softmax }).await?.total;
    let is_complete = row.lists.keys.len() <= MAX_BAND;
    Ok(if is_complete { unit.checked_sub(nearer) } else { None })
}

/// The listed key in which unit number `unit` of their mass lies; `None` if they have less.
fn select_listed<R>(
    row: &mut Asker<'_, R>,
    unit: u64,
    softmax: Softmax,
    logit: impl Fn(Key) -> f32 + Copy,
) -> Option<Key> {
    let passes = row.passes;
    select(
        &mut row.lists.keys,
        unit,
        |keys| vectorized!(passes, simd => head::mass(simd, keys, softmax, logit)),
    )
}

/// The key in which unit number `unit` of the listed mass lies; `None` if there is less.
fn select(keys: &mut [Key], mut unit: u64, mass: impl Fn(&[Key]) -> u64) -> Option<Key> {
    let mut keys = keys;
    while keys.len() > 1 {
        let middle = keys.len() / 2;
        keys.select_nth_unstable(middle);
        let (earlier, later) = keys.split_at_mut(middle);
        let mass = mass(earlier);
        keys = if unit < mass {
            earlier
        } else {
            unit -= mass;
            later
        };
    }
    keys.first().copied().filter(|&key| unit < mass(&[key]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::passes::Passes;
    use crate::kernels::row::Row;
    use crate::logits::access::answered;
    use crate::logits::answer::{AnswerPart, Lists};
    use crate::logits::edited::EditedRow;
    use crate::logits::slice::{Edits, Slice, SliceMemory};
    use crate::numeric::noise::Noise;
    use onedraw_testkit::rows;

    struct NoEdits;

    impl Edits for NoEdits {
        fn count(&self, _: usize) -> Option<usize> {
            None
        }

        fn mask(&mut self, _: usize, _: usize, _: &mut EditedRow<'_>) {}

        fn apply(&mut self, _: usize, _: usize, _: &mut EditedRow<'_>) {}

        fn protected(&self, _: u32, _: u32) -> &[u32] {
            &[]
        }
    }

    /// Every part of a vocabulary answers; passes of the radix select are counted.
    struct Parts<'a> {
        parts: Vec<Slice<'a, NoEdits>>,
        radix_passes: u32,
    }

    impl RowAccess for Parts<'_> {
        async fn ask<Q: Query>(&mut self, query: &Q, lists: &mut Lists) -> Result<Q::Answer, RowError> {
            lists.clear();
            self.radix_passes += u32::from(Q::KIND == SumByKey::KIND);
            let answers = self.parts.iter_mut().map(|part| query.answer(part, lists));
            Ok(answers.reduce(AnswerPart::merge).expect("at least one part"))
        }
    }

    /// How many of a row's units had to be searched for by the radix select.
    fn missed(row: &[f32], cuts: &[usize], temperature: f64, passes: Passes) -> usize {
        let mut memories = vec![SliceMemory::default(); cuts.len()];
        let ends = cuts[1..].iter().copied().chain([row.len()]);
        let noise = Noise { seed: 0, position: 0, sequence: 0, round: 0 };
        let parts = cuts.iter().zip(ends).zip(&mut memories).map(|((&start, end), memory)| {
            Slice::load(Row::from(&row[start..end]), start, NoEdits, noise, passes, memory)
        });
        let mut parts = Parts { parts: parts.collect(), radix_passes: 0 };
        let mut order: Vec<Key> = (0..).zip(row).map(|(token, &x)| Key::new(x, token)).collect();
        order.retain(|&key| key < Key::END);
        order.sort_unstable();
        let softmax = Softmax::new(order[0].logit(), temperature);
        let weights: Vec<u64> = order.iter().map(|key| softmax.weight(key.logit())).collect();
        let mut missed = 0;
        for kept in [order.len(), order.len() / 2 + 1] {
            let total: u64 = weights[..kept].iter().sum();
            let of = KeptMass { last: order[kept - 1], softmax, total };
            for share in [0.0, 0.01, 0.3, 0.5, 0.9, 0.95, 0.999, 1.0] {
                let unit = ((total as f64 * share) as u64).min(total - 1);
                let mut before = 0;
                let crossing = weights.iter().position(|weight| {
                    before += weight;
                    before > unit
                });
                let mut lists = Lists::default();
                parts.radix_passes = 0;
                let mut asker = Asker { row: &mut parts, lists: &mut lists, passes };
                let located = answered(by_mass(&mut asker, of, unit)).expect("a whole row");
                assert_eq!(Some(located), crossing.map(|place| order[place]), "{share} of {kept}");
                // Near the end of the mass too many tokens are left to be listed.
                missed += usize::from(parts.radix_passes > 0 && share < 0.99);
            }
        }
        missed
    }

    #[test]
    fn a_unit_is_found_where_the_order_has_it() {
        for passes in Passes::supported() {
            for seed in 0..6 {
                for row in [
                    rows::gaussian(seed, 40_000, 1.0),
                    rows::peaked(seed, 40_000),
                    rows::masked(seed, 9000, 0.9),
                ] {
                    let missed = missed(&row, &[0, 100, 101, 7000], 0.8, passes);
                    assert!(missed <= 1, "{missed} of 12 missed, {passes:?}");
                }
                for row in [rows::ties(seed, 30_000, 3), rows::denormal(seed, 500), rows::extreme(seed, 3000)]
                {
                    missed(&row, &[0, 64], 1.0, passes);
                }
            }
            for row in [vec![2.5], vec![-1.0, 2.0], rows::flat(70, 3.0), rows::flat(40_000, -3.0)] {
                missed(&row, &[0], 1.0, passes);
            }
        }
    }

    #[test]
    fn units_are_selected_in_any_list() {
        let softmax = Softmax::new(4.0, 0.3);
        for distinct in [1, 2, 50, 1000] {
            let row = rows::ties(distinct as u64, 777, distinct);
            let mut keys: Vec<Key> = (0..).zip(&row).map(|(token, &x)| Key::new(x.min(4.0), token)).collect();
            let mass = |keys: &[Key]| vectorized!(Passes::default(), simd => head::mass(simd, keys, softmax, Key::logit));
            let total = mass(&keys);
            for step in 0..100 {
                let unit = total / 100 * step;
                let selected = select(&mut keys, unit, mass).expect("there is as much");
                let earlier: Vec<Key> = keys.iter().copied().filter(|&key| key < selected).collect();
                let before = mass(&earlier);
                assert!(before <= unit && unit < before + softmax.weight(selected.logit()));
            }
            assert_eq!(select(&mut keys, total, mass), None);
        }
        assert_eq!(select(&mut [], 0, |_| 0), None);
    }
}
